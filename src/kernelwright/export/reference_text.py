"""The reference as a file of its own that imports torch and nothing of Kernelwright.

Where everything that the reference reaches is plain source (functions of its own file, torch, math, numbers), that
source travels: it reads well, and takes any rank, dtype and number. Else the traced graph does.
"""

from __future__ import annotations

import builtins
import inspect
import math
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

from kernelwright.export.describe import ExportError, Traced
from kernelwright.tasks import casting
from kernelwright.tasks.model import Task

HEAD = '"""The operation in plain PyTorch: what answers where no kernel is proved."""\n\n'
MODULES = {"torch": "import torch", "math": "import math", "torch.nn.functional": "import torch.nn.functional as F"}
CONSTANTS = (bool, int, float, str)


class _CannotTravelError(Exception):
    """The source reaches something that is neither torch nor plain."""


def reference_text(task: Task, traced: Traced) -> str:
    try:
        return HEAD + _source(task)
    except _CannotTravelError as error:
        if traced.code:
            return HEAD + traced.code
        raise ExportError(f"{task.name}: the reference cannot be exported: {error}") from None


def _source(task: Task) -> str:
    parts = _Parts()
    parts.take(task.reference)
    imports = sorted(parts.imports)
    name = task.reference.__name__
    alias = "" if name == "reference" else f"\n\nreference = {name}\n"
    return "\n".join(["from __future__ import annotations\n", *imports]) + "\n\n\n" + "\n\n\n".join(parts.texts) + alias


class _Parts:
    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.texts: list[str] = []
        self._taken: set[str] = set()

    def take(self, function: Callable[..., Any]) -> None:
        if not isinstance(function, types.FunctionType) or function.__name__ == "<lambda>":
            raise _CannotTravelError(
                f"{getattr(function, '__name__', type(function).__name__)} is not a plain function"
            )
        if function.__closure__:
            raise _CannotTravelError(f"{function.__name__} has a closure")
        if function.__name__ in self._taken:
            return
        self._taken.add(function.__name__)
        try:
            text = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError):
            raise _CannotTravelError(f"the source of {function.__name__} cannot be read") from None
        if not text.startswith("def "):
            raise _CannotTravelError(f"{function.__name__} is decorated")
        for name in sorted(_globals_of(function)):
            self._global(name, function.__globals__)
        self.texts.append(text.rstrip())

    def _global(self, name: str, known: dict[str, Any]) -> None:
        if name not in known:
            if not hasattr(builtins, name):
                raise _CannotTravelError(f"{name} is not known")
            return
        value = known[name]
        if isinstance(value, types.ModuleType):
            if value.__name__ not in MODULES:
                raise _CannotTravelError(f"it uses the module {value.__name__}")
            self.imports.add(f"import {value.__name__} as {name}" if "." in value.__name__ else _plain(value, name))
        elif isinstance(value, types.FunctionType) and value.__module__ == casting.__name__:
            self.imports.add("import torch")
            self.take(value)
        elif type(value) in CONSTANTS and name not in self._taken:
            self._taken.add(name)
            number = isinstance(value, float) and not math.isfinite(value)
            self.texts.insert(0, f"{name} = float({str(value)!r})" if number else f"{name} = {value!r}")
        elif isinstance(value, types.FunctionType) and value.__globals__ is known:
            self.take(value)
        elif getattr(value, "__module__", None) in ("torch", "math") and name in ("device", "Tensor", *dir(math)):
            self.imports.add(f"from {value.__module__} import {name}")
        elif type(value) not in CONSTANTS:
            raise _CannotTravelError(f"it uses {name}, a {type(value).__name__}")


def _plain(module: types.ModuleType, name: str) -> str:
    return f"import {name}" if name == module.__name__ else f"import {module.__name__} as {name}"


def _globals_of(function: Callable[..., Any]) -> set[str]:
    return set(_names(function.__code__))


def _names(code: types.CodeType) -> Iterator[str]:
    import dis

    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def compiled_reference(text: str) -> Callable[..., Any]:
    """The function `reference` of such a file."""
    names: dict[str, Any] = {"__name__": "kernelwright_reference"}
    exec(compile(text, "<reference>", "exec", dont_inherit=True), names)
    found: Callable[..., Any] = names["reference"]
    return found
