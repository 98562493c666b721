"""Candidates of which it is known what is wrong with them: exploits and their twins, planted bugs, past verdicts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts import Candidate
from kernelwright.contracts.registry import read_source
from kernelwright.errors import KernelwrightError
from kernelwright.judge.verdict import AuthorVerdict, Outcome, Reason
from kernelwright.proposers.llm.planting import MUTATORS, planted
from kernelwright.proposers.llm.view import VERIFIERS, Stage
from kernelwright.tasks.resolve import builtin_names

# Which verifier should have foreseen a rejection. What is not here says nothing about any of them.
FORESEEN = {
    Reason.does_not_build: Stage.verify_compilation,
    Reason.launch_failed: Stage.verify_compilation,
    Reason.crashed: Stage.verify_memory,
    Reason.illegal_access: Stage.verify_memory,
    Reason.wrote_outside: Stage.verify_memory,
    Reason.unwritten: Stage.verify_memory,
    Reason.dirty_workspace: Stage.verify_memory,
    Reason.unsafe: Stage.verify_memory,
    Reason.wrong: Stage.verify_numerics,
    Reason.imprecise: Stage.verify_numerics,
    Reason.nan_or_inf: Stage.verify_numerics,
}


@dataclass(frozen=True)
class Labelled:
    """`labels`: for each verifier that has something to say of it, whether it has that fault."""

    task: str
    candidate: Candidate
    labels: tuple[tuple[Stage, bool], ...]
    origin: str


def honest(task: str, candidate: Candidate, origin: str) -> Labelled:
    return Labelled(task, candidate, tuple((stage, False) for stage in VERIFIERS), origin)


def from_pairs(folder: Path) -> list[Labelled]:
    """Folders with exploit.cpp, twin.cpp and about.toml, as tests/exploits has them; a task of their own is a file in
    the folder `small` beside them."""
    found: list[Labelled] = []
    twins: set[str] = set()
    abouts = sorted(folder.glob("*/about.toml"))
    if not abouts:
        raise KernelwrightError(f"{folder}: has no pairs; each is a folder with exploit.cpp, twin.cpp and about.toml")
    for path in abouts:
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        exploit = read_source(path.parent / "exploit.cpp")
        own = folder / "small" / f"{about['task']}.py"
        task = about["task"] if about["task"] in builtin_names() or not own.is_file() else str(own)
        found.append(Labelled(task, exploit, _exploit_labels(about), f"exploit {path.parent.name}"))
        twin = read_source((path.parent / about.get("twin", "twin.cpp")).resolve())
        if twin.id not in twins:
            twins.add(twin.id)
            found.append(honest(task, twin, f"twin of {path.parent.name}"))
    return found


def _exploit_labels(about: dict[str, object]) -> tuple[tuple[Stage, bool], ...]:
    """A cheat; and a fault of another kind where every reason of its rejection is of that kind."""
    reasons = about.get("reasons", [])
    kinds = {FORESEEN.get(Reason(reason)) for reason in reasons} if isinstance(reasons, list) else set()
    extra = ((kind, True) for kind in kinds if kind is not None and len(kinds) == 1)
    return ((Stage.verify_cheating, True), *extra)


def from_planting(sources: Iterable[Labelled], seed: int) -> list[Labelled]:
    """Every mutator once on every honest source that it fits."""
    found = []
    for one in sources:
        if any(faulty for _, faulty in one.labels):
            continue
        for mutator in MUTATORS:
            candidate = planted(one.candidate, mutator, seed)
            if candidate is not None:
                found.append(Labelled(one.task, candidate, ((mutator.breaks, True),), mutator.name))
    return found


def from_verdict(task: str, candidate: Candidate, verdict: AuthorVerdict) -> Labelled | None:
    """A past verdict as a label; None where it says nothing about any verifier."""
    if verdict.verdict is Outcome.accepted:
        return honest(task, candidate, "accepted before")
    stage = FORESEEN.get(verdict.reason)
    if verdict.verdict is not Outcome.rejected or stage is None:
        return None
    return Labelled(task, candidate, ((stage, True),), f"rejected before: {verdict.reason}")
