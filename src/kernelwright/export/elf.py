"""Reads a shared library before it is loaded, and refuses what a kernel has no need of.

The library was built by our own builder with fixed flags from a source that a judge accepted. This is a second lock: it
shows that nothing of the source runs when the library is loaded, that it reaches the system only through the functions
listed here, and that no byte of its code begins an instruction that enters the kernel. It does not show what the code
does with the memory of the process that it is loaded into (docs/export.md).
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelwright.contracts.artefact import system_call_in
from kernelwright.errors import KernelwrightError

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 3, 0x6474E551, 0x6474E552
EXECUTABLE, WRITABLE = 1, 2
NULL, NEEDED, PLTRELSZ, STRTAB, SYMTAB, RELA, RELASZ = 0, 1, 2, 5, 6, 7, 8
INIT, FINI, RPATH, TEXTREL, JMPREL, INIT_ARRAY, FINI_ARRAY = 12, 13, 15, 22, 23, 25, 26
INIT_ARRAYSZ, FINI_ARRAYSZ, RUNPATH, PREINIT_ARRAY = 27, 28, 29, 32
AUDIT, DEPAUDIT, FILTER, AUXILIARY = 0x6FFFFEFC, 0x6FFFFEFB, 0x7FFFFFFF, 0x7FFFFFFD
REFUSED_TAGS = {
    RPATH: "a search path for libraries (RPATH)",
    RUNPATH: "a search path for libraries (RUNPATH)",
    TEXTREL: "relocations in its code",
    PREINIT_ARRAY: "functions that run when it is loaded",
    AUDIT: "an auditing library",
    DEPAUDIT: "an auditing library",
    FILTER: "a filter library",
    AUXILIARY: "an auxiliary library",
}
# All that our linker writes beside: tables and their sizes, a name, versions, flags. What is not known is refused.
FLAGS, FLAGS_1, RELAENT, SYMENT, PLTREL = 30, 0x6FFFFFFB, 9, 11, 20
KNOWN_TAGS = frozenset(
    {NEEDED, PLTRELSZ, 3, 4, STRTAB, SYMTAB, RELA, RELASZ, RELAENT, 10, SYMENT, INIT, FINI, 14, 16, PLTREL, JMPREL, 24}
    | {INIT_ARRAY, FINI_ARRAY, INIT_ARRAYSZ, FINI_ARRAYSZ, FLAGS, FLAGS_1}
    | {0x6FFFFEF5, 0x6FFFFEF6, 0x6FFFFEF7, 0x6FFFFFF0, 0x6FFFFFF9, 0x6FFFFFFE, 0x6FFFFFFF}
)
FIXED = {RELAENT: 24, SYMENT: 24, PLTREL: RELA}
USUAL_FLAGS = {FLAGS: 0x1A, FLAGS_1: 0x9}  # symbolic, bound now, static TLS; bound now, never unloaded
X86_64, SHARED, IFUNC, IRELATIVE, WEAK = 62, 3, 10, 37, 2
# R_X86_64: 64, GLOB_DAT, JUMP_SLOT, RELATIVE, DTPMOD64, DTPOFF64, TPOFF64, TLSDESC, and the bytes that each writes.
RELOCATIONS = {1: 8, 6: 8, 7: 8, 8: 8, 16: 8, 17: 8, 18: 8, 36: 16}
PAGE = 4096
SYMBOL_BYTES, RELA_BYTES, DYNAMIC_BYTES, HEADER_BYTES = 24, 24, 16, 56
MAX_SYMBOLS = 1 << 16
# The C runtime's own _init and _fini, as every library has them: they call __gmon_start__ if there is one, or nothing.
STARTUP_BYTES = 27
STARTUP = {
    INIT: re.compile(
        rb"(\xf3\x0f\x1e\xfa)?\x48\x83\xec\x08\x48\x8b\x05.{4}\x48\x85\xc0\x74\x02\xff\xd0\x48\x83\xc4\x08\xc3",
        re.DOTALL,
    ),
    FINI: re.compile(rb"(\xf3\x0f\x1e\xfa)?\x48\x83\xec\x08\x48\x83\xc4\x08\xc3", re.DOTALL),
}
STATE_BYTES = 16  # what the C runtime's own variables take
LIBRARIES = frozenset(
    {"libc.so.6", "libm.so.6", "libgomp.so.1", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
)
RUNTIME = frozenset({"__gmon_start__", "_ITM_registerTMCloneTable", "_ITM_deregisterTMCloneTable", "__cxa_finalize"})
MEMORY = frozenset(
    {"memcpy", "memmove", "memset", "memcmp", "malloc", "calloc", "free", "aligned_alloc", "posix_memalign"}
)
CPP = re.compile(
    r"_Zn[wa]m(St11align_val_t)?(RKSt9nothrow_t)?|_Zd[la]Pvm?(St11align_val_t)?(RKSt9nothrow_t)?"
    r"|_ZSt\d+__throw_\w+|__cxa_(guard_acquire|guard_release|guard_abort|atexit|begin_catch|end_catch|rethrow)"
    r"|__gxx_personality_v0|_Unwind_Resume|_ZSt9terminatev|__stack_chk_fail|__tls_get_addr|abort"
)
OPENMP = re.compile(r"GOMP_(parallel|barrier|atomic|loop|single|critical|sections|taskloop|ordered)\w*|omp_get_\w+")
MATH = re.compile(
    r"(a?(sin|cos|tan)h?|atan2|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sqrt|cbrt|hypot|erfc?|l?gamma|tgamma|floor"
    r"|ceil|trunc|round|l?lround|rint|l?lrint|nearbyint|fmod|remainder|fma|fmin|fmax|fdim|fabs|copysign|ldexp|frexp"
    r"|scalbl?n|ilogb|logb|modf|nextafter|sincos)[fl]?|_ZGV[bcdeN]\w+"
)
ENTRY = frozenset({"kw_run", "kw_prepare"})
STANDARD = re.compile(r"_Z(TI|TS|TV)?(N?K?St|N[VK]*St)")  # the standard library's own inline functions, which are weak


class UnsafeObjectError(KernelwrightError):
    """A library that is not loaded, and why."""


@dataclass(frozen=True)
class LoadSegment:
    kind: int
    flags: int
    offset: int
    address: int
    size: int
    memory: int


@dataclass(frozen=True)
class Inspected:
    """What is known of a library that may be loaded."""

    imports: frozenset[str]
    openmp: bool
    stateless: bool


@dataclass
class _Object:
    raw: bytes
    segments: list[LoadSegment] = field(default_factory=list)
    tags: dict[int, list[int]] = field(default_factory=dict)

    def at(self, address: int, size: int) -> bytes:
        """What is loaded there from the file."""
        for one in self.segments:
            if one.kind == PT_LOAD and one.address <= address and address + size <= one.address + one.size:
                start = one.offset + address - one.address
                return self.raw[start : start + size]
        raise UnsafeObjectError("it refers to memory that it does not have")

    def from_(self, address: int, most: int) -> bytes:
        """As `at`, or less where the segment ends before."""
        return next((self.at(address, size) for size in range(most, 0, -1) if self._has(address, size)), b"")

    def _has(self, address: int, size: int) -> bool:
        loaded = (one for one in self.segments if one.kind == PT_LOAD)
        return any(one.address <= address and address + size <= one.address + one.size for one in loaded)

    def only(self, tag: int, default: int = 0) -> int:
        found = self.tags.get(tag, [default])
        if len(found) > 1:
            raise UnsafeObjectError("a part of it is there twice")
        return found[0]

    def text(self, offset: int) -> str:
        start = self.only(STRTAB) + offset
        found = b""
        while not found.endswith(b"\0") and len(found) < 4096:
            found += self.at(start + len(found), 1)
        return found[:-1].decode("ascii", "replace")


def inspect(raw: bytes) -> Inspected:
    """Refuses a library in one line, or says what there is to know of it."""
    try:
        made = _parsed(raw)
        _check_segments(made)
        _check_start(made)
        libraries = [made.text(offset) for offset in made.tags.get(NEEDED, [])]
        for name in libraries:
            if name not in LIBRARIES:
                raise UnsafeObjectError(f"it needs the library {name!r:.60}")
        imports = _check_symbols(made)
        _check_relocations(made)
        if (found := system_call_in(raw)) is not None:
            raise UnsafeObjectError(f"its code has the bytes of a system call ({found})")
        return Inspected(imports, "libgomp.so.1" in libraries, stateless=_stateless(made))
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise UnsafeObjectError(f"it is not a library as our builder makes them ({type(error).__name__})") from None


def _parsed(raw: bytes) -> _Object:
    if raw[:7] != b"\x7fELF\x02\x01\x01":
        raise UnsafeObjectError("it is not a 64-bit library")
    kind, machine = struct.unpack_from("<HH", raw, 16)
    if (kind, machine) != (SHARED, X86_64):
        raise UnsafeObjectError("it is not a shared library for x86-64, the only processor whose code is checked")
    (table,) = struct.unpack_from("<Q", raw, 32)
    size, count = struct.unpack_from("<HH", raw, 54)
    if size != HEADER_BYTES or not 0 < count < 64:
        raise UnsafeObjectError("its program headers are not as our builder makes them")
    made = _Object(raw)
    for number in range(count):
        kind, flags, offset, address, _, filled, memory, _ = struct.unpack_from("<IIQQQQQQ", raw, table + number * size)
        if offset + filled > len(raw) or filled > memory:
            raise UnsafeObjectError("a segment reaches beyond the file")
        made.segments.append(LoadSegment(kind, flags, offset, address, filled, memory))
    _read_tags(made)
    return made


def _read_tags(made: _Object) -> None:
    dynamic = [one for one in made.segments if one.kind == PT_DYNAMIC]
    if len(dynamic) != 1:
        raise UnsafeObjectError("it has not one dynamic section")
    content = made.at(dynamic[0].address, dynamic[0].size)  # as the loader reads it, by address
    for at in range(0, len(content), DYNAMIC_BYTES):
        tag, value = struct.unpack_from("<QQ", content, at)
        if tag == NULL:
            return
        made.tags.setdefault(tag, []).append(value)
    raise UnsafeObjectError("its dynamic section has no end")


def _check_segments(made: _Object) -> None:
    loaded = sorted((one for one in made.segments if one.kind == PT_LOAD), key=lambda one: one.address)
    for one in loaded:
        if one.flags & EXECUTABLE and one.flags & WRITABLE:
            raise UnsafeObjectError("it has memory that is both written and executed")
    for before, after in itertools.pairwise(loaded):
        if _page_end(before.address + before.memory) > after.address // PAGE * PAGE:  # whole pages are mapped
            raise UnsafeObjectError("two of its segments overlap")
    stacks = [one for one in made.segments if one.kind == PT_GNU_STACK]
    if not stacks or any(one.flags & EXECUTABLE for one in stacks):
        raise UnsafeObjectError("it asks for a stack that is executed")
    if any(one.kind == PT_INTERP for one in made.segments):
        raise UnsafeObjectError("it names a program interpreter")
    for tag, what in REFUSED_TAGS.items():
        if tag in made.tags:
            raise UnsafeObjectError(f"it has {what}")
    _check_tags(made)


def _check_tags(made: _Object) -> None:
    for tag, values in made.tags.items():
        if tag not in KNOWN_TAGS or (tag != NEEDED and len(values) > 1):
            raise UnsafeObjectError(f"its dynamic section has what our builder does not write (tag {tag:#x})")
        if tag in FIXED and values != [FIXED[tag]]:
            raise UnsafeObjectError("its tables are not as our builder lays them out")
        if tag in USUAL_FLAGS and values[0] & ~USUAL_FLAGS[tag]:
            raise UnsafeObjectError(f"it has flags that our builder does not set ({values[0]:#x})")


def _page_end(address: int) -> int:
    return -(-address // PAGE) * PAGE


def _check_start(made: _Object) -> None:
    """Nothing but the C runtime's own entry may run when it is loaded or unloaded: one of each, which are always there,
    so a second one is the source's."""
    for tag, what in ((INIT_ARRAYSZ, "loaded"), (FINI_ARRAYSZ, "unloaded")):
        if made.only(tag) > 8:
            raise UnsafeObjectError(f"it has functions that run when it is {what} (a constructor or destructor)")
    for tag, usual in STARTUP.items():
        start = made.only(tag)
        if start and not usual.match(made.from_(start, STARTUP_BYTES)):
            raise UnsafeObjectError("it has code that runs when it is loaded or unloaded (in .init or .fini)")


def _symbol_count(made: _Object) -> int:
    """Their table ends where the strings begin, as linkers lay it out."""
    count, rest = divmod(made.only(STRTAB) - made.only(SYMTAB), SYMBOL_BYTES)
    if rest or not 0 < count <= MAX_SYMBOLS:
        raise UnsafeObjectError("its symbols are not as our builder lays them out")
    return count


def _symbols(made: _Object) -> Iterator[tuple[str, int, int, int]]:
    """Name, type, binding and section of every dynamic symbol."""
    start = made.only(SYMTAB)
    for number in range(1, _symbol_count(made)):
        name, info, _, section, _, _ = struct.unpack("<IBBHQQ", made.at(start + number * SYMBOL_BYTES, SYMBOL_BYTES))
        yield made.text(name), info & 15, info >> 4, section


def _check_symbols(made: _Object) -> frozenset[str]:
    imports = set()
    for name, kind, binding, section in _symbols(made):
        if kind == IFUNC:
            raise UnsafeObjectError(f"{name!r:.60} is chosen by code that runs when it is loaded (IFUNC)")
        if section == 0:
            if not _allowed(name):
                raise UnsafeObjectError(f"it uses {name!r:.60}, which is not on the list of what a kernel may use")
            imports.add(name)
        elif name not in ENTRY and not (binding == WEAK and STANDARD.match(name)):
            raise UnsafeObjectError(f"it offers {name!r:.60}, which could take the place of another library's")
    missing = sorted(RUNTIME - imports)
    if missing:  # the C runtime calls it on loading, if there is one
        raise UnsafeObjectError(f"it has a {missing[0]} of its own, which would run when it is loaded")
    return frozenset(imports)


def _allowed(name: str) -> bool:
    return name in RUNTIME | MEMORY or any(one.fullmatch(name) for one in (CPP, OPENMP, MATH))


def _check_relocations(made: _Object) -> None:
    """A source can write relocations by hand, in a section of the right name. So each must be of a kind that is known,
    name a symbol that was looked at, and write where no other does: every slot that the C runtime calls through has one
    of the linker's own already."""
    count = _symbol_count(made)
    written: list[tuple[int, int]] = []
    for table, size in ((RELA, RELASZ), (JMPREL, PLTRELSZ)):
        start, end = made.only(table), made.only(size)
        content = made.at(start, end) if start and end else b""
        for at in range(0, len(content), RELA_BYTES):
            place, info, _ = struct.unpack_from("<QQq", content, at)
            kind, symbol = info & 0xFFFFFFFF, info >> 32
            if kind == IRELATIVE:
                raise UnsafeObjectError("a function of it is chosen by code that runs when it is loaded (IFUNC)")
            if kind not in RELOCATIONS or symbol >= count:
                raise UnsafeObjectError("it has relocations that our builder does not write")
            written.append((place, RELOCATIONS[kind]))
    _check_written(made, sorted(written))


def _check_written(made: _Object, written: list[tuple[int, int]]) -> None:
    for (place, size), (after, _) in itertools.pairwise(written):
        if place + size > after:
            raise UnsafeObjectError("two of its relocations write to one place")
    own = [one for one in made.segments if one.kind == PT_LOAD and one.flags & WRITABLE]
    (dynamic,) = (one for one in made.segments if one.kind == PT_DYNAMIC)
    for place, size in written:
        inside = any(one.address <= place and place + size <= one.address + one.memory for one in own)
        if not inside or (place < dynamic.address + dynamic.memory and place + size > dynamic.address):
            raise UnsafeObjectError("a relocation of it writes where none has to")


def _stateless(made: _Object) -> bool:
    """Whether it has no variables of its own that outlive a call, beside the C runtime's: by what stays writable once
    it is loaded, whatever its sections are called."""
    protected = {one.address: one.memory for one in made.segments if one.kind == PT_GNU_RELRO}
    left = 0
    for one in made.segments:
        if one.kind == PT_LOAD and one.flags & WRITABLE:
            fixed = (one.address + protected.get(one.address, 0)) // PAGE * PAGE
            left += one.address + one.memory - max(fixed, one.address)
    return left <= STATE_BYTES
