"""From two records of one call to a program: buffers onto blocks, outputs onto the judge's, sizes held against cubins.

Host code returns tensors that it allocated; the judge has output blocks of its own. An allocation that is an output
and nothing else becomes that block. An output that lies inside a larger allocation, or that is returned twice, is
copied to its block at the end, inside the timed window. Returning an argument is refused.

Side streams become one: the order in which the host enqueued is one that their waits allow. Work that nothing waits
for is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelwright.contracts import program as made
from kernelwright.contracts.cuda.toolchain.cubin import parameter_sizes
from kernelwright.contracts.layout import BASE, SPAN, WRITABLE_ROLES, extent_bytes, lay_out
from kernelwright.contracts.recorded.pointers import NULL, CannotReplay, Location, RecordPair
from kernelwright.contracts.recorded.record import (
    Record,
    RecordedCopy,
    RecordedLaunch,
    RecordedLibrary,
    RecordedMap,
    RecordedMemset,
    RecordedTensor,
)
from kernelwright.contracts.recorded.streams import check_order
from kernelwright.tasks.dtypes import ITEM_BYTES
from kernelwright.tasks.model import Signature, TensorSpec


def to_program(first: Record, second: Record, signature: Signature, modules: Sequence[bytes]) -> made.Program:
    """Raises CannotReplay with a line for the author."""
    return _Converter(RecordPair(first, second), signature, modules).program()


class _Converter:
    def __init__(self, pair: RecordPair, signature: Signature, modules: Sequence[bytes]) -> None:
        self._pair, self._signature = pair, signature
        self._record = pair.first
        self._modules = modules
        self._parameters: list[Mapping[str, tuple[int, ...]]] = [parameter_sizes(module) for module in modules]
        _check_arguments(self._record, signature)
        self._outputs, self._copied = self._output_homes()
        self._maps: list[made.TensorMap] = []
        taken = {argument.name for argument in signature.arguments}
        self._names: list[str] = []  # of the block of each buffer
        for number, buffer in enumerate(self._record.buffers):
            name = buffer.name or self._outputs.get(number) or f"allocation_{number}"
            while not buffer.name and number not in self._outputs and name in taken:
                name += "_"
            self._names.append(name)
        private = [
            (self._names[number], buffer.bytes)
            for number, buffer in enumerate(self._record.buffers)
            if buffer.kind == "allocation" and number not in self._outputs
        ]
        try:
            layout = lay_out(signature, tuple(private))
        except ValueError as error:
            raise CannotReplay(str(error)) from error
        self._layout = layout
        self._numbers = {place.name: at for at, place in enumerate((*layout.tensors, *layout.private))}

    def program(self) -> made.Program:
        steps: list[made.ProgramStep | made.Memset | made.Copy | made.LibraryStep] = []
        check_order(self._record.steps, self._touched)
        for number, step in enumerate(self._record.steps):
            other = self._pair.second.steps[number]
            if isinstance(step, RecordedLaunch):
                steps.append(self._launch(number, step))
            elif isinstance(step, RecordedMemset):
                assert isinstance(other, RecordedMemset)
                place = self._writable(step.address, other.address, step.bytes, "a memset")
                steps.append(made.Memset(*self._block(place), step.bytes, step.value, step.width))
            elif isinstance(step, RecordedCopy):
                assert isinstance(other, RecordedCopy)
                target = self._writable(step.target, other.target, step.bytes, "a copy")
                source = self._pair.locate(step.source, other.source, "the source of a copy")
                self._inside(source, step.bytes, "the source of a copy")
                steps.append(made.Copy(*self._block(target), *self._block(source), step.bytes))
            elif isinstance(step, RecordedLibrary):
                assert isinstance(other, RecordedLibrary)
                steps.append(self._library(step, other))
        if not any(isinstance(step, made.ProgramStep) for step in steps):
            raise CannotReplay("the host code launches no kernel")
        steps += [
            made.Copy(self._numbers[tensor.name], 0, *self._block(place), extent_bytes(tensor))
            for tensor, place in self._copied
        ]
        roles = {tensor.name: tensor.role for tensor in self._signature.tensors}
        fills = {name: "output" if role == "output" else "received" for name, role in roles.items()}
        blocks = tuple(
            made.Block(
                place.name,
                place.base,
                place.bytes,
                place.offset,
                place.extent,
                roles.get(place.name, "inout") in WRITABLE_ROLES,
                fills.get(place.name, "poison"),
            )
            for place in (*self._layout.tensors, *self._layout.private)
        )
        return made.Program(BASE, SPAN, blocks, tuple(steps), tuple(self._maps), len(self._modules))

    # --- outputs -----------------------------------------------------------------------------------------------------

    def _output_homes(self) -> tuple[dict[int, str], list[tuple[TensorSpec, Location]]]:
        """Which buffers are output blocks, and which outputs are copied from elsewhere."""
        returned = self._returned()
        wanted = self._signature.outputs
        if len(returned) != len(wanted):
            names = ", ".join(tensor.name for tensor in wanted) or "nothing"
            raise CannotReplay(f"the host code returns {len(returned)} tensors; the task's outputs are {names}")
        homes: dict[int, str] = {}
        copied = []
        for (output, place), tensor in zip(returned, wanted, strict=True):
            _check_output(output, tensor)
            if place == NULL or extent_bytes(tensor) == 0:
                continue
            buffer = self._record.buffers[place.buffer]
            if buffer.kind != "allocation":
                raise CannotReplay(
                    f"{tensor.name}: the host code returns its argument {buffer.name}: return a tensor of its own"
                )
            self._inside(place, extent_bytes(tensor), f"output {tensor.name}")
            if place.offset == 0 and buffer.bytes == extent_bytes(tensor) and place.buffer not in homes:
                homes[place.buffer] = tensor.name
            else:
                copied.append((tensor, place))
        return homes, copied

    def _returned(self) -> list[tuple[RecordedTensor, Location]]:
        """What was returned, without the arguments changed in place, which a call may return first."""
        found = []
        for output, other in zip(self._record.outputs, self._pair.second.outputs, strict=True):
            found.append((output, self._pair.locate(output.address, other.address, "a returned tensor")))
        changed = [tensor for tensor in self._signature.tensors if tensor.role == "inout"]
        extra = len(found) - len(self._signature.outputs)
        if extra > 0 and extra == len(changed):
            for (output, place), tensor in zip(found, changed, strict=False):
                buffer = self._record.buffers[place.buffer] if place != NULL else None
                if buffer is None or (buffer.name, place.offset) != (tensor.name, 0):
                    raise CannotReplay(f"{tensor.name} is changed in place: return it or leave it out of what returns")
                _check_output(output, tensor)
            return found[extra:]
        return found

    # --- steps -------------------------------------------------------------------------------------------------------

    def _launch(self, number: int, step: RecordedLaunch) -> made.ProgramStep:
        if step.module >= len(self._modules):
            raise CannotReplay(f"{step.function} is of module {step.module}, which does not exist")
        sizes = self._parameters[step.module].get(step.function)
        if sizes is None:
            raise CannotReplay(f"the module has no kernel {step.function}")
        arguments = tuple(self._argument(number, at, step) for at in range(len(step.arguments)))
        given = tuple(argument.size for argument in arguments)
        if given != sizes:
            raise CannotReplay(f"{step.function} takes arguments of {sizes} bytes and the record has {given}")
        return made.ProgramStep(
            step.module,
            step.function,
            step.grid,
            step.block,
            arguments,
            step.shared,
            step.cluster,
            step.cooperative,
            step.dependent,
        )

    def _library(self, step: RecordedLibrary, other: RecordedLibrary) -> made.LibraryStep:
        what = f"torch's {step.operator}"
        tensors = tuple(
            self._view(one, again, what, writable=place in step.written)
            for place, (one, again) in enumerate(zip(step.tensors, other.tensors, strict=True))
        )
        results = tuple(
            self._view(one, again, what, writable=True) for one, again in zip(step.results, other.results, strict=True)
        )
        return made.LibraryStep(step.operator, step.call, tensors, step.written, results)

    def _view(self, one: RecordedTensor, other: RecordedTensor, what: str, *, writable: bool) -> made.TensorView:
        last = sum((size - 1) * stride for size, stride in zip(one.sizes, one.strides, strict=True))
        size = (last + 1) * ITEM_BYTES[one.dtype] if all(one.sizes) else 0
        if not size:
            return made.TensorView(0, 0, one.dtype, one.sizes, one.strides)
        if writable:
            place = self._writable(one.address, other.address, size, what)
        else:
            place = self._pair.locate(one.address, other.address, what)
            self._inside(place, size, what)
        return made.TensorView(*self._block(place), one.dtype, one.sizes, one.strides)

    def _argument(self, number: int, at: int, step: RecordedLaunch) -> made.Argument:
        entry = step.arguments[at].tensor_map
        if entry is not None:
            other = self._pair.second.steps[number]
            assert isinstance(other, RecordedLaunch)
            second = other.arguments[at].tensor_map
            assert second is not None
            self._maps.append(self._tensor_map(entry, second))
            return made.Argument(tensor_map=len(self._maps) - 1)
        data, pointers = self._pair.argument(number, at)
        return made.Argument(
            data.hex(),
            tuple(
                made.Pointer(pointer.at, *self._block(Location(pointer.block, pointer.offset))) for pointer in pointers
            ),
        )

    def _tensor_map(self, entry: RecordedMap, other: RecordedMap) -> made.TensorMap:
        place = self._pair.locate(entry.address, other.address, "the tensor of a tensor map")
        return made.TensorMap(
            *self._block(place),
            entry.data_type,
            entry.sizes,
            entry.strides,
            entry.box,
            entry.steps,
            entry.interleave,
            entry.swizzle,
            entry.promotion,
            entry.fill,
        )

    def _touched(self, number: int) -> frozenset[str]:
        """The blocks that a step has the address of and can write."""
        step, other = self._record.steps[number], self._pair.second.steps[number]
        found: list[int] = []
        if isinstance(step, RecordedLaunch):
            for at in range(len(step.arguments)):
                found += self._pointed(number, at)
        elif isinstance(step, RecordedMemset):
            assert isinstance(other, RecordedMemset)
            found.append(self._pair.locate(step.address, other.address, "a memset").buffer)
        elif isinstance(step, RecordedCopy):
            assert isinstance(other, RecordedCopy)
            found.append(self._pair.locate(step.target, other.target, "a copy").buffer)
            found.append(self._pair.locate(step.source, other.source, "the source of a copy").buffer)
        elif isinstance(step, RecordedLibrary):
            assert isinstance(other, RecordedLibrary)
            views = zip((*step.tensors, *step.results), (*other.tensors, *other.results), strict=True)
            found += [self._pair.locate(one.address, two.address, "a tensor of torch's").buffer for one, two in views]
        buffers = self._record.buffers
        return frozenset(self._names[one] for one in found if one >= 0 and buffers[one].kind != "input")

    def _pointed(self, number: int, at: int) -> list[int]:
        """The buffers whose addresses are in an argument."""
        step, other = self._record.steps[number], self._pair.second.steps[number]
        assert isinstance(step, RecordedLaunch) and isinstance(other, RecordedLaunch)
        ours, theirs = step.arguments[at].tensor_map, other.arguments[at].tensor_map
        if ours is None or theirs is None:
            return [pointer.block for pointer in self._pair.argument(number, at)[1]]
        return [self._pair.locate(ours.address, theirs.address, "the tensor of a tensor map").buffer]

    # --- places ------------------------------------------------------------------------------------------------------

    def _block(self, place: Location) -> tuple[int, int]:
        """The number of a block of the program, and the offset in it."""
        if place == NULL:
            raise CannotReplay("a step has the null pointer where it needs a tensor")
        return self._numbers[self._names[place.buffer]], place.offset

    def _writable(self, ours: int, theirs: int, size: int, what: str) -> Location:
        place = self._pair.locate(ours, theirs, what)
        self._inside(place, size, what)
        buffer = self._record.buffers[place.buffer]
        if buffer.kind == "input":
            raise CannotReplay(f"{what} writes the input {buffer.name}, which is read-only")
        return place

    def _inside(self, place: Location, size: int, what: str) -> None:
        if place == NULL or place.offset + size > self._record.buffers[place.buffer].bytes:
            raise CannotReplay(f"{what} reaches past the end of its tensor")


def _check_arguments(record: Record, signature: Signature) -> None:
    """The tensors of the signature, in its order and of its sizes, come before every allocation."""
    wanted = [
        (tensor.name, extent_bytes(tensor), "inout" if tensor.role == "inout" else "input")
        for tensor in signature.tensors
        if tensor.role != "output"
    ]
    found = [(buffer.name, buffer.bytes, buffer.kind) for buffer in record.buffers if buffer.kind != "allocation"]
    heads = [buffer.kind != "allocation" for buffer in record.buffers[: len(wanted)]]
    if found != wanted or not all(heads):
        raise CannotReplay("the recorded tensors are not the arguments of the task")


def _check_output(output: RecordedTensor, tensor: TensorSpec) -> None:
    wanted, got = (tensor.dtype, tensor.shape), (output.dtype, output.sizes)
    if wanted != got:
        raise CannotReplay(
            f"{tensor.name}: the host code returns {output.dtype}{list(output.sizes)}; "
            f"the task has {tensor.dtype}{list(tensor.shape)}"
        )
    pairs = zip(output.sizes, output.strides, tensor.strides, strict=True)
    if any(size > 1 and stride != due for size, stride, due in pairs):
        raise CannotReplay(
            f"{tensor.name}: the host code returns strides {list(output.strides)}; "
            f"the task has {list(tensor.strides)}: allocate the output so"
        )
    assert tensor.dtype in ITEM_BYTES
