"""A loaded kernel for the function or module that was optimized in this process, called as that is.

The kernel of a module takes the module's parameters and buffers as further arguments. `KernelModule` passes on those of
the module itself, so that training, `to` and `state_dict` work as before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from kernelwright.export.standalone.kernel import LoadedKernel
from kernelwright.export.standalone.manifest import CallParameter


class KernelModule(nn.Module):
    """Called like `module`, whose parameters it uses. `kernel` is the kernel as a function, with `allow` and more."""

    def __init__(self, module: nn.Module, kernel: LoadedKernel) -> None:
        super().__init__()
        self.module = module
        self.kernel = kernel
        call = kernel.manifest.operation.call
        self._held = [one.held.split(".") for one in call if one.held]
        self._own = _own(call)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel(*self._complete(args, kwargs))

    def why_not(self, *args: Any, **kwargs: Any) -> str | None:
        """Why the module itself would answer this call; None where the kernel would."""
        return self.kernel.why_not(*self._complete(args, kwargs))

    @property
    def counts(self) -> dict[str, int]:
        """Calls by who answered, as of any loaded kernel."""
        return self.kernel.counts

    def _complete(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The call's own arguments in the kernel's order, then the module's tensors."""
        own = args if len(args) == len(self._own) and not kwargs else self._bound(args, kwargs)
        return [*own, *(_held(self.module, path) for path in self._held)]

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        bound = inspect.signature(self.module.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        return [bound.arguments.get(one.name, one.default) for one in self._own]


def _held(module: Any, path: Sequence[str]) -> Any:
    """`operator.attrgetter`, which torch.compile cannot trace."""
    for name in path:
        module = getattr(module, name)
    return module


def fallback_of(function: Callable[..., Any], call: Sequence[CallParameter]) -> Callable[..., Any]:
    """What answers where the kernel does not: `function`, given all arguments of the kernel's call by position."""
    names = [one.name for one in _own(call)]
    parameters = _parameters(function.forward if isinstance(function, nn.Module) else function)
    leading = [name for name, one in list(parameters.items())[: len(names)] if one.kind not in BY_NAME]
    if leading == names or not set(names) <= set(parameters):
        return function if len(names) == len(call) else lambda *args: function(*args[: len(names)])
    first = [name for name in names if parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY]

    def called(*args: Any) -> Any:
        given = dict(zip(names, args, strict=False))
        return function(*(given.pop(name) for name in first), **given)

    return called


def _own(call: Sequence[CallParameter]) -> list[CallParameter]:
    """What a caller passes."""
    return [one for one in call if not one.held and one.values is None]


BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # it is not written in Python
        return {}
