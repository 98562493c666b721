"""`kernelwright.optimize`: what the command does, from Python and without a task file."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernelwright.errors import KernelwrightError
from kernelwright.isolation import levels
from kernelwright.judge.settings import quiet
from kernelwright.judge.verdict import AuthorVerdict, Verdict
from kernelwright.proposers.llm.proposer import GENERATION, MEASURED
from kernelwright.search import budget as budgets
from kernelwright.search.actions import StopReason
from kernelwright.search.asking import Recorded
from kernelwright.search.directory import BEST, files
from kernelwright.search.events import Event
from kernelwright.search.judging import Terms
from kernelwright.search.proof import proof_of
from kernelwright.search.session import DEFAULT_BUDGET, DEFAULT_ROOT, begin, carry_on, find, limit_of
from kernelwright.search.state import State
from kernelwright.search.summary import no_gain, suspects, why_no_best, why_stopped
from kernelwright.search.wishes import DEFAULT_PLATEAU, RESUMED, ModelWishes, Wishes, began_with, placed
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.loading import shown_path

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Optimized:
    """What a search came to; printed, it says so in a line.

    Where nothing earned to be called best, `score` is None, `sources` is empty, and `missing` says why.
    """

    run: Path
    task: str
    stopped: str
    stop_reason: StopReason | None = None  # None: it was killed
    score: float | None = None
    sources: dict[str, str] = field(default_factory=dict)
    note: str = ""
    verdict: Verdict | AuthorVerdict | None = None
    certificates: tuple[str, ...] = ()
    missing: str = ""

    @property
    def source(self) -> str:
        """The text of the best kernel; a KernelwrightError with what is `missing` where there is none."""
        if self.score is None:
            raise KernelwrightError(f"{self.run} has no best: {self.missing}")
        return next(iter(self.sources.values()))  # a plan comes after its kernel

    def __str__(self) -> str:
        if self.score is None:
            return f"{self.run}: no best: {self.missing}"
        slower = no_gain(self.score, self.verdict)
        said = f"{self.score:.2f}× over the best baseline{f' ({slower})' if slower else ''}"
        return f"{self.run}: {said}; the kernel is in {self.run / BEST}"


class _Nobody:
    def __init__(self, tell: Callable[[str], None]) -> None:
        self.progress = tell

    def __call__(self, event: Event, state: State) -> None:
        return None


def optimize(
    function: Callable[..., Any] | None = None,
    example_inputs: Sequence[Any] | torch.Tensor = (),
    *,
    name: str = "",
    direction: Literal["forward", "backward"] = "forward",
    proposer: str = "templates",
    policy: str = "islands",
    contract: str | None = None,
    device: str | None = None,
    budget: str | None = None,
    start: str | Path | Sequence[str | Path] = (),
    resume: str | Path | None = None,
    seed: int = 0,
    plateau: int = DEFAULT_PLATEAU,
    threads: int = 0,
    baseline: str | Sequence[str] = (),
    wait: float = 3600.0,
    ahead: int = 1,
    models: str | Sequence[str] = (),
    ensemble: str | Path | None = None,
    generation: int = GENERATION,
    measure: int = MEASURED,
    record: str | Path | None = None,
    replay: str | Path | None = None,
    runs: str | Path = DEFAULT_ROOT,
    own_oracle: bool = False,
    isolation: str | None = None,
    tell: Callable[[str], None] = quiet,
) -> Optimized:
    """Searches for a kernel that does what `function` (or a module) does on inputs such as the example's.

    The example is the arguments of a call, or the tensor that is the only one. It is the public workload; hidden ones
    have sizes around it. The task that was captured lies beside the runs and can be used with every command. With
    `resume` a run goes on, and there is no function to be given.

    Ctrl-C ends the run so that `resume` goes on with it, and is then raised: the caller wanted to stop as well.

    `name` and `direction` are the task's, `tell` hears what is being done; all others are options of the command
    `kernelwright optimize`. `isolation` is the lowest level that is accepted, by default "full". Where the command
    takes an option several times, one value needs no list here.
    """
    given = dict(locals())
    root, recorded = Path(runs), Recorded(_path(record), _path(replay))
    accepted = levels.accepted() if isolation is None else levels.level_named(isolation)
    levels.demand(accepted)
    if budget is not None:
        budgets.parse(budget)
    if resume is not None:
        _refuse_others(given)
        folder = find(str(resume), root)
    else:
        if function is None:
            raise KernelwrightError("give a function to optimize, or a run to go on with (resume)")
        form, where = placed(contract, device)
        starts = [start] if isinstance(start, str | Path) else start
        with written_task(function, example_inputs, root, name) as path:
            wishes = Wishes(
                task=f"{path}:backward" if direction == "backward" else str(path),
                proposer=proposer,
                policy=policy,
                contract=form,
                device=where,
                seed=seed,
                plateau=plateau,
                threads=threads,
                baselines=_several(baseline),
                wait=wait,
                ahead=ahead,
                asked=ModelWishes(
                    models=_several(models), ensemble=_path(ensemble), generation=generation, measure=measure
                ),
            )
            folder = begin(wishes, [Path(one) for one in starts], root, budget or DEFAULT_BUDGET, recorded)
    limit = limit_of(folder, budget)
    state = carry_on(
        folder, limit, _Nobody(tell), own_oracle=own_oracle, recorded=recorded, terms=Terms().accepting(accepted)
    )
    if state.stopped is not None and state.stopped.reason is StopReason.interrupted:
        raise KeyboardInterrupt(f"go on with: kernelwright.optimize(resume={str(folder)!r})")
    return _optimized(state, folder)


@contextmanager
def written_task(
    function: Callable[..., Any], example_inputs: Sequence[Any] | torch.Tensor, root: Path, name: str = ""
) -> Iterator[Path]:
    """The captured task as a file, named by what is in it. Where no run is made of it, nothing of it is left."""
    from kernelwright.tasks.capture import task_text
    from kernelwright.tasks.resolve import resolve

    text = task_text(function, example_inputs)
    given = name or getattr(function, "__name__", type(function).__name__)
    stem = re.sub(r"\W+", "_", given, flags=re.ASCII).strip("_").lower() or "task"
    path = root.absolute() / "tasks" / hashlib.sha256(text.encode()).hexdigest()[:12] / f"{stem}.py"
    made = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    path.write_text(text, encoding="utf-8")
    try:
        try:
            resolve(str(path))  # runs it on other sizes too; what holds for the example's alone is refused in a line
        except TaskError as error:
            raise _of_function(error, path, function) from error
        yield path
    except BaseException:
        if new:
            path.unlink(missing_ok=True)
        with suppress(OSError):  # somebody else may have put something there meanwhile
            for folder in made:
                folder.rmdir()
        raise


def _of_function(error: TaskError, path: Path, function: Callable[..., Any]) -> TaskError:
    """What is wrong with the captured task, said of what it was captured from: the file itself is removed."""
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    where = f"{name} ({shown_path(code.co_filename)}:{code.co_firstlineno})" if code is not None else name
    return TaskError(re.sub(rf"^{re.escape(shown_path(str(path)))}(:\d+)?:", lambda _: f"{where}:", str(error)))


def _refuse_others(given: Mapping[str, Any]) -> None:
    """What is given with `resume` and would change nothing."""
    others = (*RESUMED, "tell")
    defaults = {name: one.default for name, one in inspect.signature(optimize).parameters.items()}
    named = [name for name in given if name not in (*others, "resume") and _differs(given[name], defaults[name])]
    if named:
        raise began_with("resume", named, others)


def _differs(value: Any, default: Any) -> bool:
    if isinstance(value, list):
        return bool(tuple(value) != default)
    return type(value) is not type(default) or bool(value != default)


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def _optimized(state: State, folder: Path) -> Optimized:
    reason = state.stopped.reason if state.stopped else None
    found = Optimized(folder, state.run.task, why_stopped(state), reason)
    if state.best is None:
        return replace(found, missing="; ".join([*why_no_best(state), *suspects(state)]))
    entry = state.entries[state.best]
    proof = proof_of(entry)
    return replace(
        found,
        score=entry.score,
        sources=dict(files(entry.proposal.candidate)),
        note=entry.proposal.note,
        verdict=proof.verdict if proof else entry.verdict,
        certificates=proof.names if proof else (),
    )
