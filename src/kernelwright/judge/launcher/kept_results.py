"""What torch's steps gave in one call, in memory that a launcher under a tool can receive: it has no torch, and copies
the results to where the steps would have put them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelwright.contracts.program import LibraryStep, Program
from kernelwright.devices.driver import check, driver
from kernelwright.runtime.library_steps import after, kept_bytes
from kernelwright.runtime.memory import Memory


class KeptResults:
    """One allocation, in which the results lie in the order of the steps: see `runtime.library_steps`."""

    def __init__(self, program: Program, index: int, stream: Any) -> None:
        self._stream, self._at = stream, 0
        self.memory = Memory.create(kept_bytes(program), index, exportable=True)
        self.memory.map_anywhere(index)

    def keep(self, step: LibraryStep, addresses: Sequence[int]) -> None:
        """Enqueues a copy of what the step has changed in blocks at these addresses."""
        for view in step.changed:
            source = addresses[view.block] + view.offset
            answer = driver().cuMemcpyDtoDAsync(self.memory.base + self._at, source, view.extent, self._stream)
            check(answer, "cuMemcpyDtoDAsync")
            self._at = after(self._at, view.extent)
