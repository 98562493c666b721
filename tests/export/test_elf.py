"""What is looked for in a library before it is loaded. Every hostile source is built as a candidate would be."""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.contracts import Candidate
from kernelwright.contracts.host_build import Built, build
from kernelwright.export import elf
from kernelwright.export.elf import UnsafeObjectError, inspect
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.resolve import declared
from tests.export import making

HEAD = "#include <kernelwright.h>\n#include <cmath>\n"
BODY = "void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> out) { out(0, 0) = x(0, 0); {} }\n"


@cache
def built(extra: str = "", inside: str = "") -> bytes:
    task = declared("softmax")
    source = HEAD + extra + "\n" + BODY.replace("{}", inside)
    made = build(Candidate("cpp", source), signature(task, task.public_workloads()[0]))
    assert isinstance(made, Built), made
    return made.library.read_bytes()


HOSTILE = {
    "a constructor": (
        "__attribute__((constructor)) static void early() { volatile int x = 1; (void)x; }",
        "",
        "constructor",
    ),
    "a static object": (
        "struct A { A(); int x; }; A::A() { x = 1; } static A a; void* keep() { return &a; }",
        "",
        "constructor",
    ),
    "a destructor": ("__attribute__((destructor)) static void late() { volatile int x = 1; (void)x; }", "", "unloaded"),
    "code in .init": ('asm(".section .init\\n nop\\n nop\\n .previous");', "", "runs when it is loaded"),
    "an entry in .init_array": (
        'asm(".section .init_array\\n .quad 0\\n .previous");',
        "",
        "constructor",
    ),
    "a gmon start": ('extern "C" void __gmon_start__() { volatile int x = 1; (void)x; }', "", "runs when it is loaded"),
    "a system call": ("", 'asm volatile("syscall" ::: "rcx", "r11", "memory");', "system call (syscall)"),
    "an old system call": ("", 'asm volatile("int $0x80" ::: "memory");', "system call (int 0x80)"),
    "one in the middle of an instruction": (
        "",
        'asm volatile("movl $0x00c3050f, %%eax" ::: "eax");',
        "system call (syscall)",
    ),
    "a file": ("#include <cstdio>", 'std::fopen("/etc/passwd", "r");', "'fopen'"),
    "the environment": ("#include <cstdlib>", 'if (std::getenv("KERNELWRIGHT")) out(0, 0) = 1;', "'getenv'"),
    "a library by name": ("#include <dlfcn.h>", 'dlopen("libc.so.6", 1);', "'dlopen'"),
    "a thread's destructor": (
        "struct D { int x = 0; ~D(); }; D::~D() { x = 1; }",
        "thread_local D d; d.x = (int)x(0, 0);",
        "__cxa_thread_atexit",
    ),
    "a chosen function": (
        'extern "C" { static void one() {} static void (*choose())() { return one; } }\n'
        '__attribute__((ifunc("_ZL6choosev"))) void chosen();\n',
        "chosen();",
        "IFUNC",
    ),
    "an executed stack": ('asm(".section .note.GNU-stack,\\"x\\",@progbits\\n .previous");', "", "stack"),
    "another library's name": (
        'extern "C" __attribute__((visibility("default"))) void* malloc(unsigned long) { return nullptr; }',
        "",
        "'malloc'",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_objects_are_refused(name: str) -> None:
    extra, inside, said = HOSTILE[name]
    with pytest.raises(UnsafeObjectError) as caught:
        inspect(built(extra.replace("_ZL6choosev", "choose"), inside))
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "path", sorted(making.KERNELS.glob("*/*.cpp"))[::6], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_honest_kernels_are_taken(path: Path) -> None:
    task = declared(path.parent.name.replace("_backward", ":backward"))
    made = build(Candidate("cpp", path.read_text(), path.name), signature(task, task.public_workloads()[0]))
    assert isinstance(made, Built)
    assert inspect(made.library.read_bytes()).imports


def test_variables_that_outlive_a_call_are_noticed() -> None:
    assert inspect(built()).stateless
    kept = built("static float kept[64];", "kept[1] += x(0, 0); out(0, 0) = kept[1];")
    assert not inspect(kept).stateless


def _segment(raw: bytes, kind: int) -> int:
    (table,) = struct.unpack_from("<Q", raw, 32)
    size, count = struct.unpack_from("<HH", raw, 54)
    return next(table + n * size for n in range(count) if struct.unpack_from("<I", raw, table + n * size)[0] == kind)


def test_memory_that_is_written_and_executed_is_refused() -> None:
    raw = bytearray(built())
    (table,) = struct.unpack_from("<Q", raw, 32)
    size, count = struct.unpack_from("<HH", raw, 54)
    for number in range(count):
        kind, flags = struct.unpack_from("<II", raw, table + number * size)
        if kind == 1 and flags & 1:
            struct.pack_into("<I", raw, table + number * size + 4, flags | 2)
    with pytest.raises(UnsafeObjectError, match="written and executed"):
        inspect(bytes(raw))


def test_a_search_path_is_refused() -> None:
    raw = bytearray(built())
    start = struct.unpack_from("<Q", raw, _segment(raw, 2) + 8)[0]
    while struct.unpack_from("<Q", raw, start)[0] != 0x6FFFFFF9:  # DT_RELACOUNT, which nothing needs
        start += 16
    struct.pack_into("<Q", raw, start, 29)
    with pytest.raises(UnsafeObjectError, match="RUNPATH"):
        inspect(bytes(raw))


@given(st.data())
def test_damage_is_refused_in_one_line_or_leaves_a_library(data: st.DataObject) -> None:
    raw = bytearray(built())
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, min(len(raw), 4096) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(raw), len(raw) // 2, 100, 10, 0]))
    try:
        inspect(bytes(raw[:cut]))
    except UnsafeObjectError as error:
        assert "\n" not in str(error)


def test_the_layout_that_the_runtime_passes_is_the_contracts() -> None:
    from kernelwright.export.standalone.host import HostArgument

    assert ctypes.sizeof(HostArgument) == 8 + 8 * 8 + 8 * 8 + 8 + 8


def _by_hand(place: int, info: int, addend: int, section: str = ".rela.data") -> str:
    return f'asm(".section {section},\\"a\\",@progbits\\n .quad {place}, {info}, {addend}\\n .previous");'


def _slots() -> dict[str, int]:
    """Addresses in a library without extras, which hand-written relocations hardly move."""
    made = elf._parsed(built())
    dynamic = next(one for one in made.segments if one.kind == elf.PT_DYNAMIC)
    return {"init": made.only(elf.INIT_ARRAY), "dynamic": dynamic.address + 8, "outside": 1 << 40, "code": 0x1000}


@pytest.mark.parametrize("slot", ["init", "dynamic", "outside", "code"])
def test_relocations_that_a_source_writes_are_refused(slot: str) -> None:
    """They would put an address of its choice where the loader calls, or anywhere at all."""
    with pytest.raises(UnsafeObjectError, match="relocation"):
        inspect(built(_by_hand(_slots()[slot], 8, 0x1040)))


@pytest.mark.parametrize("info", [(4000 << 32) | 6, 5, 37])
def test_relocations_of_unknown_kinds_and_symbols_are_refused(info: int) -> None:
    with pytest.raises(UnsafeObjectError, match=r"relocations that our builder|IFUNC"):
        inspect(built(_by_hand(_slots()["init"] + 0x1B8, info, 0)))


def test_an_unknown_tag_is_refused() -> None:
    raw = bytearray(built())
    start = struct.unpack_from("<Q", raw, _segment(raw, 2) + 8)[0]
    while struct.unpack_from("<Q", raw, start)[0] != 0x6FFFFFF9:
        start += 16
    struct.pack_into("<Q", raw, start, 36)  # DT_RELR: relocations of another form
    with pytest.raises(UnsafeObjectError, match="tag 0x24"):
        inspect(bytes(raw))


def test_variables_are_noticed_under_any_section() -> None:
    kept = built(
        '__attribute__((section(".mine"))) static float kept[64] = {1};', "kept[1] += x(0, 0); out(0, 0) = kept[1];"
    )
    assert not inspect(kept).stateless


def test_code_is_what_is_mapped_with_it() -> None:
    """A system call behind the end of a segment, in its last page, could be jumped to."""
    raw = bytearray(built())
    made = elf._parsed(bytes(raw))
    code = next(one for one in made.segments if one.kind == elf.PT_LOAD and one.flags & 1)
    raw[code.offset + code.size + 16 : code.offset + code.size + 18] = b"\x0f\x05"
    with pytest.raises(UnsafeObjectError, match="system call"):
        inspect(bytes(raw))
