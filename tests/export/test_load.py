"""A loaded kernel: called like the reference, used where it is proved, and counted."""

from __future__ import annotations

import inspect
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

import kernelwright
from kernelwright.contracts import Candidate
from kernelwright.errors import KernelwrightError
from kernelwright.export.describe import operation_of
from kernelwright.export.loading import load_proved
from kernelwright.export.standalone import guards
from kernelwright.export.standalone.host import readable_behind
from kernelwright.export.standalone.kernel import FallbackWarning, LoadedKernel
from kernelwright.tasks.capture import task_text
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.reference import run_reference
from kernelwright.tasks.resolve import declared
from tests.export import making

pytestmark = pytest.mark.usefixtures("host_side")

EPS = 1e-6


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def drawn(rows: int = 64, cols: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, cols), torch.randn(cols)


def test_it_is_called_like_the_reference(kernel: LoadedKernel) -> None:
    x, weight = drawn()
    wanted = reference(x, weight)
    assert str(inspect.signature(kernel)) == "(x, weight, eps=1e-06)"
    for got in (
        kernel(x, weight, EPS),
        kernel(x, weight),
        kernel(weight=weight, x=x),
        kernel(x, eps=EPS, weight=weight),
    ):
        torch.testing.assert_close(got, wanted)
    assert kernel.counts == {"kernel": 4}
    for wrong in ({"x": x}, {"x": x, "weight": weight, "y": 1}):
        with pytest.raises(TypeError, match="rmsnorm"):
            kernel(**wrong)
    with pytest.raises(TypeError, match="takes 3 arguments"):
        kernel(x, weight, EPS, 1)


def test_a_parameter_as_weight_stays_on_the_kernel_both_ways(kernel: LoadedKernel) -> None:
    x, weight = drawn()
    leaves = (x.requires_grad_(), torch.nn.Parameter(weight))
    got = torch.autograd.grad(kernel(*leaves).square().sum(), leaves)
    wanted = torch.autograd.grad(reference(*leaves).square().sum(), leaves)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    assert kernel.counts == {"kernel": 1}, "the backward was the kernel's, too: else it would be counted"


def test_second_derivatives_are_the_references(kernel: LoadedKernel) -> None:
    x, weight = (one.double().float().requires_grad_() for one in drawn(8, 64))
    kernel.allow("sizes")

    def twice(call: Any) -> tuple[torch.Tensor, ...]:
        (first,) = torch.autograd.grad(call(x, weight).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), (x, weight))

    torch.testing.assert_close(twice(kernel), twice(reference), rtol=1e-3, atol=1e-3)
    assert kernel.counts == {"kernel": 1}


def _strided() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(64, 512)[:, ::2], torch.randn(256)


def _misaligned() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(64 * 256 + 1)[1:].view(64, 256), torch.randn(256)


class Sub(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (_strided(), guards.STRIDES),
        (_misaligned(), guards.ALIGNMENT),
        (drawn(8, 64), guards.SIZES),
        (drawn(4, 256), guards.SIZES),
        ((torch.randn(0, 256), torch.randn(256)), guards.SIZES),
        (tuple(one.double() for one in drawn()), guards.DTYPE),
        ((torch.randn(2, 32, 256), torch.randn(256)), guards.SHAPES),
        ((torch.randn(64, 256), torch.randn(1)), guards.SHAPES),
        ((*drawn(), 1e-5), guards.NUMBER),
        ((drawn()[0].as_subclass(Sub), drawn()[1]), guards.SUBCLASS),
    ],
)
def test_the_reference_answers_what_is_not_proved(
    kernel: LoadedKernel, arguments: tuple[Any, ...], reason: str
) -> None:
    with pytest.warns(FallbackWarning, match="so the reference is used"):
        got = kernel(*arguments)
    torch.testing.assert_close(got, reference(*arguments))
    assert kernel.counts == {"kernel": 0, reason: 1} and kernel.why_not(*arguments) == reason
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(*arguments)
    assert kernel.counts[reason] == 2


def test_modes_of_torch_fall_back(kernel: LoadedKernel) -> None:
    x, weight = drawn()
    with pytest.warns(FallbackWarning, match="autocast"), torch.autocast("cpu", dtype=torch.bfloat16):
        kernel(x, weight)
    with pytest.warns(FallbackWarning, match="vmap"):
        batched = torch.vmap(kernel, in_dims=(0, None))(torch.randn(3, 64, 256), weight)
    assert batched.shape == (3, 64, 256)
    over_operator = torch.vmap(lambda one: kernel.operator(one, weight, EPS))(torch.stack([x, x]))
    torch.testing.assert_close(over_operator[1], reference(x, weight))


def test_threads_must_be_as_proved_unless_allowed(kernel: LoadedKernel) -> None:
    x, weight = drawn()
    torch.set_num_threads(2)
    with pytest.warns(FallbackWarning, match="proved with 1 thread, and torch uses 2"):
        kernel(x, weight)
    kernel.allow("threads")
    kernel(x, weight)
    assert kernel.counts["kernel"] == 1
    with pytest.raises(ValueError, match="cannot be allowed"):
        kernel.allow("anything")


def test_another_processor_falls_back_unless_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load_proved(making.rmsnorm(tmp_path))
    monkeypatch.setattr(guards.machine, "cpu_model", lambda: "another")
    assert "this is another" in (kernel.why_not(*drawn()) or "")
    kernel.allow("device")
    assert kernel.why_not(*drawn()) is None
    monkeypatch.setattr(guards.machine, "cpu_features", lambda: frozenset({"sse2"}))
    kernel.allow("device")
    assert "this processor lacks" in (kernel.why_not(*drawn()) or ""), "no allowance makes up for that"


def test_determinism_is_demanded_only_of_kernels_that_were_seen_to_be(tmp_path: Path) -> None:
    proofs = making.rmsnorm(tmp_path, backward=False)
    seen = load_proved(proofs)
    unseen = tuple(one.model_copy(update={"deterministic": False}) for one in proofs[0].verdict.workloads)
    other = load_proved(making.rmsnorm(tmp_path, backward=False, workloads=unseen))
    torch.use_deterministic_algorithms(True)
    try:
        assert seen.why_not(*drawn()) is None
        assert other.why_not(*drawn()) == guards.DETERMINISTIC
    finally:
        torch.use_deterministic_algorithms(False)


def test_without_a_backward_gradients_are_the_references_both_ways(tmp_path: Path) -> None:
    kernel = load_proved(making.rmsnorm(tmp_path, backward=False))
    x, weight = drawn()
    kernel(x, weight)
    with pytest.warns(FallbackWarning, match="no kernel was proved for the backward"):
        kernel(x.requires_grad_(), weight).sum().backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(reference(x, weight).sum(), x)[0])
    assert kernel.counts == {"kernel": 1, guards.GRADIENT: 1}


def test_many_threads_get_their_own_results(kernel: LoadedKernel) -> None:
    kernel.warm_up(*drawn())
    wrong: list[int] = []

    def work(seed: int) -> None:
        x, weight = (one * (seed + 1) for one in drawn())
        wanted = reference(x, weight)
        wrong.extend(seed for _ in range(100) if not torch.allclose(kernel(x, weight), wanted, rtol=1e-4, atol=1e-4))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong and kernel.counts == {"kernel": 401}


def test_nothing_is_loaded_after_warming_up(kernel: LoadedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.warm_up()
    monkeypatch.setattr("ctypes.CDLL", lambda *_: pytest.fail("a library was loaded"))
    x, weight = drawn()
    leaf = x.requires_grad_()
    kernel(leaf, weight).sum().backward()
    assert kernel.counts == {"kernel": 1}


def test_several_kernels_of_one_task_are_used_by_shape(tmp_path: Path) -> None:
    first = making.rmsnorm(tmp_path, backward=False, public=[1.5, 0.9])
    second = making.proved(making.task_file(tmp_path), making.source("rmsnorm", "fast_math.cpp"), public=[0.9, 1.5])
    kernel = load_proved([*first, second])
    for rows, cols in ((64, 256), (32, 512)):
        assert kernel.why_not(*drawn(rows, cols)) is None
        torch.testing.assert_close(kernel(*(given := drawn(rows, cols))), reference(*given))
    assert kernel.why_not(*drawn(65, 256)) == guards.SIZES
    assert len(kernel.manifest.forward) == 2


def test_one_that_is_slower_is_never_used(tmp_path: Path) -> None:
    kernel = load_proved(making.rmsnorm(tmp_path, public=[0.9, 0.8]))
    assert kernel.why_not(*drawn()) == guards.SIZES


def test_an_operation_in_place_with_many_arguments(tmp_path: Path) -> None:
    one = making.proved(
        "adamw", making.source("adamw", next(iter(sorted((making.KERNELS / "adamw").glob("*.cpp")))).name)
    )
    kernel = load_proved([one])
    kernel.allow("sizes")
    given = draw_inputs(
        one.task, one.task.public_workloads()[0], one.task.families[0], torch.Generator().manual_seed(1)
    )
    wanted = run_reference(one.task, given)
    assert kernel.why_not(*given.values()) is None
    assert kernel(*given.values()) is None
    for name, value in wanted.items():
        torch.testing.assert_close(given[name], value)
    shared = [*given.values()]
    places = [place for place, parameter in enumerate(kernel.operation.parameters) if parameter.inout]
    shared[places[1]] = shared[places[0]]
    assert kernel.why_not(*shared) == guards.IN_PLACE


CAPTURED = """
#include <kernelwright.h>
#include <cmath>
void kernel(kw::Tensor<const float, 2> given_0, kw::Tensor<const float, 1> given_1, kw::Tensor<float, 2> out) {
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    float sum = 0;
    for (std::int64_t j = 0; j < out.size(1); ++j) sum += given_0(i, j) * given_0(i, j);
    const float scale = 1 / std::sqrt(sum / out.size(1) + 1e-6f);
    for (std::int64_t j = 0; j < out.size(1); ++j) out(i, j) = given_0(i, j) * scale * given_1(j);
  }
}
"""


def test_a_captured_function_is_called_by_its_own_names_and_with_its_numbers(tmp_path: Path) -> None:
    text = task_text(reference, (torch.randn(64, 256), torch.randn(256), EPS))
    path = making.task_file(tmp_path, text, "captured")
    proof = making.proved(path, Candidate("cpp", CAPTURED, "captured.cpp"))
    x, weight = drawn()
    alone, beside = load_proved([proof]), load_proved([proof], reference=reference)
    for kernel in (alone, beside):
        assert str(inspect.signature(kernel)) == "(x, weight, eps=1e-06)"
        torch.testing.assert_close(kernel(x, weight=weight, eps=EPS), reference(x, weight))
        torch.testing.assert_close(kernel(x, weight), reference(x, weight))
        assert kernel.counts == {"kernel": 2}
    with pytest.raises(ValueError, match=r"captured with eps=1e-06"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone(x, weight, 1e-3)
    with pytest.warns(FallbackWarning, match="a number is not the one"):
        torch.testing.assert_close(beside(x, weight, 1e-3), reference(x, weight, 1e-3))


def test_a_captured_module_takes_its_parameters_after_its_own_arguments(tmp_path: Path) -> None:
    module = torch.nn.Linear(16, 8)
    path = making.task_file(tmp_path, task_text(module, (torch.randn(32, 16),)), "linear")
    operation, _ = operation_of(declared(path), "linear")
    assert [one.name for one in operation.call] == ["input", "p_inner_weight", "p_inner_bias"]
    assert [one.name for one in operation.parameters][-1] == operation.call[0].reference


def test_what_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(KernelwrightError, match="no such run"):
        kernelwright.load(tmp_path / "nothing")
    with pytest.raises(KernelwrightError, match="name a run"):
        kernelwright.load()


def test_what_autograd_saved_and_a_kernel_changed_is_noticed(tmp_path: Path) -> None:
    one = making.proved("adamw", making.source("adamw", "fused.cpp"))
    kernel = load_proved([one], allow=("sizes",))
    generator = torch.Generator().manual_seed(1)
    given = draw_inputs(one.task, one.task.public_workloads()[0], one.task.families[0], generator)
    place = next(place for place, parameter in enumerate(kernel.operation.parameters) if parameter.inout)
    changed = [*given.values()][place]
    for call in (kernel, kernel, kernel.operator):
        before = changed._version
        call(*given.values())
        assert changed._version == before + 1


def test_forward_mode_differentiation_is_the_references(kernel: LoadedKernel) -> None:
    x, weight = drawn()
    tangent = torch.randn_like(x)

    def derivative(call: Any) -> Any:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(call(forward_ad.make_dual(x, tangent), weight, EPS)).tangent

    kernel(x, weight)
    with pytest.warns(FallbackWarning, match="tangent"):
        got = derivative(kernel)
    torch.testing.assert_close(got, derivative(reference))


def test_a_small_tensor_at_the_end_of_a_page_is_copied_first(tmp_path: Path) -> None:
    kernel = load_proved(making.rmsnorm(tmp_path), allow=("sizes",))
    x = torch.randn(8, 65)
    pages = torch.empty(3 * 4096 // 4)
    first = -pages.data_ptr() % 4096 // 4  # of the first whole page
    last = 4096 - -(-65 * 4 // 64) * 64  # so late in it that the kernel's slack is in the next one
    weight = pages[first + last // 4 :][:65]
    weight.copy_(torch.randn(65))
    assert not readable_behind(weight) and weight.data_ptr() % 64 == 0
    for _ in range(2):
        torch.testing.assert_close(kernel(x, weight), reference(x, weight))
    assert kernel.counts == {"kernel": 2}


def test_a_trace_of_torch_jit_sees_inside_of_the_reference(kernel: LoadedKernel) -> None:
    x, weight = drawn()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel(x, weight)
        traced = torch.jit.trace(lambda *given: kernel(*given), (x, weight), check_trace=False)
    other = drawn()
    torch.testing.assert_close(traced(*other), reference(*other))
    assert kernel.counts == {"kernel": 1, guards.TRACED: 1}


TWO_OUTPUTS = '''"""Two results of one operation."""

import torch

from kernelwright.tasks import Task, tensor


def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x * x, x.sum(-1)


task = Task(
    reference=both,
    inputs={"x": tensor("rows", "cols")},
    outputs=("squares", "sums"),
    public=[{"rows": 64, "cols": 256}],
    hidden={"rows": (8, 256), "cols": (64, 1024)},
)
'''
BOTH = """
#include <kernelwright.h>
void kernel(kw::Tensor<const float, 2> x, kw::Tensor<float, 2> squares, kw::Tensor<float, 1> sums) {
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    sums(i) = 0;
    for (std::int64_t j = 0; j < x.size(1); ++j) squares(i, j) = x(i, j) * x(i, j), sums(i) += x(i, j);
  }
}
"""
BOTH_BACKWARD = """
#include <kernelwright.h>
void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 2> grad_squares, kw::Tensor<const float, 1> grad_sums,
            kw::Tensor<float, 2> grad_x) {
  for (std::int64_t i = 0; i < x.size(0); ++i)
    for (std::int64_t j = 0; j < x.size(1); ++j) grad_x(i, j) = 2 * x(i, j) * grad_squares(i, j) + grad_sums(i);
}
"""


def test_several_outputs_and_a_gradient_of_one_of_them(tmp_path: Path) -> None:
    path = making.task_file(tmp_path, TWO_OUTPUTS, "both")
    forward = making.proved(path, Candidate("cpp", BOTH, "both.cpp"))
    backward = making.proved(f"{path}:backward", Candidate("cpp", BOTH_BACKWARD, "backward.cpp"))
    kernel = load_proved([forward, backward])
    x = torch.randn(64, 256, requires_grad=True)
    for _ in range(2):  # the first by Python, the second by the fast path, where there is one
        squares, sums = kernel(x)
        torch.testing.assert_close((squares, sums), (x * x, x.sum(-1)), rtol=1e-4, atol=1e-4)
        (got,) = torch.autograd.grad(sums.sum(), x, retain_graph=True)
        torch.testing.assert_close(got, torch.ones_like(x))
        (got,) = torch.autograd.grad(squares.sum() + 3 * sums.sum(), x)
        torch.testing.assert_close(got, 2 * x + 3)
        (first,) = torch.autograd.grad(kernel(x)[0].sum(), x, create_graph=True)
        torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], torch.full_like(x, 2))
    assert kernel.counts == {"kernel": 4}
