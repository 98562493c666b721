"""Markdown for pull requests: compact, and nothing of others is markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernelwright.report.markdown import markdown
from kernelwright.report.model import Audience
from kernelwright.report.subjects import report_view
from tests.report.made import hostile_run, toy_run


def outside_code(text: str) -> str:
    """What is not code: no fences, no spans."""
    kept, fence = [], ""
    for line in text.split("\n"):
        opened = re.match(r"(`{3,})", line)
        if fence:
            fence = "" if line == fence else fence
        elif opened:
            fence = opened[1]
        else:
            kept.append(line)
    assert not fence  # every fence was closed by ours
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", "\n".join(kept))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = hostile_run(tmp_path_factory.mktemp("hostile"))
    return markdown(report_view([str(folder)], folder.parent, Audience.auditor))


def test_nothing_hostile_is_left_outside_of_code(hostile: str) -> None:
    rest = outside_code(hostile)
    assert set(re.findall(r"<[^>]*>", rest)) <= {
        "<sub>",
        "</sub>",
        "<details>",
        "</details>",
        "<summary>",
        "</summary>",
    }
    for word in ("alert", "javascript", "@someone", "http", "![", "](", "{{", "\x1b", "\u202e"):
        assert word not in rest


def test_every_row_of_a_table_has_as_many_cells(hostile: str) -> None:
    rows = [line for line in hostile.split("\n") if line.startswith("|")]
    counts = {len(re.findall(r"(?<!\\)\|", line)) for line in rows}
    assert len(rows) > 3 and len(counts) == 1


def test_a_proved_run_in_a_pull_request(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, seed=3, budget="30evals")
    text = markdown(report_view([str(folder)], tmp_path))
    assert re.search(r"\*\*\d\.\d\d×\*\* over the best baseline on toy \(proved", text)
    assert "| 1 hidden workload |" in text and "kernelwright replay toy-" in text
    assert "It does not hold, or was not checked:" in text and "<details><summary>Diff: " in text
    assert len(text) < 20_000 and str(tmp_path) not in text
