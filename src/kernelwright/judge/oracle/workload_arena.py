"""What a workload under judgement is on every device: values in an arena, and the questions asked of the outputs."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from kernelwright.contracts.layout import extent_bytes
from kernelwright.judge.oracle.pool import PoolEntry, ValuePool
from kernelwright.judge.oracle.right.compare import Mismatch, check
from kernelwright.tasks.model import Signature, Task, Workload


@dataclass(frozen=True)
class OutsideWrite:
    """A write outside an output: the tensor, and which side of it."""

    tensor: str
    side: str


class WorkloadArena(ABC):
    """Filled for every trial by its subclass, which knows the memory. Looked at here."""

    _views: dict[str, torch.Tensor]

    def __init__(self, task: Task, workload: Workload, signature: Signature, pool: ValuePool) -> None:
        self.task, self.workload, self.signature, self.pool = task, workload, signature, pool
        self._item: PoolEntry | None = None
        self._word = 0
        self._remembered: dict[str, torch.Tensor] = {}

    @property
    @abstractmethod
    def descriptors(self) -> list[int]:
        """Of the arena's tensors, to be sent; they stay ours."""

    @property
    @abstractmethod
    def level(self) -> str:
        """How well the arena keeps a candidate to its tensors."""

    @abstractmethod
    def blank(self) -> None:
        """Leaves nothing of a trial in the arena."""

    @abstractmethod
    def load(self, item: PoolEntry, word: int) -> None:
        """Puts a trial's values into the arena, and poisons the outputs with a word."""

    @abstractmethod
    def restore(self) -> None:
        """Resets what a call may have changed, so that another call sees the same."""

    @abstractmethod
    def outside_write(self) -> OutsideWrite | None:
        """A write outside of an output, if there was one."""

    @abstractmethod
    def close(self) -> None:
        """Gives the memory back."""

    def check(self) -> OutsideWrite | tuple[str, Mismatch] | None:
        """What is wrong with the outputs as they stand, if anything."""
        item = self.item
        if (outside := self.outside_write()) is not None:
            return outside
        if item.sliced is not None:
            if (name := item.changed_input(self.pool.secret)) is not None:
                return OutsideWrite(name, "into an input")
            return item.sliced.check(item.inputs, self.results(), self._word)
        for name in self.task.result_names:
            mismatch = check(item.expectations[name], self._views[name], self._word)
            if mismatch is not None:
                return name, mismatch
        return None

    def settle(self) -> None:
        """A large trial was loaded: its inputs are in the arena, and need not be anywhere else."""
        if self.pool.slicing is not None:
            self.item.leave_in(self._views, self.task.inout, self.pool.secret)

    def remember(self) -> None:
        self._remembered = {name: self._views[name].clone() for name in self.task.result_names}

    def matches_remembered(self) -> bool:
        """Bit for bit, because a deterministic kernel gives the same bits."""
        return all(torch.equal(_bits(self._views[name]), _bits(kept)) for name, kept in self._remembered.items())

    def results(self) -> dict[str, torch.Tensor]:
        return {name: self._views[name] for name in self.task.result_names}

    @property
    def bytes(self) -> int:
        return sum(extent_bytes(tensor) for tensor in self.signature.tensors)

    @property
    def loaded(self) -> bool:
        return self._item is not None

    @property
    def item(self) -> PoolEntry:
        assert self._item is not None
        return self._item


def sentinel_word(source: random.Random, *, halves_alike: bool = False) -> int:
    """A bit pattern that is a NaN in every floating-point format, whichever half or word of it is looked at.

    Never the NaN of all ones that a GPU computes: a kernel that wrote one would seem to have written nothing.
    """
    halves = (source.choice((0x7FF0, 0xFFF0)) | source.randrange(1, 15) for _ in range(2))
    high, low = halves
    if halves_alike:  # a slice of 16-bit values may begin at either
        low = high
    return high << 16 | low


def signed(word: int) -> int:
    """The same bits as torch's 32-bit integers take them."""
    return word - (1 << 32) if word >= 1 << 31 else word


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8) if tensor.ndim else tensor.reshape(1).view(torch.uint8)
