"""`kernelwright.optimize`: what the command does, from Python and without a task file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernelwright.judge.verdict import AuthorVerdict, Verdict
from kernelwright.search.directory import files
from kernelwright.search.events import Event
from kernelwright.search.proof import proof_of
from kernelwright.search.session import DEFAULT_BUDGET, DEFAULT_ROOT, begin, carry_on
from kernelwright.search.state import State
from kernelwright.search.summary import why_stopped
from kernelwright.search.wishes import DEFAULT_PLATEAU, ModelWishes, Wishes, placed


@dataclass(frozen=True)
class Optimized:
    """What a search came to. `score` and `sources` are None and empty where nothing earned to be called best."""

    run: Path
    task: str
    stopped: str
    score: float | None
    sources: dict[str, str]
    note: str
    verdict: Verdict | AuthorVerdict | None
    certificates: tuple[str, ...]


class _Nobody:
    def __init__(self, tell: Callable[[str], None]) -> None:
        self.progress = tell

    def __call__(self, event: Event, state: State) -> None:
        return None


def optimize(
    function: Callable[..., Any],
    example_inputs: Sequence[Any],
    *,
    name: str = "",
    direction: Literal["forward", "backward"] = "forward",
    budget: str = DEFAULT_BUDGET,
    proposer: str = "templates",
    policy: str = "islands",
    contract: str | None = None,
    device: str | None = None,
    start: Sequence[str | Path] = (),
    seed: int = 0,
    plateau: int = DEFAULT_PLATEAU,
    runs: str | Path = DEFAULT_ROOT,
    own_oracle: bool = False,
    models: Sequence[str] = (),
    ensemble: str | Path | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Optimized:
    """Searches for a kernel that does what `function` (or a module) does on inputs such as the example's.

    The example is the public workload; hidden ones have sizes around it. The task that was captured lies beside the
    runs and can be used with every command.
    """
    path = write_task(function, example_inputs, Path(runs), name)
    reference = f"{path}:backward" if direction == "backward" else str(path)
    form, where = placed(contract, device)
    wishes = Wishes(
        task=reference,
        proposer=proposer,
        policy=policy,
        contract=form,
        device=where,
        seed=seed,
        plateau=plateau,
        asked=ModelWishes(models=tuple(models), ensemble=None if ensemble is None else Path(ensemble)),
    )
    folder = begin(wishes, [Path(one) for one in start], Path(runs), budget)
    state = carry_on(folder, budget, _Nobody(tell), own_oracle=own_oracle)
    return _optimized(state, folder, reference)


def write_task(function: Callable[..., Any], example_inputs: Sequence[Any], root: Path, name: str = "") -> Path:
    """The captured task as a file, named by what is in it."""
    from kernelwright.tasks.capture import task_text
    from kernelwright.tasks.resolve import resolve

    text = task_text(function, example_inputs)
    given = name or getattr(function, "__name__", type(function).__name__)
    stem = re.sub(r"\W+", "_", given, flags=re.ASCII).strip("_").lower() or "task"
    folder = root.absolute() / "tasks" / hashlib.sha256(text.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}.py"
    path.write_text(text, encoding="utf-8")
    resolve(str(path))  # runs it on other sizes too; what holds for the example's alone is refused in a line
    return path


def _optimized(state: State, folder: Path, reference: str) -> Optimized:
    if state.best is None:
        return Optimized(folder, reference, why_stopped(state), None, {}, "", None, ())
    entry = state.entries[state.best]
    proof = proof_of(entry)
    return Optimized(
        run=folder,
        task=reference,
        stopped=why_stopped(state),
        score=entry.score,
        sources=dict(files(entry.proposal.candidate)),
        note=entry.proposal.note,
        verdict=proof.verdict if proof else entry.verdict,
        certificates=proof.names if proof else (),
    )
