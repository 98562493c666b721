"""Functions of an extension on real values: the same source, built for the emulator. Every tensor that goes in lies
between guards, as copies where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from kw_confined.guarded import Allocations, tensor_at
from kw_confined.refusal import Refusals

from .construction import tensors_in
from .inline import BY_NUMBER, LibraryArguments, LoadedLibrary, RawTensor, called, handed_back, loaded
from .outside import Outside


class EmulatedCalls:
    def __init__(self, refusals: Refusals, *, without_kernels: bool) -> None:
        self._refusals, self._without = refusals, without_kernels
        self.allocations = Allocations()
        self._lent: list[torch.Tensor] = []  # what operators made for the library in this call
        self._outside = Outside(refusals, self._view, self._keep)

    def _view(self, raw: RawTensor) -> torch.Tensor:
        sizes, strides = list(raw.sizes[: raw.rank]), list(raw.strides[: raw.rank])
        dtype = BY_NUMBER[raw.dtype]
        if raw.data is None:
            return torch.empty_strided(sizes, strides, dtype=dtype)
        extent = torch.empty_strided(sizes, strides, dtype=dtype, device="meta").untyped_storage().nbytes()
        found: torch.Tensor = tensor_at(raw.data, extent, dtype, sizes, strides)
        return found

    def _keep(self, made: torch.Tensor) -> int:
        self._lent.append(made)
        return int(made.data_ptr())

    def __call__(self, library: LoadedLibrary, function: str, given: Sequence[Any]) -> Any:
        entry = loaded(library, self._outside.entry)
        self._outside.failure = None
        entry.kw_without_kernels(int(self._without))
        copies = {storage: self._guarded(whole) for storage, whole in _wholes(given).items()}

        def address(tensor: torch.Tensor) -> int:
            if not tensor.numel():
                return 0
            copy = copies[tensor.untyped_storage().data_ptr()]
            return int(copy.data_ptr()) + int(tensor.storage_offset()) * tensor.element_size()

        values = LibraryArguments(given, address, self._refusals)
        try:
            results, listed = called(entry, function, values)
        except RuntimeError as error:
            raise (self._outside.failure or error) from None
        made = [self._taken(one) for one in results]
        returned = [self._same(one, raw, given, copies) for one, raw in zip(made, results, strict=True)]
        for storage, whole in _wholes(given).items():
            if not torch.equal(whole, copies[storage]):
                whole.copy_(copies[storage])
        entry.kw_release()
        self._lent.clear()
        return handed_back(returned, listed)

    def _guarded(self, whole: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.allocations.like(whole)
        return made.copy_(whole)

    def _taken(self, raw: RawTensor) -> torch.Tensor:
        """A copy, because the library frees its memory."""
        dtype = BY_NUMBER[raw.dtype]
        sizes, strides = list(raw.sizes[: raw.rank]), list(raw.strides[: raw.rank])
        shape = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
        made: torch.Tensor = self.allocations.like(shape)
        if raw.data is not None and made.numel():
            extent = shape.untyped_storage().nbytes()
            made.copy_(tensor_at(raw.data, extent, dtype, sizes, strides))
        return made

    def _same(
        self, made: torch.Tensor, raw: RawTensor, given: Sequence[Any], copies: dict[int, torch.Tensor]
    ) -> torch.Tensor:
        """An argument that comes back is that argument, or a view of it."""
        for tensor in tensors_in(list(given)):
            copy = copies.get(tensor.untyped_storage().data_ptr())
            if copy is None or raw.data is None:
                continue
            offset = raw.data - copy.data_ptr()
            if 0 <= offset < copy.numel() and tensor.dtype == made.dtype:
                base = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
                return base.as_strided(made.shape, made.stride(), offset // made.element_size())
        return made


def _wholes(given: Sequence[Any]) -> dict[int, torch.Tensor]:
    """The memory of each tensor, as bytes."""
    found = {}
    for tensor in tensors_in(list(given)):
        storage = tensor.untyped_storage()
        if storage.nbytes():
            found[storage.data_ptr()] = torch.empty(0, dtype=torch.uint8).set_(storage)
    return found
