"""Reading a source takes time in proportion to its length, whatever it repeats."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from kernelwright.contracts.cuda.emulate.refuse import NotEmulatedError, without_comments
from kernelwright.contracts.cuda.emulate.translate import host_source

LENGTH = 200_000
SECONDS = 10.0  # what is read over and over takes minutes or hours

PIECES = [
    "/* ",
    "/*",
    '"',
    '\\"',
    "'",
    'R"x(',
    "extern __shared__ ",
    "extern __shared__ __align__(",
    "a ",
    "#include <",
    'asm volatile("a" ',
    '"a" ',
    "1'",
]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("begin", ["", "extern __shared__ ", 'asm volatile("a" ', 'asm volatile("cp.async.wait_group'])
def test_a_source_that_repeats_itself_is_read_once(begin: str, piece: str) -> None:
    source = begin + piece * (LENGTH // len(piece))
    start = time.process_time()
    with suppress(NotEmulatedError):
        host_source(source)
    assert time.process_time() - start < SECONDS


def test_declarations_that_never_end_are_read_once() -> None:
    start = time.process_time()
    host_source("extern __shared__ " * (LENGTH // 40) + "a " * (LENGTH // 4))
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("a // b\nc", "a  \nc"),
        ("a // b \\\n still\nc", "a \n\nc"),
        ("a/* b\n\n */c", "a\n\nc"),
        ("int/**/x;", "int x;"),
        ('"//" /* */ "/*" b', '"//"   "/*" b'),
        ("'\"' // b", "'\"'  "),
        ("1'000 /* it's */ + 2'0'0;", "1'000   + 2'0'0;"),
        ('R"(" // )" // b', 'R"(" // )"  '),
        ("a /* b", "a  "),
    ],
)
def test_comments_are_taken_out_and_texts_are_not(source: str, left: str) -> None:
    assert without_comments(source) == left


def test_dynamic_shared_memory_becomes_a_pointer() -> None:
    made = host_source("extern __shared__ __align__(sizeof(float4)) unsigned char bytes[];")
    assert made == "unsigned char* const bytes = reinterpret_cast<unsigned char*>(kw::dynamic_shared);"
