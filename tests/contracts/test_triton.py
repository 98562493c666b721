"""The `triton` contract: what it takes, how its functions are called, its configurations, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.model import BuildFailure, GpuBuild
from kernelwright.contracts.registry import fingerprint, read_source
from kernelwright.contracts.target import HOPPER
from kernelwright.contracts.triton import TRITON
from kernelwright.contracts.triton.configurations import choices, configured
from kernelwright.contracts.triton.source import module_call
from kernelwright.contracts.triton.toolchain import ptxas, record
from kernelwright.contracts.tunables import declared, render, variants
from kernelwright.devices import lock
from kernelwright.judge.emulate.check import Checker, CheckOutcome
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Signature
from kernelwright.tasks.resolve import resolve

HERE = Path(__file__).parents[1]
KERNELS, EXPLOITS = HERE / "kernels_triton", HERE / "exploits_triton"
MODULES = [
    (name, task) for name, tasks in tomllib.loads((KERNELS / "kernels.toml").read_text()).items() for task in tasks
]
TRICKS: dict[str, dict[str, Any]] = tomllib.loads((EXPLOITS / "exploits.toml").read_text())
HALF_MATMUL = str(KERNELS / "tasks" / "half_matmul.py")
DESCRIBED = KERNELS / "half_matmul" / "persistent_descriptors.py"
SOFTMAX = (KERNELS / "softmax" / "rows.py").read_text()
HEAD = "import torch, triton\nimport triton.language as tl\n"
KERNEL = "@triton.jit\ndef k(x, N: tl.constexpr):\n    pass\n"
needs_triton = pytest.mark.skipif(bool(ptxas.absence()), reason=ptxas.absence())


def forms(task: str, count: int = 1) -> tuple[Signature, ...]:
    found = resolve(task, "cuda")
    return tuple(signature(found, workload) for workload in found.public_workloads()[:count])


def called(task: str, source: str) -> list[object]:
    """The names of the arguments that a function is called with."""
    (form,) = forms(task)
    plan = module_call(HEAD + KERNEL + source, form).plan
    return [plan.function, *(form.arguments[v].name if isinstance(v, int) else v for v in plan.values)]


def built(task: str, source: str, count: int = 1) -> GpuBuild | BuildFailure:
    with lock.working():  # as the judge does
        return TRITON.toolchain(HOPPER).build(Candidate("triton", source), forms(task, count))


def task_named(task: str) -> str:
    return str(KERNELS / task) if task.startswith("tasks/") else task


# --- what it takes ---------------------------------------------------------------------------------------------------


def test_python_with_a_kernel_is_taken_and_other_python_is_not(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(SOFTMAX)
    assert read_source(path).contract == "triton"
    path.write_text((KERNELS / "tasks" / "attention.py").read_text())
    assert not TRITON.takes(path)  # a task


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def forward(x:\n", "line 1: is not Python"),
        ("import torch\ndef forward(x):\n    return x\n", "has no kernel: decorate a function with @triton.jit"),
        (HEAD + KERNEL, "has no host function"),
    ],
)
def test_what_is_not_a_module_with_kernels_is_one_line(source: str, said: str) -> None:
    with pytest.raises(CandidateError, match=said):
        TRITON.check_source(source)


def test_comments_make_no_other_candidate_and_a_chosen_configuration_does() -> None:
    source = (KERNELS / "softmax" / "online.py").read_text()
    plain, remarked = Candidate("triton", source), Candidate("triton", f"# a remark\n{source}")
    assert fingerprint(plain) == fingerprint(remarked)
    assert fingerprint(render(plain, {"online_kernel_config": "3"})) != fingerprint(plain)


# --- what is called --------------------------------------------------------------------------------------------------


def test_parameters_take_arguments_by_name_and_the_rest_in_order() -> None:
    assert called("rmsnorm", "def forward(a, w, epsilon=1e-6): ...") == ["forward", "x", "weight", "eps"]
    assert called("rmsnorm", "def forward(eps, weight, a): ...") == ["forward", "eps", "weight", "x"]
    assert called("softmax:backward", "def backward(x, dout): ...") == ["backward", "x", "grad_out"]


@pytest.mark.parametrize(
    ("source", "function"),
    [
        ("def rms_norm_forward(x, weight, eps): ...\ndef helper(x): ...", "rms_norm_forward"),
        ("def go(x, weight, eps):\n    k[(1,)](x, N=1)\ndef benchmark():\n    go(1, 2, 3)", "go"),
        ("def one(x):\n    k[(1,)](x, N=1)\ndef go(x, weight, eps):\n    k[(1,)](x, N=1)\n    one(x)", "go"),
        ("from compiler import launch\ndef go(x, weight, eps, *, by=launch):\n    by(k, (1,), x)", "go"),
        ("class N(torch.autograd.Function):\n    def forward(ctx, x, weight, eps): ...", "N.forward"),
    ],
)
def test_the_function_is_the_one_that_stands_for_the_task(source: str, function: str) -> None:
    assert called("rmsnorm", source) == [function, "x", "weight", "eps"]


def test_the_gradient_of_an_autograd_class_is_its_forward_and_its_backward() -> None:
    source = (KERNELS / "attention" / "flash.py").read_text()
    (form,) = forms(f"{KERNELS / 'tasks' / 'attention.py'}:backward")
    call = module_call(source, form)
    assert (call.context, call.wanted) == ("FlashAttention", (0, 1, 2))
    assert [form.arguments[n].name for n in call.gradients] == ["grad_out"]


def test_what_the_task_does_not_give_is_named() -> None:
    with pytest.raises(CandidateError, match="forward takes mask, which the task does not give"):
        called("softmax", "def forward(x, mask): ...")


# --- configurations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configs", "count"),
    [
        ("[triton.Config({'N': 1}), triton.Config({'N': 2})]", 2),
        ("[triton.Config({'N': n}, num_warps=w) for n in [1, 2, 3] for w in range(2, 4)]", 6),
        ("[triton.Config({'N': n * m}) for n in (16, 32, 64) for m in (16, 32) if n * m <= 1024]", 5),
        ("[triton.Config({'N': n}) for n, m in itertools.product([1, 2], [3, 4])]", 4),
        ("FEW + [triton.Config({'N': 3})]", 3),
        ("made()", 2),
        ("list(read())", 0),
    ],
)
def test_configurations_are_counted_without_running_anything(configs: str, count: int) -> None:
    source = (
        f"{HEAD}FEW = [triton.Config({{'N': 1}}), triton.Config({{'N': 2}})]\ndef made():\n    return FEW\n"
        f"@triton.autotune(configs={configs}, key=[])\n{KERNEL}def forward(x): ...\n"
    )
    found = dict(configured(source))
    assert len(found.get("k_config", (0,))) - 1 == count


def test_configurations_are_tunables_and_the_chosen_one_stands_in_the_source() -> None:
    candidate = Candidate("triton", (KERNELS / "softmax" / "online.py").read_text())
    (tunable,) = declared(candidate)
    assert (tunable.name, tunable.now, len(tunable.values)) == ("online_kernel_config", "first", 7)
    assert render(candidate) == candidate and choices(candidate.source) == {}
    assert {"online_kernel_config": "5"} in variants(candidate, 32, 0)
    chosen = render(candidate, {"online_kernel_config": "5"})
    assert choices(chosen.source) == {"online_kernel": 5} and chosen.source.startswith(candidate.source.rstrip())
    assert choices(render(chosen, {"online_kernel_config": "1"}).source) == {"online_kernel": 1}
    assert choices(render(chosen, {"online_kernel_config": "first"}).source) == {}


# --- recorded --------------------------------------------------------------------------------------------------------


AS_WITH_CUDA = """
from pathlib import Path
import torch
from kw_confined import recording
state = recording.RecordingState({device}, recording.Refusals(), {{}})
recording._prepare(state, {{"ptx_version": 87, "choices": {{}}}})
torch.accelerator.current_accelerator = lambda *_: "cuda"  # as a build for CUDA says where `stand_in` was
with recording.FakeTensorMode():
    print(torch.empty(3, device="cuda").device)
    print(torch.empty(3, device="cuda").to("cuda").device, torch.empty(3).cuda().device)
"""


@needs_triton
def test_tensors_of_the_recorder_lie_on_the_one_gpu_and_take_no_memory(tmp_path: Path) -> None:
    head = record.BOOT.partition("from {package} import")[0]
    text = head.format(memory=record.MEMORY, paths=list(record.package_folders()), folders=record.OURS)
    text += AS_WITH_CUDA.format(device=record.device_text(HOPPER))
    made = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", text],
        env={"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.stdout.split() == ["cuda:0"] * 3, made.stderr[-500:]


@needs_triton
def test_a_module_becomes_a_program_of_its_launches() -> None:
    made = built("softmax", SOFTMAX)
    assert isinstance(made, GpuBuild), made
    program = made.built[0].program
    (step,) = program.launches
    rows = forms("softmax")[0].tensors[0].shape[0]
    assert (step.function, step.grid, step.block) == ("softmax_kernel", (rows, 1, 1), (256, 1, 1))
    assert [program.blocks[a.pointers[0].block].name for a in step.arguments[:2]] == ["out", "x"]
    assert made.built[0].modules[0].startswith(b"\x7fELF") and [b.name for b in program.blocks] == ["x", "out"]


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize(("name", "task"), MODULES)
def test_every_module_is_recorded_and_right(name: str, task: str) -> None:
    candidate = read_source(KERNELS / name, "triton")
    with Checker(small=1, most_elements=400_000) as checker:
        result = checker.check(task_named(task), candidate)
    assert result.outcome is CheckOutcome.right, result


@pytest.mark.slow
@needs_triton
def test_a_host_tensor_descriptor_becomes_a_tensor_map() -> None:
    made = built(
        str(KERNELS / "tasks" / "half_matmul.py"), (KERNELS / "half_matmul/persistent_descriptors.py").read_text()
    )
    assert isinstance(made, GpuBuild), made
    first, second = made.built[0].program.tensor_maps
    assert (first.data_type, first.sizes, first.strides, first.box) == ("FLOAT16", (128, 256), (256,), (64, 128))
    assert (second.sizes, second.box[1], second.swizzle) == ((192, 128), 64, "128B")


@pytest.mark.slow
@needs_triton
def test_a_chosen_configuration_is_the_one_that_is_recorded() -> None:
    candidate = Candidate("triton", (KERNELS / "softmax" / "online.py").read_text())
    threads = []
    for number in ("0", "1"):
        made = built("softmax", render(candidate, {"online_kernel_config": number}).source)
        assert isinstance(made, GpuBuild), made
        threads.append(made.built[0].program.launches[0].block[0])
    assert threads == [128, 256]
    failed = built("softmax", candidate.source + "\nonline_kernel_config = 9  # tunable: online_kernel_config = 9\n")
    assert isinstance(failed, BuildFailure) and "has 6 configurations, not 10" in failed.lines[0]


@pytest.mark.slow
@needs_triton
def test_a_configuration_that_does_not_fit_the_device_is_passed_over() -> None:
    source = DESCRIBED.read_text()
    first = '{"M": 128, "N": 128, "K": 64}, num_warps=8, num_stages=3'
    assert first in source
    made = built(HALF_MATMUL, source.replace(first, '{"M": 256, "N": 256, "K": 128}, num_stages=5'))
    assert isinstance(made, GpuBuild), made
    assert made.built[0].program.tensor_maps[0].box == (64, 64)


# --- refused ---------------------------------------------------------------------------------------------------------


def trick(name: str) -> str:
    return (EXPLOITS / f"{name}.py").read_text()


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("name", [name for name, about in TRICKS.items() if about["ends"] == "record"])
def test_host_code_that_no_record_can_have_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "hangs":
        monkeypatch.setattr(record, "START_SECONDS", 10.0)
        monkeypatch.setattr(record, "CALL_SECONDS", 1.0)
    made = built("softmax", trick(name), 2)
    assert isinstance(made, BuildFailure), made
    assert TRICKS[name]["said"] in made.lines[0] and len(made.lines) < 25, made
    assert "\n" not in made.lines[0]


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("name", [name for name, about in TRICKS.items() if about["ends"] == "check"])
def test_wrong_values_are_told_without_a_gpu(name: str) -> None:
    with Checker(small=1, most_elements=400_000) as checker:
        result = checker.check(TRICKS[name]["task"], Candidate("triton", trick(name)))
    assert result.outcome is CheckOutcome.faulty, result


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("name", sorted({about.get("twin", name) for name, about in TRICKS.items()}))
def test_their_honest_twins_are_recorded_and_right(name: str) -> None:
    with Checker(small=1, most_elements=400_000) as checker:
        result = checker.check(TRICKS[name]["task"], Candidate("triton", trick(f"{name}.twin")))
    assert result.outcome is CheckOutcome.right, result


@pytest.mark.slow
@needs_triton
def test_what_is_judged_is_what_was_recorded() -> None:
    """A module that tells the interpreter from a GPU is right in the interpreter alone."""
    made = built("softmax", trick("interpreter_only"))
    assert isinstance(made, GpuBuild) and made.built[0].program.launches[0].grid == (1, 1, 1)


def test_every_trick_has_its_file_and_its_twin() -> None:
    files = {path.name for path in EXPLOITS.glob("*.py")}
    twins = {about.get("twin", name) for name, about in TRICKS.items()}
    assert files == {f"{name}.py" for name in TRICKS} | {f"{name}.twin.py" for name in twins}
