"""The host side in C++: what it answers itself, what it leaves to Python, and its node in autograd's graph."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from kernelwright.export.loading import load_proved
from kernelwright.export.standalone import fastbuild
from kernelwright.export.standalone.fastpath import FastPath
from kernelwright.export.standalone.kernel import LoadedKernel
from tests.export import making
from tests.export.test_load import EPS, drawn, reference

slow = pytest.mark.slow


@pytest.fixture
def known(tmp_path: Path, fast_path: Path) -> LoadedKernel:
    """A kernel that has seen a call of (64, 256), both ways."""
    kernel = load_proved(making.rmsnorm(tmp_path))
    x, weight = (one.requires_grad_() for one in drawn())
    kernel(x, weight).sum().backward()
    assert kernel.fast is not None and kernel.fast.plans == (1, 1)
    return kernel


def leaves(rows: int = 64, cols: int = 256) -> tuple[torch.Tensor, torch.nn.Parameter]:
    x, weight = drawn(rows, cols)
    return x.requires_grad_(), torch.nn.Parameter(weight)


def without_python(kernel: LoadedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("Python was asked")

    monkeypatch.setattr(LoadedKernel, "_answered", refuse)
    for direction in (kernel._forward, kernel._backward):
        monkeypatch.setattr(direction, "choose", refuse)


@slow
def test_a_known_call_does_not_reach_python(known: LoadedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    without_python(known, monkeypatch)
    given = leaves()
    for call in (known, known.operator):
        torch.testing.assert_close(call(*given, EPS), reference(*given))
        got = torch.autograd.grad(call(*given, EPS).square().sum(), given)
        wanted = torch.autograd.grad(reference(*given).square().sum(), given)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(known(*given), reference(*given))  # the default is the proved number
    torch.testing.assert_close(known(weight=given[1], x=given[0]), reference(*given))
    assert known.counts == {"kernel": 7}
    with pytest.raises(AssertionError, match="Python was asked"):
        known(*leaves(32, 512))


@slow
def test_an_allowance_forgets_every_plan(known: LoadedKernel) -> None:
    known.allow("sizes")
    assert known.fast is not None and known.fast.plans == (0, 0)
    known(*drawn(9, 65))
    assert known.fast.plans == (1, 0)


@slow
def test_plans_are_bounded(known: LoadedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.export.standalone.fastpath.MOST_PLANS", 4)
    known.allow("sizes")
    for rows in range(8, 20):
        given = drawn(rows, 64)
        for _ in range(2):
            torch.testing.assert_close(known(*given), reference(*given))
    assert known.fast is not None and known.fast.plans[0] <= 4


@slow
def test_the_graph_behaves_like_one_of_torchs_own(known: LoadedKernel) -> None:
    x, weight = leaves()
    result = known(x, weight)
    assert result.grad_fn is not None and result.grad_fn.name() == "rmsnorm_kernel_backward"
    assert len(result.grad_fn.next_functions) == 2
    result.sum().backward(retain_graph=True)
    once = x.grad.clone()  # type: ignore[union-attr]
    result.sum().backward()
    torch.testing.assert_close(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        result.sum().backward()
    changed = known(x, weight)
    with torch.no_grad():
        weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        changed.sum().backward()


@slow
def test_hooks_checkpoints_and_strided_gradients(known: LoadedKernel) -> None:
    x, weight = leaves()
    wanted = torch.autograd.grad(reference(x, weight).square().sum(), (x, weight))
    packed: list[torch.Size] = []

    def pack(one: torch.Tensor) -> torch.Tensor:
        packed.append(one.shape)
        return one

    with saved_tensors_hooks(pack, lambda one: one):
        result = known(x, weight)
    assert packed == [x.shape, weight.shape]
    torch.testing.assert_close(torch.autograd.grad(result.square().sum(), (x, weight)), wanted, rtol=1e-4, atol=1e-4)
    again: Any = checkpoint(known, x, weight, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(again.square().sum(), (x, weight)), wanted, rtol=1e-4, atol=1e-4)
    transposed = torch.randn(256, 64).t()
    got, other = (torch.autograd.grad(call(x, weight), x, transposed)[0] for call in (known, reference))
    torch.testing.assert_close(got, other, rtol=1e-4, atol=1e-4)
    expanded = torch.autograd.grad(known(x, weight).sum(), x)[0]
    torch.testing.assert_close(expanded, torch.autograd.grad(reference(x, weight).sum(), x)[0], rtol=1e-4, atol=1e-4)


@slow
def test_the_operator_keeps_other_numbers_than_the_proved_ones(known: LoadedKernel) -> None:
    x, weight = leaves()
    got = torch.autograd.grad(known.operator(x, weight, 0.5).square().sum(), (x, weight))
    wanted = torch.autograd.grad(reference(x, weight, 0.5).square().sum(), (x, weight))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@slow
def test_threads_call_known_and_new_shapes_at_once(known: LoadedKernel) -> None:
    known.allow("sizes")
    wrong: list[BaseException | int] = []

    def work(seed: int) -> None:
        try:
            for turn in range(60):
                given = leaves(8 + (turn * (seed + 1)) % 40, 64 + 8 * seed)
                got = torch.autograd.grad(known(*given).sum(), given)
                wanted = torch.autograd.grad(reference(*given).sum(), given)
                torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)
        except BaseException as error:
            wrong.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert not wrong, wrong[0]
    assert list(known.counts) == ["kernel"]


@slow
def test_an_error_of_python_in_a_backward_is_the_users(known: LoadedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("from below")

    monkeypatch.setattr(known._backward, "choose", fail)
    known.allow("sizes")  # and so the backward's plan is forgotten
    with pytest.raises(ZeroDivisionError, match="from below"):
        known(*leaves()).sum().backward()


@slow
def test_two_kernels_do_not_meet(known: LoadedKernel, tmp_path: Path) -> None:
    other = load_proved(making.rmsnorm(tmp_path, backward=False))
    x, weight = drawn()
    other(x, weight), other(x, weight)
    assert known.counts == {"kernel": 1} and other.counts == {"kernel": 2}
    assert isinstance(other.fast, FastPath) and other.fast.plans == (1, 0)


def test_it_is_not_built_unless_asked(kernel: LoadedKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(fastbuild.SWITCH)
    home = tmp_path / "home"
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(home))
    assert fastbuild.find() is None and fastbuild.open_module() is None and not home.exists()
    assert kernel.fast is None


def test_without_a_compiler_or_headers_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert fastbuild.main() == 2
    monkeypatch.setattr(fastbuild.sysconfig, "get_path", lambda _: str(tmp_path))
    assert fastbuild.main() == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and "install g++, or set CXX" in said[0] and "python3-dev" in said[1]


def test_a_build_that_others_could_have_written_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    monkeypatch.delenv(fastbuild.SWITCH)
    folder = fastbuild.cache_folder()
    folder.mkdir(parents=True, mode=0o700)
    (folder / fastbuild.file_name()).write_bytes(b"\x7fELF")
    assert fastbuild.find() is not None
    folder.chmod(0o777)
    assert fastbuild.find() is None
    folder.chmod(0o700)
    (folder / fastbuild.file_name()).chmod(0o666)
    assert fastbuild.find() is None


def test_a_build_for_another_torch_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    here = fastbuild.key()
    monkeypatch.setattr(torch, "__version__", "1.0.0")
    assert fastbuild.key.__wrapped__() != here
