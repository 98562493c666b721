"""A portable kernel as a function: the proved kernel where it holds, the reference everywhere else."""

from __future__ import annotations

import importlib
import itertools
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.compiler import is_compiling

from . import fastpath, guards
from .calls import NO_TYPES, CallBinding, NamedFields, in_form
from .choice import Direction, SelectedVariant
from .device import Reader
from .manifest import Manifest, parsed
from .operators import Operators

ALLOW = "KERNELWRIGHT_ALLOW"  # what Kernel.allow takes, separated by commas, for a whole process
ALLOWANCES = frozenset({"device", "threads", "sizes"})


class FallbackWarning(UserWarning):
    """A call that the reference answered, and why. Given once for each reason."""


class LoadedKernel:
    """Called like the reference. `counts` says how often the kernel and, by reason, the reference answered."""

    def __init__(
        self,
        manifest: Manifest,
        folder: Path,
        reference: Callable[..., Any],
        *,
        namespace: str | None = None,
        allow: Sequence[str] = (),
        outer: Callable[..., Any] | None = None,
        reader: Reader | None = None,
    ) -> None:
        """`reference` takes the operation's parameters. `outer` is the function that a user knows, where it is at hand:
        it also takes the numbers that the reference has built in. `reader` reads launch formulas of GPU kernels."""
        self.manifest = manifest
        self.operation = operation = manifest.operation
        self.__name__ = operation.name
        self.__doc__ = (
            f"{operation.name}{CallBinding(operation).signature}: a proved kernel where it holds, else the reference."
        )
        self._call = CallBinding(operation)
        self.__signature__ = self._call.signature
        self._count = len(operation.call)
        self._direct = self._call.direct
        self._form = operation.form
        self._types: Mapping[NamedFields, Any] = NO_TYPES
        self._reference, self._outer = reference, outer
        self._lock = threading.Lock()
        self._used = itertools.count()
        self._reasons: dict[str, int] = {}
        self._allowed: frozenset[str] = frozenset()
        self._forward = Direction.forward(operation, manifest.forward, folder, reader)
        self._backward = Direction.backward(operation, manifest.backward, folder, reader)
        self._kind = manifest.variants[0].kind if manifest.variants else "cpu"
        self._gradients = self._forward.gradient_places
        self._tensors = self._forward.tensor_places
        self._fast = fastpath.opened(operation, self._kind, (self._forward, self._backward), self.gradients)
        self._fast_call = _not_known if self._fast is None else self._fast.call
        self._operators = Operators(self, namespace or manifest.namespace)
        self._op = self._operators.forward
        self.allow(*allow)

    # ---- what a user asks and says

    @property
    def counts(self) -> dict[str, int]:
        """Calls by who answered: "kernel", and each reason for which it was the reference."""
        used = int(self._used.__reduce__()[1][0])  # the counter's value: counting so needs no lock
        if self._fast is not None:
            used += self._fast.used
        with self._lock:
            return {"kernel": used, **self._reasons}

    @property
    def operator(self) -> Any:
        """The same as a `torch.library` operator."""
        return self._op

    def allow(self, *what: str) -> None:
        """Uses the kernel beyond what is proved: on another `device` than the one it was timed on, with another number
        of `threads`, or for all `sizes` of the declared domain and not only where it was timed."""
        unknown = set(what) - ALLOWANCES
        if unknown:
            raise ValueError(f"{sorted(unknown)[0]!r} cannot be allowed; choose from {', '.join(sorted(ALLOWANCES))}")
        self._allowed |= frozenset(what)
        for direction in (self._forward, self._backward):
            direction.allow(self._allowed)
        if self._fast is not None:
            self._fast.clear()

    def fall_back_to(self, function: Callable[..., Any]) -> None:
        """What answers where the kernel does not, called with all arguments by position, in place of the reference."""
        self._outer = function

    def return_as(self, *types: Any) -> None:
        """The caller's own classes for named tuples among the results, in place of equivalent ones."""
        self._types = {(one.__name__, tuple(one._fields)): one for one in types}

    def warm_up(self, *args: Any, **kwargs: Any) -> None:
        """Loads every library, so that no later call does; with arguments, makes a call with them as well."""
        for direction in (self._forward, self._backward):
            direction.load()
        if args or kwargs:
            with torch.no_grad():
                self(*args, **kwargs)

    def why_not(self, *args: Any, **kwargs: Any) -> str | None:
        """Why the reference would answer this call; None where the kernel would."""
        arguments = self._call.arguments(self._call.bound(args, kwargs))
        if isinstance(arguments, str):
            return arguments
        chosen = self._choose(arguments)
        if isinstance(chosen, str):
            return chosen
        return self._no_gradient(arguments, chosen) if self._wants_gradient(arguments) else None

    def __repr__(self) -> str:
        counted = f"{len(self.manifest.forward)} forward, {len(self.manifest.backward)} backward"
        return f"<kernel {self.__name__}{self.__signature__}: {counted}>"

    # ---- a call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or not self._call.complete:
            args = self._call.bound(args, kwargs)
        if is_compiling():
            return self._traced(args)
        answer = self._fast_call(*args)
        if answer is NotImplemented:
            return self._answered(args)
        return answer if self._form is None else self._given(answer, args)

    def _answered(self, args: Sequence[Any]) -> Any:
        """By Python: the first call of its kind, or every call where there is no fast path."""
        if len(args) != self._count:
            args = self._call.bound(args, {})
        arguments = args if self._direct else self._call.arguments(args)
        if isinstance(arguments, str):
            return self._fall_back(arguments, args)
        chosen = self._choose(arguments)
        if isinstance(chosen, str):
            return self._fall_back(chosen, args)
        wanted = self._wants_gradient(arguments)
        if wanted:
            reason = self._no_gradient(arguments, chosen)
            if reason is not None:
                return self._fall_back(reason, args)
        self._enter(chosen, arguments)
        next(self._used)
        if wanted:
            return self._given(self._operators.differentiable(chosen, arguments), args)
        return self._given(self._returned(self._run(chosen, arguments)), args)

    def _run(self, chosen: SelectedVariant, arguments: Sequence[Any]) -> list[torch.Tensor]:
        outputs = chosen.run(arguments)
        for place in self._forward.inout_places:
            increment_version(arguments[place])  # autograd may have saved it
        return outputs

    def _enter(self, chosen: SelectedVariant, arguments: Sequence[Any]) -> None:
        if self._fast is not None:
            proved = partial(self._no_gradient, arguments, chosen)
            self._fast.enter(chosen, arguments, backward=False, gradient=lambda: proved() is None)

    def _choose(self, arguments: Sequence[Any]) -> SelectedVariant | str:
        reason = guards.of_mode(self._kind)
        return self._forward.choose(arguments) if reason is None else reason

    def _wants_gradient(self, arguments: Sequence[Any]) -> bool:
        if torch.is_grad_enabled():
            for place in self._tensors:
                if arguments[place].requires_grad:
                    return True
        return False

    def _no_gradient(self, arguments: Sequence[Any], chosen: SelectedVariant) -> str | None:
        """Why gradients have to be the reference's, both ways: a backward that computes the forward again would lose
        what the kernel gained. The upstream gradient is not known yet; where it does not fit, autograd answers it."""
        if self._forward.inout_places:
            return guards.IN_PLACE
        if chosen.covered is None:  # `allow` forgets every choice, and what else it depends on is in the choice's key
            chosen.covered = self._backward.covers(arguments)
        return None if chosen.covered else guards.GRADIENT

    def _fall_back(self, reason: str, args: Sequence[Any]) -> Any:
        self.count(reason)
        if self._outer is not None:
            return self._outer(*args)
        arguments = args if self._direct else self._call.arguments(args)
        if isinstance(arguments, str):
            raise ValueError(f"{self.__name__}: {self._call.built_in(args)}")
        return self._given(self._reference(*arguments), args)

    def count(self, reason: str) -> None:
        with self._lock:
            first = reason not in self._reasons
            self._reasons[reason] = self._reasons.get(reason, 0) + 1
        if first:
            warnings.warn(f"{self.__name__}: {reason}, so the reference is used", FallbackWarning, stacklevel=5)

    def _traced(self, args: Sequence[Any]) -> Any:
        """For torch.compile: the operator, or the reference itself where nothing was proved for any size, so that the
        compiler sees what is inside. Sizes are looked at when the operator runs: asking here would compile for each."""
        if len(args) != self._count:
            args = self._call.bound(args, {})
        arguments = args if self._direct else self._call.arguments(args)
        if not isinstance(arguments, str) and self._traceable(arguments):
            return self._given(self._returned_operator(self._op(*arguments)), args)
        if self._outer is not None:
            return self._outer(*args)
        if isinstance(arguments, str):
            raise ValueError(f"{self.__name__}: {self._call.built_in(args)}")
        return self._given(self._reference(*arguments), args)

    def _traceable(self, arguments: Sequence[Any]) -> bool:
        if torch.is_autocast_enabled(self._kind) or not self._forward.may_hold(arguments):
            return False
        if self._wants_gradient(arguments):
            return self._backward.has_variants and not self._forward.inout_places
        return True

    # ---- what comes back

    def _given(self, answer: Any, args: Sequence[Any]) -> Any:
        """As the function that was captured gives it back."""
        return answer if self._form is None else in_form(self._form, _as_list(answer), args, self._types)

    def _returned(self, outputs: list[torch.Tensor]) -> Any:
        returns = self.operation.returns
        if returns == "tensor":
            return outputs[0]
        return tuple(outputs) if returns == "tuple" else None

    def _returned_operator(self, result: Any) -> Any:
        if self.operation.returns == "tuple" and len(self.operation.outputs) == 1:
            return (result,)
        return result

    # ---- for the operators, below autograd

    def run_forward(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        chosen = guards.of_mode(self._kind, autocast=False) or self._forward.choose(arguments)
        if not isinstance(chosen, str):
            self._enter(chosen, arguments)
            next(self._used)
            return self._run(chosen, arguments)
        self.count(chosen)
        with torch.autocast(self._kind, enabled=False):
            return _unshared(_as_list(self._reference(*arguments)), arguments)

    def run_backward(self, arguments: Sequence[Any], upstream: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        given = [*arguments, *upstream]
        chosen = guards.of_mode(self._kind, autocast=False) or self._backward.choose(given)
        if not isinstance(chosen, str):
            if self._fast is not None:
                self._fast.enter(chosen, given, backward=True, gradient=bool)
            return chosen.run(given)
        self.count(f"backward: {chosen}")
        return list(self.reference_gradients(arguments, upstream, create_graph=False))

    def gradients(self, arguments: Sequence[Any], upstream: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """What a node of autograd's graph asks; by the operator if a tool watches or it is differentiated again."""
        if torch.is_grad_enabled() or guards.of_mode(self._kind, autocast=False) is not None:
            return _as_list(self._operators.backward(*arguments, *upstream))
        return self.run_backward(arguments, upstream)

    def reference_gradients(
        self, arguments: Sequence[Any], upstream: Sequence[torch.Tensor], *, create_graph: bool
    ) -> Sequence[torch.Tensor]:
        """By autograd, through the reference."""
        with _differentiating(), torch.autocast(self._kind, enabled=False):
            complete = list(arguments)
            leaves = []
            for place in self._gradients:
                leaf = arguments[place] if create_graph else arguments[place].detach().requires_grad_()
                complete[place] = leaf
                leaves.append(leaf)
            outputs = _as_list(self._reference(*complete))
            wanted = [outputs[place] for place in self._forward.differentiable_outputs]
            found = torch.autograd.grad(wanted, leaves, list(upstream), create_graph=create_graph)
        return found if create_graph else _unshared(found, [*arguments, *upstream])

    @property
    def fast(self) -> fastpath.FastPath | None:
        """Where calls are answered in C++; None where it was not built."""
        return self._fast

    @property
    def reference(self) -> Callable[..., Any]:
        return self._reference

    @property
    def forward_direction(self) -> Direction:
        return self._forward


def _not_known(*args: Any) -> Any:
    return NotImplemented


@contextmanager
def _differentiating() -> Iterator[None]:
    """Lets autograd see what is computed, also inside of an operator, below which torch leaves autograd out."""
    keys = torch._C.DispatchKey
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in (keys.AutogradFunctionality, keys.AutogradOther, keys.AutogradNestedTensor, keys.ADInplaceOrView):
        excluded = excluded.remove(key)
    guard: Any = torch._C._ForceDispatchKeyGuard
    with guard(torch._C._dispatch_tls_local_include_set(), excluded), torch.enable_grad():
        yield


def _as_list(returned: Any) -> list[torch.Tensor]:
    if returned is None:
        return []
    return list(returned) if isinstance(returned, tuple | list) else [returned]


def _unshared(results: Sequence[torch.Tensor], arguments: Sequence[Any]) -> list[torch.Tensor]:
    """As an operator has to return them: contiguous, and none of them an argument or a view of one."""
    taken = {one.untyped_storage().data_ptr() for one in arguments if isinstance(one, torch.Tensor)}
    found = []
    for result in results:
        made = result.detach().contiguous()
        pointer = made.untyped_storage().data_ptr()
        found.append(made.clone() if pointer in taken else made)
        taken.add(found[-1].untyped_storage().data_ptr())
    return found


def opened(file: str, package: str) -> LoadedKernel:
    """The kernel of an installed package: `opened(__file__, __name__)` in its `__init__.py`."""
    folder = Path(file).parent
    manifest = parsed((folder / "kernel.json").read_text(encoding="utf-8"))
    reference = importlib.import_module(f"{package}.reference").reference
    allowed = [one.strip() for one in os.environ.get(ALLOW, "").split(",") if one.strip()]
    reader = None
    if any(variant.kind == "cuda" for variant in manifest.variants):
        reader = importlib.import_module(f"{__package__}.portable").PortableKernel.read
    return LoadedKernel(manifest, folder, reference, allow=allowed, reader=reader)
