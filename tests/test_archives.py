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
