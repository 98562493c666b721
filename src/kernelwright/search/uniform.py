"""Random sampling: always drawn by chance, never from a parent. What other policies are compared with."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.proposers.model import Operator
from kernelwright.search.actions import Ask
from kernelwright.search.policy import request
from kernelwright.search.state import State


@dataclass(frozen=True)
class Uniform:
    name: str = "random"

    def ask(self, state: State) -> Ask:
        return request(state, Operator.sample)
