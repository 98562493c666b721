"""Launch formulas from recordings: equal to what the host code does at sizes that were never recorded, or not there."""

from __future__ import annotations

import json
import math
import random
import re
import struct
from pathlib import Path

import pytest

from kernelwright.contracts.model import PortableBuild
from kernelwright.contracts.portable import FormulaError
from kernelwright.contracts.recorded.planned import PlannedProgram, planned
from tests.contracts.recorded_host import LISTED, Call, HostCode, Sizes, at_sizes, portable, tiled, up


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    return tmp_path / "cache" / "recorded"


def predicted(found: PortableBuild, sizes: Sizes) -> PlannedProgram | None:
    (variant,) = found.kernel.variants
    try:
        modules, call = variant.at(sizes)
    except FormulaError:
        return None
    return PlannedProgram(call, modules)


def said(host: HostCode, sizes: Sizes) -> PlannedProgram:
    return planned(at_sizes(host, sizes))


def same(one: PlannedProgram, other: PlannedProgram) -> bool:
    """The modules of a case may have kernels that another size launches."""
    return one.in_bytes().call == other.in_bytes().call and {m.digest for m in other.modules} <= {
        m.digest for m in one.modules
    }


def held_out(count: int, seed: int = 5) -> list[dict[str, int]]:
    chance = random.Random(seed)
    return [{"rows": chance.randint(1, 9000), "cols": chance.randint(16, 5000)} for _ in range(count)]


def power(value: int) -> int:
    return 1 << (value - 1).bit_length()


def plain(rows: int, cols: int) -> Call:
    return Call().launch("one", (rows,), 128, "x", "out", cols)


def specialised(rows: int, cols: int) -> Call:
    """As Triton does: another kernel where 16 divides, and for each power of two."""
    block = power(cols)
    name = f"{block} {cols % 16 == 0} {rows == 1}"
    return Call().launch(name, (rows,), 256 if block >= 2048 else 128, "x", "out", cols, shared=block * 4)


def persistent(rows: int, cols: int) -> Call:
    return Call().launch("one", (min(rows, 132 * 4),), 128, "x", "out", rows, 1.0 / math.sqrt(cols))


def switched(rows: int, cols: int) -> Call:
    """Two kernels, by an odd limit."""
    if cols <= 1237:
        return Call().launch("small", (rows,), 64, "x", "out", cols)
    return Call().launch("large", (rows, 2), 512, "x", "out", cols)


def by_elements(rows: int, cols: int) -> Call:
    if rows * cols < 1 << 20:
        return Call().launch("few", (up(rows * cols, 256),), 256, "x", "out", rows * cols)
    return Call().launch("many", (up(rows * cols, 4096),), 256, "x", "out", rows * cols)


def structure(rows: int, cols: int) -> Call:
    return Call().launch("one", (rows,), 128, struct.pack("<Qqii", 0, rows * cols, rows, 3), "out")


def matmul_grid(rows: int, cols: int) -> Call:
    return Call().launch("one", (up(rows, 128) * up(cols, 64),), 128, "x", "out", rows, cols)


def other_threads(rows: int, cols: int) -> Call:
    """One kernel, whose grid depends on how many threads it gets."""
    if cols > 1024:
        return Call().launch("one", (rows,), 512, "x", "out", cols)
    return Call().launch("one", (up(rows, 4),), 128, "x", "out", cols)


HOSTS = (plain, other_threads, specialised, tiled, persistent, switched, by_elements, structure, matmul_grid)


@pytest.mark.parametrize("host", HOSTS)
def test_a_formula_gives_what_host_code_does_at_sizes_that_were_not_recorded(host: HostCode) -> None:
    found, toolchain = portable(host)
    asked = {tuple(one) for one in toolchain.asked}
    covered = 0
    for sizes in held_out(400):
        got = predicted(found, sizes)
        if got is not None:
            assert same(got, said(host, sizes)), (sizes, got, said(host, sizes))
            covered += (sizes["rows"], sizes["cols"]) not in asked
    assert found.kernel.all_sizes and covered > (300 if host is not by_elements else 200), (covered, found.note)
    for sizes in LISTED:
        got = predicted(found, sizes)
        assert got is not None and same(got, said(host, sizes))


def test_what_lies_between_two_sides_is_left_to_the_reference() -> None:
    """Where a limit is one of products, it is not found exactly: nothing is claimed there."""
    found, _ = portable(by_elements)
    for cols in range(1040, 1060):
        for rows in range(990, 1015):
            got = predicted(found, {"rows": rows, "cols": cols})
            assert got is None or same(got, said(by_elements, {"rows": rows, "cols": cols}))


def digits(rows: int, cols: int) -> Call:
    return Call().launch("one", (sum(map(int, str(rows))) + 1,), 128, "x", "out", cols)


def scattered(rows: int, cols: int) -> Call:
    """A kernel of its own for sizes that no question tells."""
    return Call().launch(f"{hash((rows, cols)) % 7}", (rows,), 128, "x", "out", cols)


def refusing(rows: int, cols: int) -> Call:
    assert rows < 5000
    return plain(rows, cols)


@pytest.mark.parametrize(
    ("host", "note"),
    [
        (digits, "no formula foretold"),
        (scattered, "could not be told apart|no formula foretold"),
        (refusing, "cannot be recorded at all sizes: host code refuses 9000 rows"),
    ],
)
def test_what_is_not_explained_holds_at_listed_sizes_only(host: HostCode, note: str) -> None:
    found, _ = portable(host)
    assert not found.kernel.all_sizes and re.search(note, found.note)
    for sizes in LISTED:
        got = predicted(found, sizes)
        assert got is not None and same(got, said(host, sizes))
    assert all(predicted(found, sizes) is None for sizes in held_out(50))


def test_one_case_that_is_not_explained_leaves_the_others() -> None:
    def host(rows: int, cols: int) -> Call:
        return Call().launch("other", (sum(map(int, str(rows))),), 64, "x") if cols % 16 else plain(rows, cols)

    found, _ = portable(host)
    answers = [(sizes, predicted(found, sizes)) for sizes in held_out(400)]
    assert all(got is None or (sizes["cols"] % 16 == 0 and same(got, said(host, sizes))) for sizes, got in answers)
    assert sum(got is not None for _, got in answers) > 10 and "listed sizes only" in found.note
    assert all(predicted(found, sizes) is not None for sizes in LISTED)


def test_nothing_but_the_listed_sizes_is_recorded_where_nothing_else_is_proved() -> None:
    found, toolchain = portable(plain, listed_only=True)
    assert len(toolchain.asked) == len(LISTED) and not found.kernel.all_sizes


def test_a_number_that_outgrows_its_type_is_refused_and_not_wrapped() -> None:
    """Bytes of a structure do not say whether a number has four of them or eight."""

    def host(rows: int, cols: int) -> Call:
        data = struct.pack("<Qqq", 0, rows * cols * 40, 0)
        return Call().launch("one", (rows,), 128, data, "out")

    found, _ = portable(host)
    assert predicted(found, {"rows": 8999, "cols": 4999}) is not None
    assert predicted(found, {"rows": 20_000, "cols": 5000}) is None


def test_what_was_found_is_kept_and_what_was_altered_is_found_again(cache: Path) -> None:
    first, _ = portable(plain)
    again, toolchain = portable(plain)
    assert again == first and not toolchain.asked
    (path,) = cache.glob("*/*.json")
    content = json.loads(path.read_text())
    content["binaries"] = dict.fromkeys(content["binaries"], "AAAA")
    path.write_text(json.dumps(content))
    again, toolchain = portable(plain)
    assert again == first and toolchain.asked
