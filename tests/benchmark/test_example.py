"""The example in docs/bench.md is what the results file in this repository says."""

from __future__ import annotations

from pathlib import Path

from kernelwright.benchmark.journal import read_results
from kernelwright.benchmark.leaderboard import leaderboard
from kernelwright.benchmark.pages import board_markdown

ROOT = Path(__file__).parents[2]
SHOWN = ("Over the best baseline", "What came of the samples", "By task")


def test_the_tables_of_the_page_are_those_of_the_file() -> None:
    board = leaderboard([read_results(ROOT / "benchmarks" / "results" / "bench_kernelbench_cpu.jsonl")])
    page = (ROOT / "docs" / "bench.md").read_text()
    made = board_markdown(board)
    for title in SHOWN:
        part = made.partition(f"### {title}\n")[2].partition("\n### ")[0]
        lines = [line for line in part.splitlines() if line.startswith("|")]
        assert len(lines) > 2
        assert "\n".join(lines) in page, f"{title} in docs/bench.md is out of date"
    assert any("busy machine" in warning for warning in board.warnings)
