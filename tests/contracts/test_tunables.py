"""Tunables in anybody's source: declared in a comment, rendered as a definition on the same line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.contracts import Candidate
from kernelwright.contracts.tunables import TunableError, declared, render, variants

CPP = Candidate("cpp", "// tunable: BLOCK = 32, 64, 128\n  // tunable: FAST = true, false\nint a[BLOCK];\n", "k")
CUDA = Candidate(
    "cuda", "// tunable: VEC = 1, 4\n__global__ void k() {}\n/* plan.py\n# tunable: ROWS = 1, 2\nimport kw\n*/\n"
)


def test_the_first_value_holds_until_another_is_chosen() -> None:
    assert render(CPP).source.splitlines() == [
        "#define BLOCK 32  // tunable: BLOCK = 32, 64, 128",
        "#define FAST true  // tunable: FAST = true, false",
        "int a[BLOCK];",
    ]
    assert "#define BLOCK 128 " in render(CPP, {"BLOCK": "128"}).source


def test_rendering_again_changes_values_and_nothing_else() -> None:
    once = render(CPP, {"BLOCK": "64"})
    assert render(once) == once and {t.name: t.now for t in declared(once)} == {"BLOCK": "64", "FAST": "true"}
    assert render(once, {"BLOCK": "32"}) == render(CPP)


def test_a_plan_has_its_own() -> None:
    rendered = render(CUDA, {"ROWS": "2", "VEC": "4"}).source
    assert "\nROWS = 2  # tunable: ROWS = 1, 2\n" in rendered and "#define VEC 4  // tunable" in rendered
    assert [t.name for t in declared(render(CUDA))] == ["VEC", "ROWS"]


def test_a_source_without_tunables_stays_as_it_is() -> None:
    plain = Candidate("cpp", "// a tunable thing: no\nint a = 1; // tunable: X = 1, 2\n# tunable: Y = 1\n")
    assert declared(plain) == () and render(plain) == plain and variants(plain, 5, 1) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("// tunable: A = ", "cannot read ''"),
        ("// tunable: A = 1, 1", "has the same value twice"),
        ("// tunable: A = 1; system(2)", "cannot read"),
        ("// tunable: A = 1 2", "cannot read '1 2'"),
        ("// tunable: 9A = 1", "is not a name"),
        ("#define B 1 // tunable: A = 1, 2", "defines B instead"),
        ("// tunable: A = 1\n// tunable: A = 2", "declared twice"),
        ("\n".join(f"// tunable: A{i} = 1" for i in range(9)), "at most 8"),
        (f"// tunable: A = {', '.join(map(str, range(33)))}", "at most 32"),
    ],
)
def test_one_line_for_a_bad_declaration(line: str, said: str) -> None:
    with pytest.raises(TunableError) as caught:
        declared(Candidate("cpp", f"{line}\nint a;\n"))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TunableError, match="there is no tunable C; declared are BLOCK, FAST"):
        render(CPP, {"C": "1"})


def test_variants_are_all_others_where_they_are_few() -> None:
    found = variants(CPP, 12, seed=1)
    assert len(found) == 5 and {"BLOCK": "32", "FAST": "true"} not in found
    assert found == variants(CPP, 12, seed=1)


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5), limit=st.integers(1, 20), seed=st.integers(0, 1 << 40)
)
def test_variants_are_different_renderable_and_within_the_limit(sizes: list[int], limit: int, seed: int) -> None:
    lines = (f"// tunable: T{i} = {', '.join(map(str, range(size)))}" for i, size in enumerate(sizes))
    candidate = Candidate("cpp", "\n".join(lines) + "\nint a;\n")
    found = variants(candidate, limit, seed)
    sources = {render(candidate, values).source for values in found}
    assert len(sources) == len(found) <= limit and render(candidate).source not in sources


def test_a_long_line_of_blanks_is_read_at_once() -> None:
    """It took an hour where blanks were tried in every split."""
    with pytest.raises(TunableError, match="cannot read"):
        declared(Candidate("cpp", f"// tunable: A = a{' ' * 900_000}b\n"))
