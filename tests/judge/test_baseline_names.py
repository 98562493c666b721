"""Baselines by name: one place for commands, Python and searches."""

from __future__ import annotations

import pytest

from kernelwright.errors import KernelwrightError
from kernelwright.judge import baseline_names


def test_the_usual_ones_are_compared_with_unless_others_are_named() -> None:
    assert baseline_names.chosen((), "cpu") == baseline_names.usual("cpu") == ("eager", "compile")
    assert baseline_names.chosen((), "cuda") == baseline_names.usual("cuda") == ("eager", "compile")
    assert baseline_names.chosen(["compile-best", "eager", "eager"], "cuda") == ("eager", "compile-best")


def test_a_gpus_are_unknown_on_a_cpu_and_the_line_says_which_there_are() -> None:
    with pytest.raises(KernelwrightError, match=r"unknown baseline 'compile-best': choose from eager, compile$"):
        baseline_names.chosen(["compile-best"], "cpu")


def test_all_of_them_are_in_the_words_for_help() -> None:
    assert all(
        name in baseline_names.names_for_help() for kind in ("cpu", "cuda") for name in baseline_names.known(kind)
    )
