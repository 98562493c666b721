"""Ordinary allocations in place of the arena's blocks: their ends are known to a sanitizer to the byte.

`apart`, the arena is mapped only while values are copied from it and results into it. While a kernel runs, the process
then looks to a tool like any program: no reservation, no imported memory within reach. `beside` leaves it mapped at
its usual addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kernelwright.contracts.program import Block, Program
from kernelwright.devices.driver import check, driver
from kernelwright.runtime.memory import Memory

APART, BESIDE = "apart", "beside"
UNTIMED = "untimed"  # an argument of the launcher's: nothing is timed in this process


class ExactCopies:
    """`apart` has the allocations that are mapped for a copy, by the names of their blocks; a block that is not among
    them is mapped already, or has nothing to copy."""

    def __init__(self, program: Program, index: int, stream: Any, apart: Mapping[str, Memory]) -> None:
        self._index, self._stream, self._apart = index, stream, apart
        self._copies: list[tuple[Block, int]] = []
        for block in program.blocks:
            answer = driver().cuMemAlloc(max(block.extent, 1))
            self._copies.append((block, int(check(answer, f"cannot allocate {block.extent:,} bytes"))))

    @property
    def addresses(self) -> list[int]:
        return [copy for _, copy in self._copies]

    def put_in(self) -> None:
        """Values and zeros. Scratch and outputs stay as they are: nothing has written them."""
        cu = driver()
        for block, copy in self._copies:
            if block.fill in ("zero", "workspace") and block.extent:
                check(cu.cuMemsetD8Async(copy, 0, block.extent, self._stream), "cuMemsetD8Async")
            elif block.fill == "received" and block.extent:
                with self._reached(block) as address:
                    check(cu.cuMemcpyDtoDAsync(copy, address, block.extent, self._stream), "cuMemcpyDtoDAsync")
        check(cu.cuStreamSynchronize(self._stream), "a copy")

    def take_out(self) -> None:
        """Results, back to the arena."""
        cu = driver()
        for block, copy in self._copies:
            if block.shared and block.writable and block.extent:
                with self._reached(block) as address:
                    check(cu.cuMemcpyDtoDAsync(address, copy, block.extent, self._stream), "cuMemcpyDtoDAsync")
        check(cu.cuStreamSynchronize(self._stream), "a copy")

    @contextmanager
    def _reached(self, block: Block) -> Iterator[int]:
        memory = self._apart.get(block.name)
        if memory is None:
            yield block.address
            return
        memory.map_anywhere(self._index)
        yield memory.base + block.offset
        check(driver().cuStreamSynchronize(self._stream), "a copy")
        memory.unmap()

    def close(self) -> None:
        for _, copy in self._copies:
            check(driver().cuMemFree(copy), "cuMemFree")
        self._copies.clear()
