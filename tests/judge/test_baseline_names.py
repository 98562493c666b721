"""Baselines by name: one place for commands, Python and searches."""

from __future__ import annotations

import pytest

from kernelwright.errors import KernelwrightError
from kernelwright.judge import baseline_names


def test_the_usual_ones_are_compared_with_unless_others_are_named() -> None:
    assert baseline_names.chosen((), "cpu") == baseline_names.usual("cpu") == ("eager", "compile")
    assert baseline_names.chosen((), "cuda") == baseline_names.usual("cuda") == ("eager", "compile")
    assert baseline_names.chosen(["compile-best", "eager", "eager"], "cuda") == ("eager", "compile-best")


def test_an_unknown_one_is_answered_with_those_there_are() -> None:
    with pytest.raises(KernelwrightError, match=r"unknown baseline 'cutlass': choose from eager, compile, .*own:NAME"):
        baseline_names.chosen(["cutlass"], "cpu")


@pytest.mark.parametrize("name", ["compile-best", "eager-tf32", "liger", "cublaslt", "sdpa-cudnn"])
def test_what_needs_a_gpu_says_so_in_one_line_on_a_cpu(name: str) -> None:
    with pytest.raises(KernelwrightError, match=rf"^the baseline {name} needs an NVIDIA GPU [^\n]*$"):
        baseline_names.chosen([name], "cpu")


def test_a_library_that_is_not_installed_is_named() -> None:
    with pytest.raises(KernelwrightError, match="needs the package liger_kernel: install it, or leave it out"):
        baseline_names.chosen(["liger"], "cuda")


def test_a_task_names_further_ones_itself() -> None:
    assert baseline_names.chosen(["own:flash", "eager"], "cpu") == ("eager", "own:flash")
    with pytest.raises(KernelwrightError, match="unknown baseline"):
        baseline_names.chosen(["own:no such name"], "cpu")


def test_a_verdict_is_given_without_a_library_that_cannot_do_the_task_and_never_without_eager() -> None:
    assert baseline_names.may_be_left_out("sdpa-flash")
    assert baseline_names.may_be_left_out("own:flash")
    assert not any(map(baseline_names.may_be_left_out, ("eager", "compile", "compile-best", "compile-training")))


def test_nothing_is_claimed_over_eager_with_tf32() -> None:
    assert not baseline_names.claimable("eager-tf32")
    assert all(map(baseline_names.claimable, ("eager", "compile", "liger", "own:flash", "an older one")))


def test_all_of_them_are_in_the_words_for_help() -> None:
    assert all(
        name in baseline_names.names_for_help() for kind in ("cpu", "cuda") for name in baseline_names.known(kind)
    )
