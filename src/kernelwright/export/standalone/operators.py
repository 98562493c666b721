"""The kernel as operators of `torch.library`: for the compiler, for gradients, and for all that goes by the dispatcher.

The forward and the backward are an operator each. Both take any arguments: what no variant holds for, the reference
answers inside of the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .manifest import OperationParameter, OperationSpec

if TYPE_CHECKING:
    from .choice import SelectedVariant
    from .kernel import LoadedKernel

BACKWARD = "backward"
KEYS = ("CPU", "CUDA")


class Operators:
    def __init__(self, kernel: LoadedKernel, namespace: str) -> None:
        self._kernel, self._operation = kernel, kernel.operation
        made: Any = torch.library.Library  # torch has no types for it
        self._library = made(namespace, "FRAGMENT")  # kept: with it the operators would go
        self._name = f"{namespace}::{self._operation.name}"
        self.backward: Any = None
        gradients = self._operation.differentiable and not any(one.inout for one in self._operation.parameters)
        self._library.define(_schema(self._operation), tags=(torch.Tag.pt2_compliant_tag,))
        self._implement(namespace, gradients)
        torch.library.register_fake(self._name, self._fake, lib=self._library)
        torch.library.register_vmap(self._name, self._batched, lib=self._library)
        opened = getattr(torch.ops, namespace)
        if gradients:
            self._define_backward(namespace)
            self.backward = getattr(opened, f"{self._operation.name}_{BACKWARD}").default
        self.forward = getattr(opened, self._operation.name).default
        self._apply = _function(kernel, self)

    def differentiable(self, chosen: SelectedVariant, arguments: Sequence[Any]) -> Any:
        """A call with gradients, in eager mode: by a function of autograd's own, which costs half of what a registered
        operator does."""
        return self._apply(chosen, *arguments)

    # ---- the forward

    def _implement(self, namespace: str, gradients: bool) -> None:
        name, fast = self._operation.name, self._kernel.fast
        if fast is not None:
            fast.implement_forward(namespace, name, len(self._operation.outputs), gradients, self._run_list)
            return
        for key in KEYS:
            self._library.impl(name, self._run, key)
        if gradients:
            torch.library.register_autograd(self._name, self._backward, setup_context=self._remember, lib=self._library)

    def _run_list(self, *arguments: Any) -> list[torch.Tensor]:
        return self._kernel.run_forward(arguments)

    def _run(self, *arguments: Any) -> Any:
        return _as_returned(self._kernel.run_forward(arguments))

    def _fake(self, *arguments: Any) -> Any:
        return _as_returned(_made(self._kernel, arguments))

    def _batched(self, info: Any, in_dims: Sequence[int | None], *arguments: Any) -> tuple[Any, Any]:
        """One call for each element of the batch; the kernel answers where it is proved for one of them."""
        given = list(zip(arguments, in_dims, strict=True))
        rows = [
            self.forward(*(one if dim is None else one.select(dim, row).contiguous() for one, dim in given))
            for row in range(info.batch_size)
        ]
        if len(self._operation.outputs) == 1:
            return torch.stack(rows), 0
        return tuple(map(torch.stack, zip(*rows, strict=True))), (0,) * len(self._operation.outputs)

    # ---- gradients

    def _define_backward(self, namespace: str) -> None:
        name, fast = f"{self._operation.name}_{BACKWARD}", self._kernel.fast
        self._library.define(_backward_schema(self._operation), tags=(torch.Tag.pt2_compliant_tag,))
        qualified = f"{self._name}_{BACKWARD}"
        torch.library.register_fake(qualified, self._fake_backward, lib=self._library)
        if fast is not None:
            fast.implement_backward(namespace, name, self._run_backward_list, _twice_function(self))
            return
        for key in KEYS:
            self._library.impl(name, self._run_backward, key)
        torch.library.register_autograd(
            qualified, self._twice, setup_context=self._remember_backward, lib=self._library
        )

    def _remember(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        remember(ctx, inputs)
        outputs = output if isinstance(output, tuple) else (output,)
        fixed = [one for form, one in zip(self._operation.outputs, outputs, strict=True) if not form.differentiable]
        ctx.mark_non_differentiable(*fixed)

    def _backward(self, ctx: Any, *upstream: Any) -> tuple[Any, ...]:
        wanted = self._kernel.forward_direction.differentiable_outputs
        arguments = recall(ctx)
        found = self.backward(*arguments, *(upstream[place].contiguous() for place in wanted))
        return self._spread(found)

    def _spread(self, found: Any) -> tuple[Any, ...]:
        """A gradient for every parameter that has one, in the parameters' order."""
        waiting = iter(found if isinstance(found, tuple | list) else (found,))
        return tuple(next(waiting) if one.gradient else None for one in self._operation.parameters)

    def _run_backward(self, *given: Any) -> Any:
        return _as_returned(self._run_backward_list(*given))

    def _run_backward_list(self, *given: Any) -> list[torch.Tensor]:
        count = len(self._operation.parameters)
        return self._kernel.run_backward(given[:count], given[count:])

    def _fake_backward(self, *given: Any) -> Any:
        parameters = zip(self._operation.parameters, given, strict=False)
        return _as_returned([_like(value) for one, value in parameters if one.gradient])

    def _remember_backward(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        remember(ctx, inputs)

    def _twice(self, ctx: Any, *upstream: Any) -> tuple[Any, ...]:
        """Second derivatives, through the reference."""
        given = [one.detach().requires_grad_() if _is_float(one) else one for one in recall(ctx)]
        count = len(self._operation.parameters)
        leaves = [one for one in given if _is_float(one)]
        with torch.enable_grad():
            first = self._kernel.reference_gradients(given[:count], given[count:], create_graph=True)
            pairs = [(one, up) for one, up in zip(first, upstream, strict=True) if one.requires_grad]
            outputs, weights = [one for one, _ in pairs], [up for _, up in pairs]
            second = torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
        waiting = iter(second)
        return tuple(next(waiting) if _is_float(one) else None for one in given)


def _function(kernel: LoadedKernel, operators: Operators) -> Any:
    places = kernel.forward_direction.differentiable_outputs

    class WithGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, chosen: SelectedVariant, *arguments: Any) -> Any:
            remember(ctx, arguments)
            outputs = chosen.run(arguments)
            if len(places) < len(outputs):
                ctx.mark_non_differentiable(*(one for place, one in enumerate(outputs) if place not in places))
            return kernel._returned(outputs)

        @staticmethod
        def backward(ctx: Any, *upstream: Any) -> Any:
            wanted = [upstream[place].contiguous() for place in places]
            return None, *operators._spread(kernel.gradients(recall(ctx), wanted))

    # `Function.apply` of Python looks for transforms of torch.func first, which a call was asked for already.
    return super(torch.autograd.Function, WithGradient).apply


def _twice_function(operators: Operators) -> Any:
    """The backward operator where its own gradient is wanted, for the fast path: a list of tensors."""

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            remember(ctx, given)
            with torch._C._AutoDispatchBelowAutograd():
                return operators.backward(*given)

        @staticmethod
        def backward(ctx: Any, *upstream: Any) -> Any:
            return operators._twice(ctx, *upstream)

    function: Any = Twice

    def apply(*given: Any) -> list[torch.Tensor]:
        found = function.apply(*given)
        return list(found) if isinstance(found, tuple) else [found]

    return apply


def remember(ctx: Any, inputs: Sequence[Any]) -> None:
    ctx.save_for_backward(*(one for one in inputs if isinstance(one, torch.Tensor)))
    ctx.numbers = [None if isinstance(one, torch.Tensor) else one for one in inputs]


def recall(ctx: Any) -> list[Any]:
    waiting = iter(ctx.saved_tensors)
    return [next(waiting) if one is None else one for one in ctx.numbers]


def _made(kernel: LoadedKernel, arguments: Sequence[Any]) -> list[torch.Tensor]:
    """Outputs without values: contiguous, whatever strides the reference has."""
    direction = kernel.forward_direction
    tensors = [arguments[place] for place in direction.tensor_places]
    sizes = direction.shapes.read([tensor.shape for tensor in tensors])
    first = next((t for t, one in zip(tensors, kernel.operation.tensors, strict=True) if one.dtype is None), tensors[0])
    return [
        first.new_empty(form.shape(sizes), dtype=getattr(torch, form.dtype) if form.dtype else first.dtype)
        for form in direction.outputs
    ]


def _like(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(value, memory_format=torch.contiguous_format)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _as_returned(outputs: Sequence[torch.Tensor]) -> Any:
    if not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _schema(operation: OperationSpec) -> str:
    parameters = ", ".join(_declared(one, place) for place, one in enumerate(operation.parameters))
    return f"{operation.name}({parameters}) -> {_results(len(operation.outputs))}"


def _backward_schema(operation: OperationSpec) -> str:
    parameters = [_declared(one, place) for place, one in enumerate(operation.parameters)]
    parameters += [f"Tensor grad_{one.name}" for one in operation.outputs if one.differentiable]
    results = _results(sum(one.gradient for one in operation.parameters))
    return f"{operation.name}_{BACKWARD}({', '.join(parameters)}) -> {results}"


def _results(count: int) -> str:
    return "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"


def _declared(one: OperationParameter, place: int) -> str:
    if one.is_tensor:
        return f"Tensor({chr(97 + place)}!) {one.name}" if one.inout else f"Tensor {one.name}"
    kind = "bool" if isinstance(one.value, bool) else "float" if isinstance(one.value, float) else "int"
    return f"{kind} {one.name}"
