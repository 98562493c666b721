"""Torch's steps on memory of the host: where a result lies afterwards, and in what memory a later call finds it."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelwright.contracts.program import LibraryStep
from kernelwright.judge.launcher import torch_steps
from kernelwright.judge.launcher.torch_steps import TorchSteps
from tests.gpu.library import COUNT, FIRST, OUT, SECOND, X, program, torchs, view

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="torch works on the GPU here")


class Blocks:
    """Memory for the blocks of a program; the input counts from 0."""

    def __init__(self) -> None:
        self._memory = [(ctypes.c_float * COUNT)(*([0.0] * COUNT)) for _ in range(4)]
        self._memory[X][:] = [float(i) for i in range(COUNT)]
        self.addresses = [ctypes.addressof(one) for one in self._memory]

    def moved(self, found: Any) -> list[int]:
        return [found.get(block, address) for block, address in enumerate(self.addresses)]

    def at(self, address: int) -> list[float]:
        return list((ctypes.c_float * 3).from_address(address))


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_steps, "driver", lambda: SimpleNamespace(cuStreamSynchronize=lambda _: (0,)))


def test_a_result_that_fills_a_block_of_scratch_stays_where_torch_made_it() -> None:
    blocks, steps = Blocks(), TorchSteps(program(torchs("neg", X, FIRST), torchs("exp", FIRST, SECOND)), 0)
    steps.begin()
    first = steps.carry_out(0, blocks.addresses)
    assert set(first) == {FIRST} and blocks.at(blocks.addresses[FIRST]) == [0.0, 0.0, 0.0]
    second = steps.carry_out(1, blocks.moved(first))
    assert blocks.at(second[SECOND]) == pytest.approx([1.0, 0.3678794, 0.1353353])


def test_a_result_that_others_see_is_written_where_it_belongs() -> None:
    blocks, steps = Blocks(), TorchSteps(program(torchs("neg", X, OUT)), 0)
    steps.begin()
    assert steps.carry_out(0, blocks.addresses) == {}
    assert blocks.at(blocks.addresses[OUT]) == [-0.0, -1.0, -2.0]


def test_a_part_of_a_block_is_written_where_it_belongs() -> None:
    blocks = Blocks()
    step = torchs("neg", X, FIRST)
    part = LibraryStep(step.operator, step.call, (view(X, 2),), (), (view(FIRST, 2),))
    steps = TorchSteps(program(part), 0)
    steps.begin()
    assert steps.carry_out(0, blocks.addresses) == {}
    assert blocks.at(blocks.addresses[FIRST]) == [-0.0, -1.0, 0.0]


def test_a_tensor_that_is_changed_in_place_stays_where_it_is() -> None:
    blocks = Blocks()
    step = torchs("neg_", OUT, OUT)
    steps = TorchSteps(
        program(torchs("neg", X, OUT), LibraryStep("neg_", step.call, step.tensors, (0,), step.results)), 0
    )
    steps.begin()
    assert steps.carry_out(0, blocks.addresses) == steps.carry_out(1, blocks.addresses) == {}
    assert blocks.at(blocks.addresses[OUT]) == [0.0, 1.0, 2.0]


def test_nothing_of_a_call_is_given_to_another_step_of_it() -> None:
    """A launch between them may still read it."""
    count = 6
    blocks = Blocks()
    steps = TorchSteps(program(*[torchs("neg", X, FIRST)] * count), 0)
    steps.begin()
    places = {steps.carry_out(number, blocks.addresses)[FIRST] for number in range(count)}
    assert len(places) == count


def test_what_torch_makes_without_a_tensor_is_made_on_the_device_of_the_others() -> None:
    call = '{"kind": "call", "op": "aten.arange.default", "args": [3], "kwargs": {"dtype": {"dtype": "float32"}}}'
    blocks = Blocks()
    steps = TorchSteps(program(LibraryStep("arange", call, (), (), (view(OUT, 3),))), 0)
    steps.begin()
    assert steps.carry_out(0, blocks.addresses) == {}
    assert blocks.at(blocks.addresses[OUT]) == [0.0, 1.0, 2.0]
