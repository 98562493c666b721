"""Calls a library of the `cpp` contract, through ctypes.

One block of arguments for each thread and shape: ctypes lets go of the interpreter's lock during a call, and a block
that two threads shared would give both of them wrong results.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

MAX_RANK = 8
MAX_BLOCKS = 256  # shapes that a thread remembers
PAGE = 4096
_libraries = itertools.count()  # of objects for them
COPIED = 1 << 16  # bytes: a tensor that a kernel may not read behind of is copied up to this size
SLACK = 256  # what the judge lets a kernel read beyond a tensor: to the next multiple of this from its beginning


class HostArgument(ctypes.Structure):
    """`kw_argument` of the contract's header."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
    )


class LibraryError(RuntimeError):
    """A library that is not the one that was proved, or cannot be loaded."""


class HostLibrary:
    def __init__(self, path: Path, sha256: str, *, threads: int, openmp: bool, stateless: bool) -> None:
        self._path, self._sha256 = path, sha256
        self._threads, self._openmp = threads, openmp
        self._stateless, self._id = stateless, next(_libraries)
        self._serial = threading.Lock()
        self._loading = threading.Lock()
        self._run: Any = None
        self._own = threading.local()

    def load(self) -> None:
        """Checks the file's hash and loads it, once."""
        with self._loading:
            if self._run is None:
                self._run = self._loaded()

    def _loaded(self) -> Any:
        try:
            content = self._path.read_bytes()
        except OSError as error:
            raise LibraryError(f"{self._path}: {error.strerror}; install the package again") from error
        if hashlib.sha256(content).hexdigest() != self._sha256:
            raise LibraryError(f"{self._path}: is not the library that was proved; install the package again")
        try:
            run = _opened(content).kw_run
        except (OSError, AttributeError) as error:
            raise LibraryError(f"{self._path}: cannot be loaded here: {error}") from error
        run.argtypes, run.restype = [ctypes.POINTER(HostArgument)], None
        if self._openmp:
            self._set_threads = ctypes.CDLL("libgomp.so.1").omp_set_num_threads
        return run

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """It takes every size."""
        return True

    def call(
        self, shapes: Any, values: Sequence[Any], outputs: Sequence[torch.Tensor], sizes: Mapping[str, int]
    ) -> None:
        """`shapes` is a key that stands for the shapes of all tensors, which are contiguous."""
        if self._run is None:
            self.load()
        try:
            block = self._own.blocks[shapes]
        except (AttributeError, KeyError):
            block = self._new_block(shapes, values, outputs)
        at = 0
        for value in values:
            if isinstance(value, torch.Tensor):
                block[at].data = value.data_ptr()
            at += 1
        for output in outputs:
            block[at].data = output.data_ptr()
            at += 1
        if self._stateless:
            self._run(block)
        else:
            with self._serial:
                self._run(block)

    def fast_body(self, module: Any, chosen: Any, arguments: Sequence[Any]) -> Any:
        """The same call for the fast path; None where calls have to wait for each other."""
        if not self._stateless:
            return None
        self.load()
        outputs = [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in chosen.outputs]
        block = _filled(arguments, outputs)
        tensors = [at for at, one in enumerate((*arguments, *outputs)) if isinstance(one, torch.Tensor)]
        set_threads = ctypes.cast(self._set_threads, ctypes.c_void_p).value if self._openmp else 0
        run = ctypes.cast(self._run, ctypes.c_void_p).value
        return module.host_body(run, bytes(block), tensors, set_threads, self._threads, self._id)

    def _new_block(self, shapes: Any, values: Sequence[Any], outputs: Sequence[torch.Tensor]) -> Any:
        own = self._own
        if not hasattr(own, "blocks"):
            own.blocks = {}
            if self._openmp:
                self._set_threads(self._threads)  # OpenMP has a number for each thread that calls it
        if len(own.blocks) >= MAX_BLOCKS:
            own.blocks.clear()
        block = own.blocks[shapes] = _filled(values, outputs)
        return block


def _filled(values: Sequence[Any], outputs: Sequence[torch.Tensor]) -> Any:
    """All but addresses."""
    block = (HostArgument * (len(values) + len(outputs)))()
    for entry, value in zip(block, (*values, *outputs), strict=True):
        if isinstance(value, torch.Tensor):
            for axis, (size, stride) in enumerate(zip(value.shape, value.stride(), strict=True)):
                entry.sizes[axis], entry.strides[axis] = size, stride
        else:
            entry.integer, entry.real = int(value), float(value)
    return block


def _opened(content: bytes) -> ctypes.CDLL:
    """The very bytes that were looked at: a file could be another one by the time that it is loaded."""
    with os.fdopen(os.memfd_create("kernelwright-kernel", os.MFD_CLOEXEC), "wb", buffering=0) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]
        # The loader takes a path that it has seen for the library that it has, and descriptors are used again: so no
        # path may come twice, also where several exported packages, each with this module, are in one process. A random
        # number is spelt in steps that lead nowhere.
        unique = "".join("./" if bit == "1" else "/" for bit in f"{secrets.randbits(96):096b}")
        return ctypes.CDLL(f"/proc/self/fd/{unique}{file.fileno()}")


def readable_behind(tensor: torch.Tensor) -> bool:
    """Whether what the judge lets a kernel read behind a tensor lies in the tensor's own last page of memory."""
    size = tensor.numel() * tensor.element_size()
    if size % SLACK == 0:
        return True
    start = tensor.data_ptr()
    return (start + size - 1) // PAGE == (start + (size | (SLACK - 1))) // PAGE


def is_copied(tensor: torch.Tensor) -> bool:
    """Whether a tensor is to be copied first, since a kernel could not read behind it, and is small enough for that."""
    small = tensor.device.type == "cpu" and tensor.numel() * tensor.element_size() <= COPIED
    return small and not readable_behind(tensor)


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy behind which a kernel may read."""
    return empty(tensor.shape, tensor.dtype).copy_(tensor.detach()) if is_copied(tensor) else tensor


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A contiguous tensor on the CPU behind which a kernel may read as the judge allows."""
    made = torch.empty(shape, dtype=dtype)
    if made.numel() == 0 or readable_behind(made):
        return made
    wider = torch.empty(made.numel() + SLACK // made.element_size(), dtype=dtype)
    return torch.empty(0, dtype=dtype).set_(wider.untyped_storage(), 0, made.shape, made.stride())
