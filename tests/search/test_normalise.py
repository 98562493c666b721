"""Duplicates: comments and layout do not make another program; anything else does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.contracts import Candidate
from kernelwright.contracts.normalise import _tokens, normalised_c_like, normalised_python
from kernelwright.contracts.registry import fingerprint
from tests.hostile import LENGTH, long, quickly

SOURCE = """\
#include <kernelwright.h>
#define TILE (8)
// a comment
void kernel(int n) {
  const char* s = "// no comment";  /* one */
  for (int i = 0; i < n; ++i) use(i, 1'000, 0x1p-3, '\\'');
}
"""


def same(one: str, other: str) -> bool:
    return normalised_c_like(one) == normalised_c_like(other)


def test_comments_and_layout_do_not_count() -> None:
    shuffled = (
        "#include <kernelwright.h>  // why\n\n\n#define TILE (8)\r\nvoid kernel( int n )\n{"
        ' const char*s="// no comment";'
        "for(int i=0;i<n;++i)/* all\nof them */use(i,1'000,0x1p-3,'\\'');}"
    )
    assert same(SOURCE, shuffled)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a;", "int b;"),
        ('x = "a b";', 'x = "ab";'),
        ('x = "//";', 'x = "";'),
        ("a + +b;", "a ++b;"),
        ("a - -b;", "a--b;"),
        ("int x;", "intx;"),
        ("#define f (x)", "#define f(x)"),
        ("#define A 1\nint b;", "#define A 1 int b;"),
        ("#pragma omp simd\nfor(;;);", "for(;;);"),
        ('R"(// a)"', 'R"()"'),
        ("1'000", "1000'"),
        ("'/*'; a; '*/'", "'/*'; b; '*/'"),
        ("f(); // \\ \ng();\nh();", "f();\ng();\nh();"),  # g++ takes g() for a part of the comment
        ("f(); // \\\t\f\v\ng();\nh();", "f();\ng();\nh();"),
        ("f(); // \\ \r\ng();\nh();", "f();\ng();\nh();"),
        ("static\\\nint a;", "static int a;"),
        ("a +\\\n+ b;", "a + + b;"),
        ("/\\\n/ f();\ng();", "/ / f();\ng();"),
        ('R"(a\\\nb)"', 'R"(ab)"'),
        ("%:define A 1\nint b;", "%:define A 1 int b;"),
        ("%:define f (x)", "%:define f(x)"),
    ],
)
def test_what_means_something_counts(one: str, other: str) -> None:
    assert not same(one, other)


def test_a_continued_line_comment_is_one_comment() -> None:
    assert same("int a; // one \\\n still the same\nint b;", "int a; int b;")


def test_a_continued_line_is_one_line() -> None:
    assert same("#define F(x) \\\n  use(x)\nint a;", "#define F(x) use(x)\nint a;")
    assert same("int a\\\nb;", "int ab;")


@given(text=st.text(max_size=200))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalised_c_like(text)
    assert normalised_c_like(once) == once or "/" in text  # what is left of two comments may look like one


words = st.sampled_from(["int", "x", "=", "1", ";", "{", "}", "+", "(", ")", "for", '"s t"', "0.5f"])
gaps = st.sampled_from([" ", "  ", "\n", "\t", " /* c */ ", " // c\n", "\n\n"])


@given(tokens=st.lists(words, min_size=1, max_size=20), data=st.data())
def test_any_gaps_between_tokens_are_the_same(tokens: list[str], data: st.DataObject) -> None:
    one, other = ("".join(token + data.draw(gaps) for token in tokens) for _ in range(2))
    assert same(one, other)


def test_plans_are_compared_as_python() -> None:
    one = "import kw\n\n# note\ndef plan(x):\n    return kw.plan( x )\n"
    other = "import kw\ndef plan(x):  # here\n        return kw.plan(x)"
    assert normalised_python(one) == normalised_python(other)
    assert normalised_python("def f():\n  a\n  b\n") != normalised_python("def f():\n  a\nb\n")
    assert normalised_python("x = (") == "x = ("


def test_a_cuda_candidate_is_kernel_and_plan() -> None:
    def cuda(kernel: str, plan: str) -> str:
        return fingerprint(Candidate("cuda", f"{kernel}\n/* plan.py\n{plan}\n*/\n"))

    assert cuda("__global__ void k() {}", "import kw") == cuda("// x\n__global__ void k(){ }", "import  kw # y")
    assert cuda("__global__ void k() {}", "a = 1") != cuda("__global__ void k() {}", "a = 2")
    assert fingerprint(Candidate("cuda", "no plan")) != fingerprint(Candidate("cpp", "no plan"))


def test_the_name_does_not_count() -> None:
    assert fingerprint(Candidate("cpp", "int a;", "one")) == fingerprint(Candidate("cpp", "int a ;", "other"))


@pytest.mark.parametrize(
    "source",
    [
        long('"\\'),
        long("'\\"),
        long("\"\\'\\"),
        long('L"\\'),
        long('"\\"\n'),
        long('R"('),
        "".join(f'R"{number}(' for number in range(LENGTH // 8)),
        "".join(f'R"{number}( )0"' for number in range(LENGTH // 12)),
        'R"x(' + long(")" + '"' * 16),
        '"' + long(" ") + '"',
        long("/*"),
        long("\n"),
        long("\\ "),
        long("\\\n"),
    ],
    ids=lambda source: source[:8],
)
def test_no_source_takes_longer_than_its_length_allows(source: str) -> None:
    quickly(normalised_c_like, source)


_TOKEN = re.compile(
    r"""
    (?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
  | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<word>\w+)
  | (?P<line>\n+)
  | (?P<space>(?:[^\S\n]|\\\n)+)
  | (?P<mark2>%:%:|%:|<<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)
    """,
    re.VERBOSE | re.DOTALL,
)
marks = ("\\\n", '\\"', "\\'", "//", "/*", "*/", 'R"', 'R"(', ')"', 'R"x(', ')x"', 'a"b(', "''", '""')
pieces = st.sampled_from([*"a1L \n\\\"'()#", "u8", *marks])


@given(parts=st.lists(pieces, max_size=25))
def test_tokens_are_those_of_one_plain_pattern(parts: list[str]) -> None:
    """Which is slow where a text has no end, and easy to read."""
    source = "".join(parts)
    assert [token for _, token in _tokens(source)] == [match[0] for match in _TOKEN.finditer(source)]
