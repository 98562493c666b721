"""The table of threats in docs/trust.md is complete and true: it says what tests/exploits and other tests do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelwright.judge.verdict import Reason
from tests import pairs
from tests.pairs import EXPLOITS, Pair

TESTS = Path(__file__).parent
TRUST = TESTS.parent / "docs" / "trust.md"
CLASSES = 80
CANNOT = "cannot apply: "
OPEN = "open: "
FILE = "test_"  # a class that is not about a candidate alone is met by other tests, named by their file
KEYS = {"threat", "task", "claim", "expect", "reasons", "twin", "slow", "domain"}
PAIRS, ABOUT = pairs.pairs(), pairs.table()


@dataclass(frozen=True)
class Row:
    number: int
    name: str
    tests: tuple[str, ...]  # names of pairs, or the first letters of several followed by a star
    files: tuple[str, ...]  # of other tests
    answer: str

    def pairs(self, test: str) -> list[Pair]:
        found = [pair for pair in PAIRS if pair.name == test or (test[-1] == "*" and pair.name.startswith(test[:-1]))]
        assert found, f"class {self.number} names {test}, which is not a pair"
        return found


def table() -> list[Row]:
    section = TRUST.read_text().split("## What each threat meets\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if re.match(r"\| \d", line)]
    return [_row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]


def _row(head: str, tests: str, answer: str) -> Row:
    number, name = head.split(" ", 1)
    named = re.findall(r"`(\w+\*?)`", tests)
    files = tuple(word for word in named if word.startswith(FILE))
    return Row(int(number), name, tuple(word for word in named if word not in files), files, answer)


ROWS = table()


def test_the_table_has_every_class_once_and_in_order() -> None:
    assert [row.number for row in ROWS] == list(range(1, CLASSES + 1))
    assert len({row.name for row in ROWS}) == CLASSES


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_a_class_has_pairs_of_its_own_or_cannot_apply(row: Row) -> None:
    assert row.answer, "says what stops it"
    assert bool(row.tests or row.files) != row.answer.startswith((CANNOT, OPEN))
    for file in row.files:
        assert any(TESTS.rglob(f"{file}.py")), f"class {row.number} names {file}, which is not a test"
    for test in row.tests:
        strangers = [pair.name for pair in row.pairs(test) if row.number not in pair.threats]
        assert not strangers, f"{strangers} do not list class {row.number}"


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_pair_is_named_by_every_class_that_it_lists(pair: Pair) -> None:
    assert pair.threats
    for number in pair.threats:
        assert 1 <= number <= CLASSES
        row = ROWS[number - 1]
        assert pair in [found for test in row.tests for found in row.pairs(test)], f"class {number} does not name it"


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_pair_says_what_it_tries_and_what_must_become_of_it(pair: Pair) -> None:
    about = ABOUT[pair.name]
    assert set(about) <= KEYS
    assert len(pair.claim.split()) >= 1
    assert about["expect"] in ("rejected", "no_gain")
    assert bool(about.get("reasons")) == (about["expect"] == "rejected")
    assert set(pair.reasons) <= set(Reason)
    assert pair.exploit.is_file()
    assert pair.twin.is_file()
    assert pair.exploit.read_text() != pair.twin.read_text()


def test_exploits_are_told_of_in_order_and_every_source_is_one_of_theirs() -> None:
    assert list(ABOUT) == sorted(ABOUT)
    sources = {path for pair in PAIRS for path in (pair.exploit, pair.twin)}
    assert sources == set(EXPLOITS.glob("*.cpp"))
