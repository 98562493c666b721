"""What was built: its hash by what it does, the same from every checkout, folder and cache; and its system calls.

A library or a cubin also holds names of files (lines for sanitizers), symbol tables and the tool's own notes. They
differ between two builds of one source in two places, and no processor reads them, so they are left out.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator

MARK = "code:"  # hashes of before have none: they are of what went into a build, with the paths of its headers
_LEFT_OUT = (".debug", ".nv_debug", ".rela.debug", ".rel.debug", ".rel.nv_debug", ".rela.nv_debug", ".note", ".comment")
_TABLES = (".symtab", ".strtab", ".shstrtab", ".gnu_debuglink")
_NO_BITS = 8
# Instructions that enter the operating system.
SYSTEM_CALLS = {b"\x0f\x05": "syscall", b"\x0f\x34": "sysenter", b"\xcd\x80": "int 0x80"}
_LOADED, _EXECUTABLE, _PAGE = 1, 1, 4096


def code_hash(modules: Iterable[bytes]) -> str:
    """Of all that is code or data for it. A module that is not an ELF file counts whole."""
    whole = hashlib.sha256()
    for module in modules:
        try:
            parts = sorted((name.encode(), content) for name, content in sections(module) if _counts(name))
        except (struct.error, IndexError, ValueError):
            parts = [(b"", module)]
        for name, content in parts:
            whole.update(len(name).to_bytes(8, "little") + name + len(content).to_bytes(8, "little") + content)
    return MARK + whole.hexdigest()


def _counts(name: str) -> bool:
    return name not in _TABLES and not name.startswith(_LEFT_OUT)


def sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """The names and contents of a 64-bit ELF file's sections."""
    if not elf.startswith(b"\x7fELF"):
        raise ValueError("not an ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + number * size) for number in range(count)]
    names = headers[names_at][4]
    for header in headers:
        start = names + header[0]
        empty = header[1] == _NO_BITS
        name = elf[start : elf.index(b"\0", start)].decode()
        yield name, b"" if empty else elf[header[4] : header[4] + header[5]]


def system_call_in(library: bytes) -> str | None:
    """An instruction that enters the operating system and whose bytes are in the code, by name. At every byte, not only
    where an instruction begins: code can jump into the middle of one. Raises struct.error if it is not a library."""
    for content in _mapped_code(library):
        for pattern, name in SYSTEM_CALLS.items():
            if pattern in content:
                return name
    return None


def _mapped_code(library: bytes) -> Iterator[bytes]:
    """Whole pages: what lies in the file beside a segment of code is mapped with it, and can be jumped to."""
    (table,) = struct.unpack_from("<Q", library, 32)
    size, count = struct.unpack_from("<HH", library, 54)
    for number in range(count):
        kind, flags, offset, _, _, filled = struct.unpack_from("<IIQQQQ", library, table + number * size)
        if kind == _LOADED and flags & _EXECUTABLE:
            yield library[offset // _PAGE * _PAGE : -(-(offset + filled) // _PAGE) * _PAGE]
