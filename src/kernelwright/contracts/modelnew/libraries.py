"""What load_inline was given, as the one .cu file that it would have built. It comes out of the sandbox: only text."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import Annotated

from pydantic import Field, ValidationError

from kernelwright.contracts.extension.source import extension_source, written_calls
from kernelwright.contracts.recorded.record import RecordValue

MOST_SOURCE = 1 << 20
MOST_LIBRARIES = 16
_Text = Annotated[str, Field(max_length=MOST_SOURCE)]
_Function = Annotated[str, Field(pattern=r"^[A-Za-z_]\w{0,99}$")]


class InlineLibrary(RecordValue):
    cpp: _Text
    cuda: _Text
    functions: tuple[_Function, ...] = Field(max_length=256)

    @classmethod
    def written(cls, source: str) -> tuple[InlineLibrary, ...]:
        """Those that a module says in plain strings. The recorder finds the others, which costs another run of it."""
        made = []
        for cuda, cpp, functions in written_calls(source):
            with suppress(ValidationError):
                made.append(cls(cpp=cpp, cuda=cuda, functions=functions))
        return tuple(made)

    @property
    def key(self) -> str:
        """As confined/inline.py names it."""
        told = {"cpp": self.cpp, "cuda": self.cuda, "functions": list(self.functions)}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def source(self) -> str:
        return extension_source(self.cuda, self.cpp, self.functions)
