"""Archives of results: a .tar.xz of plain files, addressed as ARCHIVE::MEMBER.

An archive may come from a stranger, so it is read whole into memory within fixed limits, holds plain files under plain
relative names and nothing else (no links, no devices, no sparse files), and its files reach the disk only below a
directory that the caller made. What is written is a function of the files alone: sorted, without times or owners.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import re
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernelwright.errors import KernelwrightError
from kernelwright.paths import cache_dir, write_whole

SUFFIX = ".tar.xz"
SEPARATOR = "::"
MAX_PACKED_BYTES = 64 << 20
MAX_BYTES = 256 << 20  # of all files together
MAX_FILES = 20_000
MAX_HEADERS = 3 * MAX_FILES  # of files, of directories, and of names too long for a header
MAX_EXTENDED_BYTES = 4 << 10  # of the header that has such a name
MAX_EXTENDED = 2  # of them for one file
MAX_NAME_BYTES, MAX_PART_BYTES, MAX_DEPTH = 1024, 255, 16
DECODER_BYTES = 128 << 20  # of memory for the decoder; the strongest preset needs 65 MiB


_BLOCK = tarfile.BLOCKSIZE
_SIZE = slice(124, 136)
_KIND = slice(156, 157)
_OCTAL = re.compile(rb" *[0-7]+[ \0]*")
_EXTENDED = (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME)
_MOVES_WHAT_FOLLOWS = re.compile(rb"\d (size|GNU\.sparse[^=]*)=")


class ArchiveError(KernelwrightError):
    """A file that is not an archive of plain files, or is larger than an archive may be."""


@dataclass(frozen=True)
class ResultArchive:
    path: Path
    files: Mapping[str, bytes]

    def below(self, folder: str) -> dict[str, bytes]:
        """The files of one folder, by their names in it."""
        start = f"{folder.rstrip('/')}/"
        return {name.removeprefix(start): raw for name, raw in self.files.items() if name.startswith(start)}

    def folders(self) -> list[str]:
        """The names at its top that are folders."""
        return sorted({name.split("/", 1)[0] for name in self.files if "/" in name})


def is_archive(path: Path) -> bool:
    return path.name.endswith(SUFFIX) and path.is_file()


def split_name(given: str) -> tuple[Path, str] | None:
    """The archive and the member that ARCHIVE::MEMBER names. None where no archive is named."""
    path, _, member = given.partition(SEPARATOR)
    return (Path(path), member) if path.endswith(SUFFIX) else None


def read_archive(path: Path) -> ResultArchive:
    try:
        packed = path.read_bytes() if path.stat().st_size <= MAX_PACKED_BYTES else None
    except OSError as error:
        raise ArchiveError(f"{path}: {error.strerror}; give the path of the archive") from None
    if packed is None:
        raise ArchiveError(f"{path}: is larger than an archive of results may be ({MAX_PACKED_BYTES >> 20} MiB)")
    try:
        raw = _decoded(packed, path)
        _check_headers(raw, path)
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as tar:
            return ResultArchive(path, _files(tar, path))
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, OverflowError) as error:
        raise ArchiveError(f"{path}: is not an archive of results ({type(error).__name__})") from None


def write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    """Writes all of it or none of it; the same files give the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(files):
            member = tarfile.TarInfo(_plain(name, path))
            member.size, member.mode = len(files[name]), 0o644
            tar.addfile(member, io.BytesIO(files[name]))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(files: Mapping[str, bytes], folder: Path) -> None:
    """Writes files below a directory of the caller's."""
    for name, raw in files.items():
        target = folder / _plain(name, folder)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(raw)
        except OSError as error:
            raise ArchiveError(f"{folder}: {name!r:.80} cannot be written there ({error.strerror})") from None


def cached_folder(path: Path, folder: str) -> Path:
    """One folder of an archive on disk, below the cache, so that what is said to lie there can be looked at."""
    archive = read_archive(path)
    files = archive.below(folder)
    if not files:
        which = f"has no folder {folder!r:.80}" if folder else f"name a folder of it, as in {path.name}{SEPARATOR}NAME"
        raise ArchiveError(f"{path}: {which}; it has {', '.join(archive.folders()) or 'none'}")
    target = cache_dir("archives", _digest(files)[:32]) / _plain(folder.rstrip("/"), path)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as name:
            fresh = Path(name) / "fresh"
            unpack(files, fresh)
            fresh.rename(target)
    return target


def _digest(files: Mapping[str, bytes]) -> str:
    """With the length of every part, so that no two sets of files are the same bytes one after another."""
    whole = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
    return whole.hexdigest()


def pack(folder: Path) -> dict[str, bytes]:
    """The plain files below a directory, for `write_archive`."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _decoded(packed: bytes, path: Path) -> bytes:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=DECODER_BYTES)
    raw = decoder.decompress(packed, max_length=MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ArchiveError(f"{path}: unpacks to more than an archive of results may hold ({MAX_BYTES >> 20} MiB)")
    if not decoder.eof or decoder.unused_data:
        raise ArchiveError(f"{path}: is cut off, or has something after its end")
    return raw


def _check_headers(raw: bytes, path: Path) -> None:
    """One pass over the headers before tarfile reads them, which takes the square of a long one's length, follows them
    by recursion, and has several ways to say how long a file is. What it would read otherwise than this is refused."""
    place = count = extended = 0
    while any(header := raw[place : place + _BLOCK]):
        count += 1
        kind, size = header[_KIND], header[_SIZE]
        if count > MAX_HEADERS:
            raise ArchiveError(f"{path}: holds more than {MAX_HEADERS:,} files, directories and long names")
        if len(header) < _BLOCK or not _OCTAL.fullmatch(size):
            raise ArchiveError(f"{path}: is not an archive of results (a header is cut off, or has no plain size)")
        length = int(size.strip(b" \0"), 8)
        place += _BLOCK
        if kind in _EXTENDED:
            extended += 1
            content = raw[place : place + min(length, MAX_EXTENDED_BYTES)]
            if length > MAX_EXTENDED_BYTES or extended > MAX_EXTENDED or _MOVES_WHAT_FOLLOWS.search(content):
                raise ArchiveError(f"{path}: has a header that is longer, or says more, than a name needs")
        elif kind == tarfile.REGTYPE or (kind == tarfile.DIRTYPE and not length):
            extended = 0
        else:
            raise ArchiveError(f"{path}: holds something that is not a plain file (of kind {kind!r})")
        place += -(-length // _BLOCK) * _BLOCK


def _files(tar: tarfile.TarFile, path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for member in tar:
        if member.isdir():
            continue
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
            raise ArchiveError(f"{path}: holds something that is not a plain file ({member.name!r:.80})")
        name = _plain(member.name, path)
        if name in files or len(files) >= MAX_FILES:
            raise ArchiveError(f"{path}: holds {name!r:.80} twice, or more than {MAX_FILES:,} files")
        content = tar.extractfile(member)
        assert content is not None  # it is a plain file
        files[name] = content.read()
        if len(files[name]) != member.size:
            raise ArchiveError(f"{path}: {name!r:.80} is cut off")
    return files


def _plain(name: str, path: Path) -> str:
    """A relative name without anything that leads elsewhere or that a terminal would obey."""
    parts = PurePosixPath(name).parts
    bad = name.startswith("/") or "\\" in name or not name.isprintable() or ".." in parts
    if bad or not parts or "/".join(parts) != name.removeprefix("./"):
        raise ArchiveError(f"{path}: has a file with a name that is not plain ({name!r:.80})")
    longest = max(len(part.encode()) for part in parts)
    if len(name.encode()) > MAX_NAME_BYTES or longest > MAX_PART_BYTES or len(parts) > MAX_DEPTH:
        raise ArchiveError(f"{path}: has a file with a name that is too long, or in too many folders ({name!r:.80})")
    return name.removeprefix("./")
