"""Runs whose prompts were answered from files, kept as they were: prompts, answers, verdicts, certificates.

    python benchmarks/pages/answered.py --certificates DIR RUN ...

Copies runs of `optimize --proposer files` into benchmarks/results/answered.tar.xz, each under its task's name, with the
certificates of its best (DIR is where the judge's state has them), and without unanswered requests. Every run can be
looked at with `kernelwright runs show ARCHIVE::RUN`. The pages' scripts make their tables from what the archive holds.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.pages.claimed import low  # noqa: E402
from benchmarks.shared.kept import ANSWERED, changing, folder_of, unpacked  # noqa: E402

from kernelwright.judge import certificate  # noqa: E402
from kernelwright.judge.verdict import SpeedStatus, Verdict, WorkloadResult  # noqa: E402
from kernelwright.search import journal  # noqa: E402
from kernelwright.search.core.events import Continued, Evaluated, FinalHeld, Stopped  # noqa: E402
from kernelwright.search.core.state import State  # noqa: E402
from kernelwright.search.run import look  # noqa: E402

BUILT_IN = re.compile(r"[\w:]+(@[\w=,]+)?")  # not a user's file
NOT_KEPT = ("asked", "prompt.md", "answer.md", "journal.lock")  # prompts and answers lie in `requests`


@dataclass(frozen=True)
class Other:
    """What else there is for a row, measured in another run or by another program."""

    name: str
    us: float


@dataclass(frozen=True)
class Answered:
    folder: Path
    state: State
    final: Verdict  # of the best: on public and hidden workloads

    @property
    def ref(self) -> str:
        return self.state.run.task

    @property
    def proposals(self) -> int:
        return len(list((self.folder / "requests").glob("*.answer.*")))

    @property
    def began_us(self) -> float | None:
        """The fastest kernel that the run was given."""
        given = [self.state.entries[number].verdict for number in self.state.starts]
        times = [verdict.workloads[0].seconds for verdict in given if verdict is not None and verdict.workloads]
        return min((1e6 * seconds for seconds in times if seconds is not None), default=None)

    @property
    def public(self) -> WorkloadResult:
        return next(result for result in self.final.workloads if not result.hidden)

    @property
    def hidden(self) -> float:
        """Over eager, the least of the hidden workloads."""
        return min(low(result, "eager") for result in self.final.workloads if result.hidden)

    @property
    def measured(self) -> bool:
        return all(result.speed is SpeedStatus.measured for result in self.final.workloads)

    @property
    def us(self) -> float:
        assert self.public.seconds is not None
        return 1e6 * self.public.seconds

    @property
    def eager_us(self) -> float:
        (eager,) = (entry for entry in self.public.baselines if entry.baseline == "eager")
        assert eager.seconds is not None
        return 1e6 * eager.seconds

    @property
    def over_eager(self) -> float:
        return low(self.public, "eager")

    def over(self, other: Other) -> float:
        """How many times as fast as something whose time is known from elsewhere; eager is in both."""
        return other.us * self.over_eager / self.eager_us

    def won(self, other: Other) -> bool:
        return self.measured and self.over_eager > 1 and self.over(other) > 1


def read(archive: Path = ANSWERED) -> list[Answered]:
    return [one for folder in sorted(unpacked(archive).glob("*")) if (one := _read(folder)) is not None]


def _read(folder: Path) -> Answered | None:
    state = look(folder)
    if state.best is None:
        return None
    names = state.entries[state.best].final.proof
    paths = [path for name in names if (path := folder / "certificates" / f"{name}.json").is_file()]
    issued = sorted((certificate.read(path) for path in paths), key=lambda one: one.issued)
    finals = [one.verdict for one in issued if any(result.hidden for result in one.verdict.workloads)]
    return Answered(folder, state, finals[-1]) if finals else None


@dataclass(frozen=True)
class Stretch:
    """From when a driver took a run up until it stopped."""

    seconds: float
    judging: float
    judged: int

    @property
    def share(self) -> float:
        return self.judging / self.seconds


def stretches(folder: Path) -> Iterator[Stretch]:
    begin, judging, judged = 0.0, 0.0, 0
    for event in journal.read(folder):
        match event:
            case Continued():
                begin, judging, judged = event.at, 0.0, 0
            case Evaluated() | FinalHeld():
                judging, judged = judging + event.seconds, judged + event.judgings
            case Stopped():
                yield Stretch(event.at - begin, judging, judged)


def best_else(ref: str, rows: dict[str, Any], claims: dict[str, Any], elsewhere: dict[str, Any]) -> Other:
    """Of compiled baselines that the judge timed in other runs, and of the columns of another program."""
    found: list[Other] = []
    for row in rows.get("rows", []):
        if row["task"].split()[0] == ref:
            found += _compiled(row.get("us", {}))
    if "public" in (row := claims.get("rows", {}).get(ref, {})):
        found += _compiled(row["public"]["workloads"][0]["baselines_us"])
    for part in ("us", "others"):
        found += [Other(f"{name}, elsewhere", us) for name, us in elsewhere.get(part, {}).get(ref, {}).items()]
    return min(found, key=lambda other: other.us)


def _compiled(times: dict[str, float]) -> list[Other]:
    """Eager is timed in every final, beside the kernel."""
    return [Other(name, us) for name, us in times.items() if name != "eager"]


def keep(run: Path, certificates: Path, root: Path) -> Path:
    state = look(run)
    if not BUILT_IN.fullmatch(state.run.task):
        raise SystemExit(f"answered.py: {run} is about a task that others do not have: {state.run.task}")
    target = root / folder_of(state.run.task)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(run, target, ignore=shutil.ignore_patterns(*NOT_KEPT))
    with closing(sqlite3.connect(target / "journal.db")) as database:  # one file, with what was in the others
        database.execute("PRAGMA journal_mode=DELETE")
        database.execute("VACUUM")
    for rest in target.glob("journal.db-*"):
        rest.unlink()
    for prompt in (target / "requests").glob("[0-9]*[0-9].md"):
        if not list(prompt.parent.glob(f"{prompt.stem}.answer.*")):
            prompt.unlink()
    (target / "certificates").mkdir(exist_ok=True)
    for name in () if state.best is None else state.entries[state.best].final.proof:
        if (path := certificates / f"{name}.json").is_file():
            shutil.copy(path, target / "certificates")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--certificates", type=Path, required=True)
    options = parser.parse_args()
    with changing(ANSWERED) as root:
        for run in options.runs:
            print(f"kept: {ANSWERED.relative_to(ROOT)}::{keep(run, options.certificates, root).name}")


if __name__ == "__main__":
    main()
