"""`kernelwright.optimize`, `load` and `bench`: what the commands do, from Python and without a task file."""

from __future__ import annotations

import hashlib
import inspect
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernelwright.errors import KernelwrightError
from kernelwright.isolation import levels
from kernelwright.judge.verdict import AuthorVerdict, Verdict
from kernelwright.judge.wording import stage_words
from kernelwright.search.config import OPTIONS, RESUMABLE, SearchConfig, accepted_level, config_from, refuse_with_resume
from kernelwright.search.core import budget as budgets
from kernelwright.search.core.events import Event, StopReason
from kernelwright.search.core.state import State
from kernelwright.search.directory import BEST, files
from kernelwright.search.models import Recorded
from kernelwright.search.progress import SearchProgress, progress_of
from kernelwright.search.session import begin, carry_on, find, limit_of, resumed
from kernelwright.search.summary import (
    beats_baseline,
    generic_steps,
    no_gain,
    proof_of,
    suspects,
    why_no_best,
    why_stopped,
)
from kernelwright.search.task import ResolvedTask, resolve_task
from kernelwright.tasks.dims import NotFiniteError, TaskError
from kernelwright.tasks.loading import shown_path

if TYPE_CHECKING:
    import torch

    from kernelwright.benchmark.metrics import Metrics
    from kernelwright.benchmark.results import Results, SampleRow
    from kernelwright.export.own_function import KernelModule
    from kernelwright.export.standalone.kernel import LoadedKernel
    from kernelwright.tasks.capture import CapturedText

DEFAULTS = SearchConfig(task="")


@dataclass(frozen=True)
class Optimized:
    """The result of a search; printed, one line.

    Without a best kernel, `score` is None, `sources` is empty, and `missing` says why.
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
    generic: tuple[str, ...] = ()  # what templates computed correctly and not fast, with your lines
    beats_baseline: bool = False  # whether the best is shown to be faster than the best baseline
    function: Callable[..., Any] | None = field(default=None, repr=False, compare=False)  # what was optimized
    result_types: tuple[type, ...] = field(default=(), repr=False, compare=False)  # its own classes of named tuples

    @property
    def source(self) -> str:
        """The text of the best kernel; a KernelwrightError with what is `missing` where there is none."""
        if self.score is None:
            raise KernelwrightError(f"{self.run} has no best kernel: {self.missing}")
        return next(iter(self.sources.values()))  # a plan comes after its kernel

    def load(self, *others: str | Path, allow: Sequence[str] = ()) -> LoadedKernel | KernelModule:
        """The best, called like the function or module that was optimized: see `kernelwright.load`. `others` are
        further runs of the task, such as its backward's. For a module it is a module that uses the same parameters."""
        from torch import nn  # here, as in all of this package: it takes seconds

        from kernelwright.export.own_function import KernelModule, fallback_of

        kernel = load(self.run, *others, allow=allow)
        if self.function is None:
            return kernel
        kernel.fall_back_to(fallback_of(self.function, kernel.manifest.operation.call))
        kernel.return_as(*self.result_types)
        return KernelModule(self.function, kernel) if isinstance(self.function, nn.Module) else kernel

    def export(
        self, output: str | Path, *others: str | Path, name: str = "", layout: str = "package", fast_path: bool = False
    ) -> Path:
        """Writes a package and its wheel, as `kernelwright export` does, and says where the wheel (or folder) is."""
        from kernelwright.export.package import export
        from kernelwright.export.proof import proved_in

        proved = [proved_in(find(str(run), self.run.parent)) for run in (self.run, *others)]
        made = export(proved, Path(output), name, layout, fast_path=fast_path)
        return made.wheel or made.folder

    def __str__(self) -> str:
        if self.score is None:
            return f"{self.run}: no best kernel: {self.missing}"
        slower = no_gain(self.score, self.verdict)
        said = f"{self.score:.2f}× over the best baseline{f' ({slower})' if slower else ''}"
        return f"{self.run}: {said}; the kernel is in {self.run / BEST}"


class _View:
    """Tells a caller's function of candidates and of what the judge does, stage by stage."""

    def __init__(self, on_progress: Callable[[SearchProgress], object] | None) -> None:
        self._on_progress = on_progress
        self._stage = ""

    def __call__(self, event: Event, state: State) -> None:
        found = progress_of(event, state)
        if found is not None and self._on_progress is not None:
            self._on_progress(found)

    def progress(self, text: str) -> None:
        stage = stage_words(text)  # not every trial: `on_progress=print` would print thousands of lines
        if self._on_progress is not None and stage != self._stage:
            self._stage = stage
            self._on_progress(SearchProgress(stage))


def optimize(
    function: Callable[..., Any] | Path | None = None,
    example_inputs: Sequence[Any] | torch.Tensor = (),
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    name: str = "",
    direction: Literal["forward", "backward"] = "forward",
    resume: str | Path | None = None,
    proposer: str = DEFAULTS.proposer,
    policy: str = DEFAULTS.policy,
    contract: str | None = DEFAULTS.contract,
    device: str | None = DEFAULTS.device,
    budget: str | None = DEFAULTS.budget,
    start: str | Path | Sequence[str | Path] = DEFAULTS.start,
    seed: int = DEFAULTS.seed,
    plateau: int = DEFAULTS.plateau,
    threads: int = DEFAULTS.threads,
    baseline: str | Sequence[str] = DEFAULTS.baseline,
    answer_timeout: float = DEFAULTS.answer_timeout,
    open_requests: int = DEFAULTS.open_requests,
    models: str | Sequence[str] = DEFAULTS.models,
    ensemble: str | Path | None = DEFAULTS.ensemble,
    proposals_per_generation: int = DEFAULTS.proposals_per_generation,
    judged_per_generation: int = DEFAULTS.judged_per_generation,
    record: str | Path | None = DEFAULTS.record,
    replay: str | Path | None = DEFAULTS.replay,
    runs: str | Path = DEFAULTS.runs,
    no_server: bool = DEFAULTS.no_server,
    isolation: str | None = DEFAULTS.isolation,
    trust_task: bool = DEFAULTS.trust_task,
    on_progress: Callable[[SearchProgress], object] | None = None,
) -> Optimized:
    """Searches for a faster kernel for `function` (or a module), at sizes around those of the example.

    The example holds the arguments of one call, or is the only argument; `example_kwargs` are those given by name. Its
    sizes are the public workload; hidden workloads have sizes around them. The captured task is written beside the
    runs, and every command takes it. Instead of a function, a `Path` names a task file or a KernelBench problem file;
    then no example is needed. With `resume`, a run continues and no function is given.

    Ctrl-C stops the run, so that `resume` can continue it, and then raises KeyboardInterrupt.

    `name` and `direction` are the task's. `on_progress` is called with a `SearchProgress` for each candidate, each
    final and each stage of the judge; `on_progress=print` prints them. All other arguments are options of the command
    `kernelwright optimize`. An option that the command takes several times takes one value or a list here.
    """
    given = dict(locals())
    began = time.monotonic()
    accepted = accepted_level(isolation)
    levels.demand(accepted)
    root, recorded = Path(runs), Recorded(_path(record), _path(replay))
    result_types: tuple[type, ...] = ()
    if budget is not None:
        budgets.parse(budget)
    if resume is not None:
        _refuse_others(given)
        session = resumed(find(str(resume), root), began)
    elif function is None:
        raise KernelwrightError("pass a function to optimize, or a run to continue (resume)")
    elif isinstance(function, Path):
        suffix = ":backward" if direction == "backward" else ""
        session = begin(config_from(f"{function.absolute()}{suffix}", given), began)
    else:
        config = config_from("", given)
        with written_task(function, example_inputs, root, name, example_kwargs) as captured:
            backward, cpu = direction == "backward", config.contract_and_devices[1][0].kind == "cpu"
            task = f"{captured.path}:backward" if backward else str(captured.path)
            result_types = captured.result_types
            session = begin(replace(config, task=task), began, None if backward or not cpu else captured.about)
    limit = limit_of(session.folder, budget)
    state = carry_on(session, limit, _View(on_progress), no_server=no_server, recorded=recorded, isolation=accepted)
    if state.stopped is not None and state.stopped.reason is StopReason.interrupted:
        raise KeyboardInterrupt(f"continue with: kernelwright.optimize(resume={str(session.folder)!r})")
    own = function if callable(function) and direction == "forward" else None
    return replace(_optimized(state, session.folder), function=own, result_types=result_types)


def load(
    *given: str | Path,
    allow: Sequence[str] = (),
    reference: Callable[..., Any] | None = None,
    runs: str | Path = DEFAULTS.runs,
) -> LoadedKernel:
    """A proved kernel as a function with the reference's signature: `kernelwright.load(RUN)`, or an exported FOLDER.

    Calls for which the kernel is proved correct and faster run the kernel, all others the reference; `counts` says how
    many and why. With several runs of one task, the shape decides which kernel runs; the run of its backward serves
    gradients. `reference` replaces the task's own. `allow` ("device", "threads", "sizes") uses the kernel beyond what
    is proved.
    """
    from kernelwright.export.loading import load as load_kernel

    return load_kernel(*given, allow=allow, reference=reference, runs=runs)


def build_fast_path() -> Path:
    """Compiles the C++ host side of loaded kernels for this torch, once: kernels that are loaded later are called by
    it, at a fifth of what Python costs or less. Needs a C++ compiler and about a minute."""
    from kernelwright.export.standalone import fastbuild

    try:
        return fastbuild.build()
    except fastbuild.FastPathError as error:
        raise KernelwrightError(f"the fast path cannot be built: {error}") from None


@dataclass(frozen=True)
class Benchmarked:
    """What a benchmark came to: the file, its raw rows, and the metrics that follow from them."""

    file: Path
    results: Results
    metrics: Metrics


class _BenchmarkView:
    """Tells a caller's function of each sample and of what goes on."""

    def __init__(self, on_progress: Callable[[str], object] | None) -> None:
        self._tell = on_progress or (lambda text: None)

    def begin(self, task: str, sample: int, done: int, planned: int) -> None:
        self._tell(f"{done + 1}/{planned} {task}, sample {sample}")

    def progress(self, text: str) -> None:
        self._tell(text)

    def row(self, row: SampleRow) -> None:
        self._tell(f"{row.task}, sample {row.sample}: {row.outcome.value}")

    def unopened(self, task: str, why: str) -> None:
        self._tell(f"{task}: left out: {why}")


def bench(
    suite: str | Path,
    *,
    candidates: str | Path | None = None,
    output: str | Path = "results.jsonl",
    name: str = "",
    only: str | Sequence[str] = (),
    sample: int | None = None,
    samples: int = 1,
    retry: bool = False,
    on_progress: Callable[[str], object] | None = None,
    **options: Any,
) -> Benchmarked:
    """Measures candidates of a folder, or a proposer, over a suite: `kernelwright bench` from Python.

    `options` are those that `optimize` has too: proposer, budget, device, baseline, seed and so on. A results file that
    is there is continued. Ctrl-C is raised, once the file says where it was.
    """
    from kernelwright.benchmark.config import BenchConfig
    from kernelwright.benchmark.metrics import metrics
    from kernelwright.benchmark.session import run_benchmark

    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise TypeError(f"bench() got an unexpected keyword argument {unknown[0]!r}")
    if candidates is not None and "proposer" in options:
        raise KernelwrightError("give candidates or a proposer: the former are judged, the latter searches")
    config = BenchConfig(
        suite=str(suite),
        candidates=_path(candidates),
        search=config_from("", options),
        name=name,
        only=(only,) if isinstance(only, str) else tuple(only),
        sample=sample,
        samples=samples,
        output=Path(output),
        retry=retry,
    )
    results = run_benchmark(config, _BenchmarkView(on_progress))
    return Benchmarked(Path(output), results, metrics(results))


@dataclass(frozen=True)
class CapturedTask:
    path: Path
    about: ResolvedTask
    result_types: tuple[type, ...] = ()


@contextmanager
def written_task(
    function: Callable[..., Any],
    example_inputs: Sequence[Any] | torch.Tensor,
    root: Path,
    name: str = "",
    example_kwargs: Mapping[str, Any] | None = None,
) -> Iterator[CapturedTask]:
    """The captured task as a file, named by what is in it. Where no run is made of it, nothing of it is left."""
    from kernelwright.tasks.capture import captured

    given = name or getattr(function, "__name__", type(function).__name__)
    stem = re.sub(r"\W+", "_", given, flags=re.ASCII).strip("_").lower() or "task"
    found = captured(function, example_inputs, example_kwargs)
    with ExitStack() as stack:
        try:
            made = stack.enter_context(_resolved(function, found, root, stem))
        except NotFiniteError as error:  # as of a logarithm or a root: its arguments are then drawn like the example's
            found = captured(function, example_inputs, example_kwargs, within=True)
            try:
                made = stack.enter_context(_resolved(function, found, root, stem))
            except NotFiniteError:
                raise error from None
        yield made


@contextmanager
def _resolved(function: Callable[..., Any], found: CapturedText, root: Path, stem: str) -> Iterator[CapturedTask]:
    from kernelwright.tasks.source_lines import map_beside, write_map

    path = root.absolute() / "tasks" / hashlib.sha256(found.text.encode()).hexdigest()[:12] / f"{stem}.py"
    made = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    path.write_text(found.text, encoding="utf-8")
    write_map(path, found.lines)  # also where the file is there: lines move while what they compute stays
    try:
        try:
            about = resolve_task(str(path), "cpu")  # on other sizes too: what holds for the example's alone is refused
        except TaskError as error:
            raise _of_function(error, path, function) from error
        yield CapturedTask(path, about, found.result_types)
    except BaseException:
        if new:
            path.unlink(missing_ok=True)
            map_beside(path).unlink(missing_ok=True)
        with suppress(OSError):  # another process may have put something there meanwhile
            for folder in made:
                folder.rmdir()
        raise


def _of_function(error: TaskError, path: Path, function: Callable[..., Any]) -> TaskError:
    """What is wrong with the captured task, said of what it was captured from: the file itself is removed."""
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    where = f"{name} ({shown_path(code.co_filename)}:{code.co_firstlineno})" if code is not None else name
    return type(error)(re.sub(rf"^{re.escape(shown_path(str(path)))}(:\d+)?:", lambda _: f"{where}:", str(error)))


def _refuse_others(given: Mapping[str, Any]) -> None:
    """Arguments that `resume` does not take."""
    others = (*RESUMABLE, "on_progress")
    defaults = {name: one.default for name, one in inspect.signature(optimize).parameters.items()}
    named = [name for name in given if name not in (*others, "resume") and _differs(given[name], defaults[name])]
    if named:
        raise refuse_with_resume("resume", named, others)


def _differs(value: Any, default: Any) -> bool:
    if isinstance(value, list):
        return bool(tuple(value) != default)
    return type(value) is not type(default) or bool(value != default)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def _optimized(state: State, folder: Path) -> Optimized:
    reason = state.stopped.reason if state.stopped else None
    found = Optimized(folder, state.run.task, why_stopped(state), reason, generic=generic_steps(state))
    if state.best is None:
        return replace(found, missing="; ".join([*why_no_best(state), *suspects(state)]))
    entry = state.entries[state.best]
    proof = proof_of(state.run, entry).proof
    return replace(
        found,
        score=entry.score,
        sources=dict(files(entry.proposal.candidate)),
        note=entry.proposal.note,
        verdict=proof.verdict if proof else entry.verdict,
        certificates=proof.names if proof else (),
        beats_baseline=beats_baseline(state),
    )
