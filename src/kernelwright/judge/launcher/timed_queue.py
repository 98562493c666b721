"""What every timed call on a GPU has around it, candidate or baseline: clean caches, a held queue, two clocks.

The queue is filled while a kernel of ours holds it, so gaps on the host neither help nor hurt. It is released by a
word that another process writes into shared memory, and a word that our last kernel writes there says that the work
is done: the process outside has a clock of its own on the very same call.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from typing import Any

from kernelwright.devices.driver import attribute, check, driver
from kernelwright.isolation.channel import Channel
from kernelwright.runtime.launch import Arguments, u32, u64

GATE_BYTES = mmap.PAGESIZE
GATE_NOT_OPENED = "it was not opened in time"
# In place of the driver's word, where a step that torch carries out does not go well.
LIBRARY_REFUSED = "LIBRARY_STEP_REFUSED"  # no launcher can carry it out
LIBRARY_WAITS = "LIBRARY_STEP_WAITS"  # it waits for the GPU while the queue of a timed call is being filled
LIBRARY_FAILED = "LIBRARY_STEP_FAILED"  # torch refuses the arguments
GO, DONE, LATE, READY = 0, 64, 128, 192  # byte offsets of the words in the gate; see helper_kernels.cu
FLUSH_L2S = 4  # at least twice the cache; its two halves may hold the same line
GATE_NANOSECONDS = 10_000_000_000
THREADS = 256
HELPERS = ("kw_scrub", "kw_write", "kw_read", "kw_gate", "kw_empty", "kw_signal")


class TimedQueue:
    """Owns the helper kernels, the flush buffer, the gate and the events of one process and device."""

    def __init__(self, device: Any, helpers: bytes, gate_descriptor: int) -> None:
        cu = driver()
        self._helpers = helpers
        self._sms = attribute(device, "MULTIPROCESSOR_COUNT")
        self._shared = attribute(device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self._flush_bytes = FLUSH_L2S * max(attribute(device, "L2_CACHE_SIZE"), 8 << 20) // 4096 * 4096
        self._flush = int(check(cu.cuMemAlloc(self._flush_bytes), "cannot allocate the flush buffer"))
        self._map_gate(gate_descriptor)
        self.stream = check(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING), "cuStreamCreate")
        self._start = check(cu.cuEventCreate(0), "cuEventCreate")
        self._end = check(cu.cuEventCreate(0), "cuEventCreate")
        self._module: Any = None
        self._functions: dict[str, Any] = {}
        self.renew()

    def _map_gate(self, descriptor: int) -> None:
        cu = driver()
        self._gate = mmap.mmap(descriptor, GATE_BYTES)
        os.close(descriptor)
        self._gate_host = host = ctypes.addressof(ctypes.c_char.from_buffer(self._gate))
        check(cu.cuMemHostRegister(host, GATE_BYTES, cu.CU_MEMHOSTREGISTER_DEVICEMAP), "cannot share the gate")
        self._gate_device = int(check(cu.cuMemHostGetDevicePointer(host, 0), "cuMemHostGetDevicePointer"))

    def renew(self) -> None:
        """Loads our kernels afresh: code lies in device memory, where a hostile kernel might have changed it."""
        cu = driver()
        if self._module is not None:
            check(cu.cuModuleUnload(self._module), "cuModuleUnload")
        self._module = check(cu.cuModuleLoadData(self._helpers), "cannot load the judge's own kernels")
        self._functions.clear()
        for name in HELPERS:  # a process with torch loads lazily, which may wait for a queue that the gate holds
            check(cu.cuFuncLoad(self._function(name)), name)
        scrub = self._function("kw_scrub")
        which = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(cu.cuFuncSetAttribute(scrub, which, self._shared), "cuFuncSetAttribute")

    def let_go(self) -> None:
        """Gives back all that timing needs, for a process that times nothing more: a tool then finds what it finds in
        any program."""
        if self._module is None:
            return
        cu = driver()
        check(cu.cuModuleUnload(self._module), "cuModuleUnload")
        self._module = None
        self._functions.clear()
        check(cu.cuMemFree(self._flush), "cuMemFree")
        check(cu.cuMemHostUnregister(self._gate_host), "cuMemHostUnregister")

    def clean(self, word: int) -> None:
        """Leaves nothing of an earlier call in shared memory or the caches, and every line of the L2 clean."""
        check(driver().cuCtxResetPersistingL2Cache(), "cuCtxResetPersistingL2Cache")
        self._launch("kw_scrub", self._sms, u32(self._shared // 4), u32(word), shared=self._shared, threads=1024)
        count = u64(self._flush_bytes // 16)
        self._launch("kw_write", 8 * self._sms, u64(self._flush), count, u32(word))
        self._launch("kw_read", 8 * self._sms, u64(self._flush), count, u64(self._flush))

    def arm(self, go: int, done: int, enqueue: Callable[[], None]) -> None:
        """Queues a call between two events behind the gate, and the word that says it is done behind that."""
        cu = driver()
        gate = u64(self._gate_device)
        self._launch("kw_gate", 1, gate, u64(go), u64(GATE_NANOSECONDS), threads=1)
        check(cu.cuEventRecord(self._start, self.stream), "cuEventRecord")
        enqueue()
        check(cu.cuEventRecord(self._end, self.stream), "cuEventRecord")
        self._launch("kw_signal", 1, gate, u64(done), threads=1)

    def finish(self, channel: Channel) -> float:
        """Waits for the armed call and says at once that it is over; the seconds between its events.

        The word on the channel is the outside clock's end: the word in the gate is memory that device code might
        write early, and this one comes from a process that has waited for the whole queue.
        """
        cu = driver()
        check(cu.cuStreamSynchronize(self.stream), "the call")
        channel.send({"ok": {"over": True}})
        return float(check(cu.cuEventElapsedTime(self._start, self._end), "cuEventElapsedTime")) / 1e3

    def gave_up(self, go: int) -> bool:
        """Whether the gate opened by itself because it was not released in time."""
        return struct.unpack_from("<Q", self._gate, LATE) == (go,)

    def empty(self) -> None:
        """Queues a kernel that does nothing: what a call costs when nothing is computed."""
        self._launch("kw_empty", 1, threads=1)

    def well(self) -> bool:
        """Runs the canary kernel: whether this context and the device behind it still compute."""
        cu = driver()
        check(cu.cuMemsetD32Async(self._flush, 0, 1, self.stream), "the canary")
        self._launch("kw_well", self._sms, u64(self._flush))
        check(cu.cuStreamSynchronize(self.stream), "the canary")
        found = bytearray(4)
        check(cu.cuMemcpyDtoH(found, self._flush, 4), "the canary")
        threads = self._sms * THREADS
        return int.from_bytes(found, "little") == threads * (threads - 1) // 2 % (1 << 32)

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = check(driver().cuModuleGetFunction(self._module, name.encode()), name)
        return self._functions[name]

    def _launch(self, name: str, grid: int, *values: bytes, shared: int = 0, threads: int = THREADS) -> None:
        arguments = Arguments(*values)  # copied by the launch
        function, where = self._function(name), arguments.address
        answer = driver().cuLaunchKernel(function, grid, 1, 1, threads, 1, 1, shared, self.stream, where, 0)
        check(answer, f"launch of {name}")
