"""A call is answered by its own state, whatever calls came before: nothing remembered answers for another state."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.export.loading import load_proved
from kernelwright.export.standalone.kernel import LoadedKernel
from tests.export import making
from tests.export.test_load import EPS, Sub, reference

PROVED = ((64, 256), (32, 512))
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


class Overriding(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


@dataclass(frozen=True)
class State:
    sizes: tuple[int, int] = PROVED[0]
    dtype: str = "float32"
    layout: str = "plain"
    wants: str = ""  # which arguments require gradients
    grad_mode: str = "enabled"
    mode: str = ""
    threads: int = 1
    deterministic: bool = False
    eps: float = EPS
    subclass: bool = False
    named: bool = False

    @property
    def is_the_kernels(self) -> bool:
        """As docs/export.md says, from this state alone."""
        as_proved = (self.dtype, self.layout, self.threads, self.eps) == ("float32", "plain", 1, EPS)
        watched = self.mode and not (self.mode == "tangent" and self.grad_mode == "inference")  # which has no tangents
        return as_proved and self.sizes in PROVED and not (watched or self.deterministic or self.subclass)

    @property
    def gradient(self) -> bool:
        return bool(self.wants) and self.grad_mode == "enabled"


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * (2 * len(others)) + list(others))


STATES = st.builds(
    State,
    sizes=mostly(PROVED[0], PROVED[1], (8, 64), (65, 257), (0, 256)),
    dtype=mostly("float32", "float64", "bfloat16"),
    layout=mostly("plain", "strided", "misaligned", "negative"),
    wants=st.sampled_from(["", "x", "weight", "x weight"]),
    grad_mode=mostly("enabled", "no_grad", "inference"),
    mode=mostly("", "autocast", "dispatch", "function", "tangent"),
    threads=mostly(1, 2),
    deterministic=mostly(False, True),
    eps=mostly(EPS, 1e-5, 0.0),
    subclass=mostly(False, True),
    named=st.booleans(),
)


@contextmanager
def entered(state: State) -> Iterator[None]:
    before = torch.get_num_threads()
    with ExitStack() as stack:
        torch.set_num_threads(state.threads)
        stack.callback(torch.set_num_threads, before)
        torch.use_deterministic_algorithms(state.deterministic)
        stack.callback(torch.use_deterministic_algorithms, False)
        if state.grad_mode != "enabled":
            stack.enter_context(torch.no_grad() if state.grad_mode == "no_grad" else torch.inference_mode())
        if state.mode == "autocast":
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        elif state.mode in ("dispatch", "function"):
            stack.enter_context(Watching() if state.mode == "dispatch" else Overriding())
        elif state.mode == "tangent":
            stack.enter_context(forward_ad.dual_level())
        yield


def drawn(state: State) -> tuple[torch.Tensor, torch.Tensor]:
    (rows, cols), dtype = state.sizes, DTYPES[state.dtype]
    x, weight = torch.randn(rows, cols, dtype=dtype), torch.randn(cols, dtype=dtype)
    if state.layout == "strided":
        x = torch.randn(rows, 2 * cols, dtype=dtype)[:, ::2]
    elif state.layout == "misaligned":
        x = torch.randn(rows * cols + 1, dtype=dtype)[1:].view(rows, cols)
    elif state.layout == "negative":
        x = torch._neg_view(x)
    x, weight = (one.requires_grad_(name in state.wants.split()) for one, name in ((x, "x"), (weight, "weight")))
    return (x.as_subclass(Sub) if state.subclass else x), weight


def called(call: Any, state: State, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The result, and the gradients or the tangent that belong to it."""
    with entered(state):
        given_x = forward_ad.make_dual(x, torch.ones_like(x)) if state.mode == "tangent" else x
        named = {"eps": state.eps, "weight": weight} if state.named else {}
        result = call(given_x, **named) if named else call(given_x, weight, state.eps)
        found = [result.detach()]
        if state.mode == "tangent" and state.grad_mode != "inference":
            found.append(forward_ad.unpack_dual(result).tangent)
        assert result.requires_grad == state.gradient
        if state.gradient:
            leaves = [one for one in (x, weight) if one.requires_grad]
            found += torch.autograd.grad(result, leaves, torch.ones_like(result))
    return tuple(found)


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Not seen to be deterministic, and faster at the public sizes alone."""
    path = making.task_file(tmp_path_factory.mktemp("state"))
    found = []
    for task, folder in ((path, "rmsnorm"), (f"{path}:backward", "rmsnorm_backward")):
        source = making.source(folder, "simd.cpp")
        results = making.proved(task, source, hidden=(0.9, 0.9, 0.9)).verdict.workloads
        unseen = tuple(one.model_copy(update={"deterministic": False}) for one in results)
        found.append(making.proved(task, source, hidden=(0.9, 0.9, 0.9), workloads=unseen))
    return found


@pytest.fixture
def kernel(proofs: list[Any], host_side: str) -> LoadedKernel:
    loaded = load_proved(proofs)
    assert (loaded.fast is not None) == (host_side == "fast path")
    return loaded


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(states=st.lists(STATES, min_size=1, max_size=6))
def test_every_call_is_answered_by_its_own_state(kernel: LoadedKernel, states: list[State]) -> None:
    """Each state is called twice, with the usual call between: what either left behind must not matter."""
    usual = State(wants="x weight")
    for state in [usual, *(one for each in states for one in (each, usual, each))]:
        x, weight = drawn(state)
        before = kernel.counts["kernel"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = called(kernel, state, x, weight)
            wanted = called(reference, state, x, weight)
        assert kernel.counts["kernel"] - before == state.is_the_kernels, state
        for one, other in zip(got, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3, equal_nan=True, check_stride=False)
