"""`kernelwright.optimize`: a function and an example become a task that the judge can read."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import kernelwright
from kernelwright.api import _View, written_task
from kernelwright.errors import KernelwrightError
from kernelwright.proposers.llm.proposer import ProposerTools
from kernelwright.proposers.model import Once
from kernelwright.search import models, proposing, session
from kernelwright.search.progress import SearchProgress
from kernelwright.search.run import look
from kernelwright.tasks import TaskError
from kernelwright.tasks.loading import shown_path
from kernelwright.tasks.resolve import resolve
from tests.cli.test_llm import well
from tests.cli.test_optimize import Judge
from tests.llm.scripted import serving
from tests.proposers.llm import acting, samples
from tests.search import toy


def write_task(function: Callable[..., Any], example: Any, root: Path) -> Path:
    with written_task(function, example, root) as captured:
        return captured.path


def rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(16, 8), nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.norm(self.linear(x)).relu()
        return hidden, hidden.sum(-1)


def test_a_function_becomes_a_task_with_sizes_that_vary_together(tmp_path: Path) -> None:
    task = resolve(str(write_task(rms, (torch.randn(128, 64), torch.randn(64), 1e-6), tmp_path)))
    assert task.name == "rms" and list(task.public) == [{"n0": 128, "n1": 64}]
    assert task.hidden == {"n0": (32, 512), "n1": (16, 256)}
    x, weight = torch.randn(5, 7), torch.randn(7)
    assert torch.equal(task.reference(x, weight), rms(x, weight, 1e-6))


def test_a_modules_parameters_become_inputs_within_their_range(tmp_path: Path) -> None:
    net = Net().eval()
    task = resolve(str(write_task(net, (torch.randn(32, 16),), tmp_path)))
    assert task.outputs == ("out0", "out1") and task.hidden == {"n0": (8, 128)}
    names = list(task.inputs)
    assert len(names) == 7 and "uniform(0.5, 1.5)" in str(task.inputs[names[5]].draw)  # the running variance
    x = torch.randn(9, 16)
    values = [*(v.detach() for v in net.parameters()), net.norm.running_mean, net.norm.running_var]
    for got, wanted in zip(task.reference(*values, x), net(x), strict=True):
        torch.testing.assert_close(got, wanted)


def test_keys_and_values_have_one_length(tmp_path: Path) -> None:
    """torch does not mind if they have not, and reads beyond the shorter ones."""
    given = (torch.randn(2, 3, 8, 16), torch.randn(2, 3, 9, 16), torch.randn(2, 3, 9, 16))
    task = resolve(
        str(write_task(lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v), given, tmp_path))
    )
    assert list(task.public) == [{"n0": 2, "n1": 3, "n2": 8, "n3": 16, "n4": 9}]


def test_a_backward_is_derived_from_it(tmp_path: Path) -> None:
    path = write_task(rms, (torch.randn(128, 64), torch.randn(64), 1e-6), tmp_path)
    assert resolve(f"{path}:backward").direction == "backward"


def test_whole_numbers_keep_to_the_examples_range(tmp_path: Path) -> None:
    def picked(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.gather(1, index[:, None]).squeeze(1)

    index = torch.tensor([0, 5, 3, 1])
    task = resolve(str(write_task(picked, (torch.randn(4, 6), index), tmp_path)))
    assert str(task.inputs["index"].draw) == "integers(0, 6)" and task.hidden["n1"] == (6, 24)


def branching(x: torch.Tensor) -> torch.Tensor:
    return x.relu() if x.sum() > 0 else x.tanh()


@pytest.mark.parametrize(
    ("function", "example", "said"),
    [
        (rms, ([1.0], 2), "the example input number 1 is a list"),
        (rms, (1.0, 2), "no example input is a tensor"),
        (branching, (torch.randn(4, 4),), "torch.export cannot write branching down"),
        (lambda x: F.batch_norm(x, x[0], x[0], training=True), (torch.randn(4, 4),), "updates running statistics"),
        (nn.BatchNorm1d(8), (torch.randn(16, 8),), "call eval"),
        (nn.Sequential(nn.Linear(8, 8), nn.Dropout()), (torch.randn(16, 8),), "call eval() on it first"),
        ("softmax", (torch.randn(4, 4),), "not a value of type str; a task by its name is for the command"),
        (3, (torch.randn(4, 4),), "give a function or a module, not a value of type int"),
        (torch.relu, 3, "the example inputs are of type int: give a tuple or list of the call's arguments"),
        (torch.relu, {"x": torch.randn(4, 4)}, "the example inputs are of type dict: give a tuple or list"),
        (lambda x: x.shape[0], (torch.randn(4, 4),), "write a task file"),
        (lambda x: x.reshape(2, 8) * 2, (torch.randn(4, 4),), "at the sizes of the example alone"),
        (lambda x: x + torch.ones(4, 4), (torch.randn(4, 4),), "all sizes are fixed"),
    ],
)
def test_one_line_for_what_cannot_be_taken(
    tmp_path: Path, function: Callable[..., Any], example: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(TaskError) as caught:
        write_task(function, example, tmp_path / "runs")
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def noisy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand_like(x)


def test_random_numbers_are_blamed_on_the_line_that_draws_them(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        write_task(noisy, torch.randn(4, 4), tmp_path)
    where = f"{shown_path(__file__)}:{noisy.__code__.co_firstlineno + 1}: return x + torch.rand_like(x)"
    assert str(caught.value) == (
        f"it draws random numbers (rand_like) (at {where}), and two draws differ: make what it draws an argument"
    )


@pytest.mark.parametrize(
    ("function", "example", "call", "said"),
    [
        (rms, (torch.ones(4, 4),), "rms(x, weight, eps)", "missing a required argument: 'weight'"),
        (nn.Linear(4, 4), (torch.ones(4, 4), 3), "Linear(input)", "too many positional arguments"),
    ],
)
def test_an_example_that_is_no_call_of_the_function(
    tmp_path: Path, function: Callable[..., Any], example: tuple[Any, ...], call: str, said: str
) -> None:
    with pytest.raises(TaskError) as caught:
        write_task(function, example, tmp_path)
    assert str(caught.value) == f"the example inputs are not the arguments of {call}: {said}"


def test_a_captured_task_imports_what_it_uses(tmp_path: Path) -> None:
    def masked(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.masked_fill(x < 0, -float("inf")).softmax(-1).gather(1, index[:, None])

    plain = write_task(rms, EXAMPLE, tmp_path).read_text()
    assert re.findall("^(?:import|from) .*", plain, re.M) == [
        "import torch",
        "from kernelwright.tasks import CallArgument, Task, tensor",
    ]
    other = write_task(masked, (torch.randn(4, 4), torch.arange(4)), tmp_path).read_text()
    assert "from math import inf\nfrom kernelwright.tasks import CallArgument, Task, integers, tensor\n\n\ndef" in other
    assert "NoneType" not in plain + other


def test_one_tensor_is_the_only_argument(tmp_path: Path) -> None:
    alone, within = (write_task(torch.relu, example, tmp_path) for example in (torch.ones(8, 4), [torch.ones(8, 4)]))
    assert alone == within and list(resolve(str(alone)).public) == [{"n0": 8, "n1": 4}]


def test_modules_that_drop_nothing_now_and_whole_numbers_that_are_cast_are_taken(tmp_path: Path) -> None:
    write_task(nn.Sequential(nn.Linear(8, 8), nn.Dropout()).eval(), torch.randn(16, 8), tmp_path)
    write_task(lambda x, index: x * index.float(), (torch.randn(4, 4), torch.ones(4, 4).long()), tmp_path)


def test_torchs_own_warnings_of_itself_are_not_ours(tmp_path: Path) -> None:
    def warning(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("mine", FutureWarning, stacklevel=1)
        return x * 2

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        write_task(warning, torch.randn(4, 4), tmp_path)
    assert {str(one.message) for one in seen if one.category is FutureWarning} == {"mine"}


def test_a_task_of_which_no_run_is_made_is_not_left_behind(toys: Path) -> None:
    runs = toys / "new" / "runs"
    with pytest.raises(KernelwrightError, match="unknown baseline"):
        kernelwright.optimize(rms, EXAMPLE, baseline="magic", runs=runs)
    assert not (toys / "new").exists()
    found = kernelwright.optimize(rms, EXAMPLE, budget="2evals", runs=runs)
    with pytest.raises(KernelwrightError, match="unknown baseline"):
        kernelwright.optimize(rms, EXAMPLE, baseline="magic", runs=runs)
    assert Path(found.task).is_file()  # it was there before


def halved(x: torch.Tensor) -> torch.Tensor:
    while x.norm() > 1:
        x = x / 2
    return x


@pytest.mark.parametrize("function", [branching, halved])
def test_control_flow_that_depends_on_values_is_named_and_the_rest_is_the_cause(
    tmp_path: Path,
    function: Callable[..., Any],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(TaskError) as caught:
        write_task(function, (torch.randn(4, 4),), tmp_path)
    line = function.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"torch.export cannot write {function.__name__} down: a branch, a loop or a size in it depends on the values "
        f"of a tensor ({shown_path(__file__)}:{line}): write a task file"
    )
    assert "data-dependent" in str(caught.value.__cause__)
    assert "def forward(" in "".join(caught.value.__cause__.__notes__)
    assert "def forward(" not in capfd.readouterr().err and "Unable to find user code" not in caplog.text


EXAMPLE = (torch.randn(128, 64), torch.randn(64), 1e-6)


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A judge and a proposer that take no time; where runs are kept."""
    monkeypatch.setattr(session, "ServerJudge", Judge)
    monkeypatch.setattr(session, "_bounds", lambda task: {})
    monkeypatch.setitem(proposing.PROPOSERS, "templates", toy.KIND)
    monkeypatch.setattr(Judge, "stop_after", 10**9)
    return tmp_path


def test_a_whole_search_from_python(toys: Path) -> None:
    found = kernelwright.optimize(rms, EXAMPLE, budget="20evals", runs=toys)
    assert found.beats_baseline
    assert found.score is not None and found.sources.keys() == {"kernel.cpp"} and found.run == toys / "rms-1"
    assert found.source == found.sources["kernel.cpp"] == (found.run / "best" / "kernel.cpp").read_text()
    assert str(found).startswith(f"{toys / 'rms-1'}: {found.score:.2f}× over the best baseline") and not found.missing
    assert resolve(found.task).name == "rms"


def test_without_a_best_it_says_why(toys: Path) -> None:
    found = kernelwright.optimize(rms, EXAMPLE, budget="1evals", seed=2, runs=toys)
    assert found.score is None and found.sources == {} and "no budget was left for its final" in found.missing
    assert str(found) == f"{toys / 'rms-1'}: no best kernel: {found.missing}"
    with pytest.raises(KernelwrightError, match=re.escape(f"rms-1 has no best kernel: {found.missing}")):
        _ = found.source


def test_a_run_goes_on_from_python_with_the_budget_that_it_had(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "stop_after", 4)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        kernelwright.optimize(rms, EXAMPLE, budget="21evals", runs=toys)
    assert str(interrupt.value) == f"continue with: kernelwright.optimize(resume={str(toys / 'rms-1')!r})"
    stopped = look(toys / "rms-1").stopped
    assert stopped is not None and stopped.reason == "interrupted"
    monkeypatch.setattr(Judge, "stop_after", 10**9)
    found = kernelwright.optimize(resume="rms-1", runs=toys)
    assert found.stop_reason == "budget"
    assert "its budget" in found.stopped and str(look(found.run).budget) == "21evals"
    assert found.score is not None and resolve(found.task).name == "rms"
    kernelwright.optimize(resume=toys / "rms-1", budget="60evals")
    assert str(look(found.run).budget) == "60evals" and look(found.run).spent.evaluations > 21


def test_what_is_asked_for_is_what_the_run_is_told(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(proposing.PROPOSERS, "templates", replace(toy.KIND, lockstep=False))
    (toys / "mine.cpp").write_text(toy.source_of((1,) * toy.GENES))
    options: dict[str, Any] = {"seed": 3, "plateau": 5, "threads": 2, "policy": "greedy"}
    options |= {"answer_timeout": 7.0, "open_requests": 4}
    found = kernelwright.optimize(
        rms, EXAMPLE, budget="2evals", baseline="eager", start=toys / "mine.cpp", runs=toys, **options
    )
    state = look(found.run)
    assert state.run.model_dump(include=set(options)) == options and state.run.baselines == ("eager",)
    assert state.starts == (1,)


def test_models_are_asked_and_recorded_as_by_the_command(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "Once", lambda make: Once(lambda: ProposerTools(samples.ground(), (acting.builds,))))
    sizes: dict[str, Any] = {"proposals_per_generation": 3, "judged_per_generation": 2}
    with serving(well) as server:
        options: dict[str, Any] = {"proposer": "llm", "models": f"{server.url}#m", "budget": "6evals", "runs": toys}
        found = kernelwright.optimize(rms, EXAMPLE, **sizes, record=toys / "tape", **options)
        asked = len(server.seen)
        again = kernelwright.optimize(rms, EXAMPLE, **sizes, replay=str(toys / "tape"), **options)
        assert asked and len(server.seen) == asked
    for one in (found, again):
        assert look(one.run).run.model_dump(include=set(sizes)) == sizes


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((), {}, "pass a function to optimize, or a run to continue (resume)"),
        ((rms, EXAMPLE), {"resume": "rms-1"}, "leave out function and example_inputs; budget, record, replay, runs,"),
        ((), {"resume": "rms-1", "name": "x", "seed": 3}, "leave out name and seed; budget, "),
        ((), {"resume": "rms-1", "answer_timeout": 5.0}, "leave out answer_timeout; "),
        ((), {"resume": "rms-1", "baseline": ["eager"], "on_progress": print}, "leave out baseline; "),
        ((), {"resume": "rms-1", "start": [], "no_server": True}, "rms-1: no such run"),
        ((), {"resume": "rms-1"}, "rms-1: no such run"),
        ((rms, EXAMPLE), {"budget": "soon"}, "budget 'soon'"),
        ((rms, EXAMPLE), {"baseline": "magic"}, "unknown baseline 'magic'"),
        ((rms, EXAMPLE), {"record": "tape"}, "only that one asks models"),
    ],
)
def test_one_line_for_bad_arguments(toys: Path, arguments: tuple[Any, ...], options: dict[str, Any], said: str) -> None:
    with pytest.raises(KernelwrightError) as caught:
        kernelwright.optimize(*arguments, runs=toys, **options)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert not list(toys.glob("rms-*"))


def test_progress_tells_of_candidates_finals_and_the_judges_work(toys: Path) -> None:
    heard: list[SearchProgress] = []
    found = kernelwright.optimize(rms, EXAMPLE, budget="20evals", runs=toys, on_progress=heard.append)
    state = look(found.run)
    quick = [one for one in heard if one.outcome in ("accepted", "rejected")]
    assert [one.candidate for one in quick] == [number for number, one in state.entries.items() if one.verdict]
    assert all((one.estimate is None) == (one.outcome == "rejected") for one in quick)
    finals = [one for one in heard if one.outcome == "best"]
    assert finals[-1].candidate == state.best and finals[-1].score == found.score
    assert str(finals[0]).startswith(f"{finals[0].candidate:04d}  final won, it is the new best")
    assert heard[0].text == "opening the task" and heard[-1].outcome == "stopped"


def test_the_task_is_resolved_once(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def counted(reference: str, device: str = "cpu") -> Any:
        seen.append(reference)
        return resolve(reference, device)

    monkeypatch.setattr("kernelwright.tasks.resolve.resolve", counted)
    found = kernelwright.optimize(rms, EXAMPLE, budget="4evals", runs=toys)
    assert seen == [found.task]
    kernelwright.optimize(resume=found.run, budget="8evals", runs=toys)
    assert seen == [found.task] * 2


def test_importing_the_package_stays_light() -> None:
    code = "import sys, kernelwright; sys.exit(any(n in sys.modules for n in ('torch', 'pydantic', 'sqlite3')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_progress_names_each_stage_once_and_not_every_trial() -> None:
    heard: list[SearchProgress] = []
    view = _View(heard.append)
    for text in ("building", "n=1: trial 1", "n=1: trial 2", "sizes: 1 of 40 points", "sizes: 2 of 40 points"):
        view.progress(text)
    assert [one.text for one in heard] == ["building", "n=1", "sizes"]
