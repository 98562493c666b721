"""`load_inline`, and `load` of files that a module wrote, in the sandbox: the candidate's own library, built by the
builder, called through its plain entry.

A library is known by the strings that it is made of. Where it is not built yet it is asked for, and the functions of
it end the call; the toolchain builds it and runs the recorder again.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from kw_confined.refusal import HostCodeRefused, Refusals

RANK, ROOM = 8, 64
CUDA_SUFFIXES = (".cu", ".cuh")
NONE, TENSOR, INTEGER, REAL, BOOL, LIST = range(6)
DTYPES = {  # as c10::ScalarType numbers them
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.bool: 11,
    torch.bfloat16: 15,
}
BY_NUMBER = {number: dtype for dtype, number in DTYPES.items()}


def numbered(tensor: torch.Tensor) -> int:
    if tensor.dtype not in DTYPES or tensor.dim() > RANK:
        raise TypeError(f"a function of an extension meets {tensor.dtype} of {tensor.dim()} dimensions")
    return DTYPES[tensor.dtype]


class RawTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * RANK),
        ("strides", ctypes.c_int64 * RANK),
    )


class RawValue(ctypes.Structure):
    pass


RawValue._fields_ = (
    ("kind", ctypes.c_int32),
    ("count", ctypes.c_int32),
    ("integer", ctypes.c_int64),
    ("real", ctypes.c_double),
    ("tensor", RawTensor),
    ("items", ctypes.POINTER(RawValue)),
)


class NeedsLibrary(HostCodeRefused):
    """A function is called of a library that is not built yet."""


Call = Callable[["LoadedLibrary", str, Sequence[Any]], Any]
"""Calls a function of a library with Python's values: on stand-ins, or on real ones."""


class LoadedLibrary:
    """What load_inline returned; any name is a function of it."""

    def __init__(self, key: str, path: Path | None, call: Call, refusals: Refusals) -> None:
        self._key, self._path, self._call, self._refusals = key, path, call, refusals
        self.entry: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*given: Any, **named: Any) -> Any:
            if named:
                raise self._refusals.refuse(f"{name} of an extension is called with names: give values in order")
            if self._path is None:
                raise NeedsLibrary(self._key)
            return self._call(self, name, given)

        function.__name__ = name
        return function

    @property
    def key(self) -> str:
        return self._key

    @property
    def path(self) -> Path:
        assert self._path is not None
        return self._path


class Libraries:
    """Those of one process: `built` has a file for each key."""

    def __init__(self, built: dict[str, str], call: Call, refusals: Refusals) -> None:
        self._built, self._call, self._refusals = built, call, refusals
        self._known: dict[str, LoadedLibrary] = {}
        self.wanted: dict[str, dict[str, Any]] = {}

    def load_inline(
        self, name: Any = "", cpp_sources: Any = "", cuda_sources: Any = None, functions: Any = None, *_: Any, **__: Any
    ) -> LoadedLibrary:
        told = {"cpp": _text(cpp_sources), "cuda": _text(cuda_sources), "functions": _names(functions)}
        key = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]
        path = self._built.get(key)
        if path is None:
            self.wanted[key] = told
        if key not in self._known:
            self._known[key] = LoadedLibrary(key, None if path is None else Path(path), self._call, self._refusals)
        return self._known[key]

    def load(self, name: Any = "", sources: Any = (), *_: Any, **__: Any) -> LoadedLibrary:
        """Of files that the module wrote itself: there are no others where it runs."""
        paths = [Path(one) for one in ([sources] if isinstance(sources, str | Path) else sources)]
        missing = next((one for one in paths if not one.is_file()), None)
        if missing is not None:
            raise self._refusals.refuse(f"host code builds from {missing.name}, a file that is not there")
        texts = {path: path.read_text(errors="replace") for path in paths}
        cuda = [text for path, text in texts.items() if path.suffix in CUDA_SUFFIXES]
        host = [text for path, text in texts.items() if path.suffix not in CUDA_SUFFIXES]
        return self.load_inline(name, host, cuda)


def _text(given: Any) -> str:
    if given is None:
        return ""
    return given if isinstance(given, str) else "\n".join(map(str, given))


def _names(given: Any) -> list[str]:
    if given is None:
        return []
    return [given] if isinstance(given, str) else [str(one) for one in given]


# --- values ----------------------------------------------------------------------------------------------------------


class LibraryArguments:
    """Python's values as a library takes them; `address` says where a tensor lies."""

    def __init__(self, given: Sequence[Any], address: Callable[[torch.Tensor], int], refusals: Refusals) -> None:
        self._address, self._refusals = address, refusals
        self._kept: list[Any] = []
        self.raw = (RawValue * max(1, len(given)))()
        self.count = len(given)
        for place, one in enumerate(given):
            self._put(self.raw[place], one)

    def _put(self, to: RawValue, given: Any) -> None:
        if isinstance(given, torch.Tensor):
            to.kind = TENSOR
            self._tensor(to.tensor, given)
        elif given is None:
            to.kind = NONE
        elif isinstance(given, bool):
            to.kind, to.integer = BOOL, int(given)
        elif isinstance(given, int):
            to.kind, to.integer = INTEGER, given
        elif isinstance(given, float):
            to.kind, to.real = REAL, given
        elif isinstance(given, list | tuple):
            items = (RawValue * max(1, len(given)))()
            for place, one in enumerate(given):
                self._put(items[place], one)
            self._kept.append(items)
            to.kind, to.count, to.items = LIST, len(given), items
        else:
            raise self._refusals.refuse(f"a function of an extension is given a {type(given).__name__}")

    def _tensor(self, to: RawTensor, given: torch.Tensor) -> None:
        if given.dtype not in DTYPES or given.dim() > RANK:
            raise self._refusals.refuse(
                f"a function of an extension is given {given.dtype} of {given.dim()} dimensions"
            )
        to.data = self._address(given) or None
        to.dtype, to.rank = DTYPES[given.dtype], given.dim()
        for axis, (size, stride) in enumerate(zip(given.shape, given.stride(), strict=True)):
            to.sizes[axis], to.strides[axis] = size, stride


def called(entry: Any, function: str, values: LibraryArguments) -> tuple[list[RawTensor], bool]:
    """What kw_call gave, and whether it was a list. Raises RuntimeError with the library's own words."""
    results, message = (RawTensor * ROOM)(), ctypes.create_string_buffer(300)
    got = entry.kw_call(function.encode(), values.raw, values.count, results, ROOM, message, len(message))
    if got < 0:
        raise RuntimeError(message.value.decode(errors="replace"))
    return list(results[:got]), bool(entry.kw_returned_list())


def handed_back(made: list[torch.Tensor], listed: bool) -> Any:
    return made if listed else made[0] if len(made) == 1 else tuple(made) if made else None


def loaded(library: LoadedLibrary, outside: Any = None) -> Any:
    """Its own copy of every symbol comes first: a PyTorch with CUDA has a runtime of its own in this process. `outside`
    answers for operators of torch and of cuBLAS."""
    if library.entry is None:
        library.entry = ctypes.CDLL(str(library.path), mode=ctypes.RTLD_LOCAL)
        library.entry.kw_call.argtypes = (
            *(ctypes.c_char_p, ctypes.POINTER(RawValue), ctypes.c_int, ctypes.POINTER(RawTensor), ctypes.c_int),
            *(ctypes.c_char_p, ctypes.c_size_t),
        )
        if outside is not None:
            library.entry.kw_set_outside(outside)
    return library.entry
