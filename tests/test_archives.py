"""Archives of results: the same files give the same bytes, and nothing that a stranger packs leads anywhere."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import pytest

from kernelwright import archives
from kernelwright.archives import ArchiveError, cached_folder, pack, read_archive, split_name, unpack, write_archive

FILES = {"task/kernel.cu": b"kernel", "task/one-0123abcd.json": b"{}", "top.json": b"[]"}


def packed(path: Path, *members: tarfile.TarInfo, content: bytes = b"") -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:") as tar:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))
    path.write_bytes(lzma.compress(raw.getvalue()))
    return path


def link(kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo("innocent.json")
    member.type, member.linkname = kind, "/etc/passwd"
    return member


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "results.tar.xz"
    write_archive(path, FILES)
    archive = read_archive(path)
    assert dict(archive.files) == FILES and archive.folders() == ["task"]
    assert archive.below("task") == {"kernel.cu": b"kernel", "one-0123abcd.json": b"{}"}


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    write_archive(tmp_path / "one.tar.xz", FILES)
    unpack(FILES, tmp_path / "folder")
    write_archive(tmp_path / "two.tar.xz", pack(tmp_path / "folder"))
    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "two.tar.xz").read_bytes()


@pytest.mark.parametrize("name", ["/etc/cron.d/x", "../x", "a/../../x", "a//b", "a\\b", "a\x1b[2J", "."])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match="not plain"):
        read_archive(packed(tmp_path / "x.tar.xz", tarfile.TarInfo(name), content=b"x"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_what_is_not_a_plain_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(ArchiveError, match="not a plain file"):
        read_archive(packed(tmp_path / "x.tar.xz", link(kind)))


def header(kind: bytes, length: int, size: bytes = b"") -> bytes:
    """A header as tarfile takes it, of any kind and any length."""
    member = tarfile.TarInfo("name")
    member.type, member.size = kind, length
    made = member.tobuf(tarfile.USTAR_FORMAT)
    if size:
        blank = made[:124] + size + made[136:148] + b" " * 8 + made[156:]
        made = blank[:148] + b"%06o\0 " % sum(blank) + blank[156:]
    return made


def blocks(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


END = bytes(1024)
DIGITS = b"1" * 500_000
PLAIN = header(b"0", 0)


@pytest.mark.parametrize(
    "raw",
    [
        header(b"x", len(DIGITS)) + blocks(DIGITS) + PLAIN,  # tarfile looks for records in it for hours
        header(b"g", len(DIGITS)) + blocks(DIGITS) + PLAIN,
        header(b"L", len(DIGITS)) + blocks(DIGITS) + PLAIN,
        (header(b"x", 512) + blocks(b"11 path=abc\n")) * 2000 + PLAIN,  # tarfile follows each by a call
        header(b"5", 0) * 70_000,
        header(b"x", 12) + blocks(b"12 size=512\n") + PLAIN + header(b"x", len(DIGITS)) + blocks(DIGITS),
        header(b"5", 512) + header(b"x", len(DIGITS)) + blocks(DIGITS),  # tarfile does not pass over its content
        header(b"0", 0, b"\x80" + bytes(10) + b"\1") + blocks(b"x"),
        header(b"0", 0, b"0o1_0".ljust(12, b"\0")) + blocks(b"x"),
        header(b"\0", 0) + header(b"S", 0),
    ],
)
def test_a_header_that_is_more_than_a_name_is_refused_before_tarfile_sees_it(
    tmp_path: Path, raw: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.tar.xz"
    path.write_bytes(lzma.compress(raw + END, preset=0))
    monkeypatch.setattr(tarfile, "open", lambda **_: pytest.fail("it was given to tarfile"))
    with pytest.raises(ArchiveError, match=r"x\.tar\.xz: (has|holds|is not an archive)"):
        read_archive(path)


def test_long_names_are_written_and_read(tmp_path: Path) -> None:
    files = {f"{'a' * 200}/{'é' * 100}/file": b"x" * 600, "size=4/12 b": b"y"}
    write_archive(tmp_path / "x.tar.xz", files)
    assert dict(read_archive(tmp_path / "x.tar.xz").files) == files


@pytest.mark.parametrize("name", ["a" * 256, "/".join("a" * 17), "/".join(["a" * 200] * 6)])
def test_a_name_that_no_disk_takes_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match="too long, or in too many folders"):
        read_archive(packed(tmp_path / "x.tar.xz", tarfile.TarInfo(name), content=b"x"))


def test_one_line_for_a_file_where_a_folder_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"'a/b' cannot be written there"):
        unpack({"a": b"", "a/b": b""}, tmp_path)


def test_other_files_have_another_place_in_the_cache(tmp_path: Path) -> None:
    """Also where names and contents, one after another, are the same bytes."""
    places = set()
    for number, files in enumerate(({"t/a": b"1b\x002"}, {"t/a": b"1", "t/b": b"2"})):
        write_archive(tmp_path / f"{number}.tar.xz", files)
        places.add(cached_folder(tmp_path / f"{number}.tar.xz", "t"))
    assert len(places) == 2


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="twice"):
        read_archive(packed(tmp_path / "x.tar.xz", tarfile.TarInfo("a"), tarfile.TarInfo("a")))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 1 << 20)
    with pytest.raises(ArchiveError, match="unpacks to more"):
        read_archive(packed(tmp_path / "x.tar.xz", tarfile.TarInfo("a"), content=bytes(4 << 20)))


@pytest.mark.parametrize("raw", [b"", b"nothing", lzma.compress(b"no archive" * 400)])
def test_what_is_not_an_archive_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "x.tar.xz"
    path.write_bytes(raw)
    with pytest.raises(ArchiveError):
        read_archive(path)


def test_one_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.xz"
    write_archive(path, FILES)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ArchiveError):
        read_archive(path)


def test_a_folder_is_unpacked_below_the_cache_once(tmp_path: Path) -> None:
    write_archive(tmp_path / "x.tar.xz", FILES)
    folder = cached_folder(tmp_path / "x.tar.xz", "task")
    assert pack(folder) == {"kernel.cu": b"kernel", "one-0123abcd.json": b"{}"}
    assert cached_folder(tmp_path / "x.tar.xz", "task") == folder
    with pytest.raises(ArchiveError, match="no folder 'tas'; it has task"):
        cached_folder(tmp_path / "x.tar.xz", "tas")


def test_only_a_name_with_the_suffix_is_an_archives() -> None:
    assert split_name("a/b.tar.xz::c/d") == (Path("a/b.tar.xz"), "c/d")
    assert split_name("a/b.tar.xz") == (Path("a/b.tar.xz"), "")
    assert split_name("rmsnorm-0123") is None and split_name("a::b.tar.xz") is None
