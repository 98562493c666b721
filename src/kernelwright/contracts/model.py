"""What every contract offers an author, and what those offer besides that a host compiler builds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernelwright.contracts.candidate import Candidate
from kernelwright.devices.names import Kind
from kernelwright.tasks.model import Signature


@dataclass(frozen=True)
class BuildPlan:
    """What the builder does: the files it finds, and the compiler's arguments.

    `{source}` in an argument stands for the folder with the files and `{output}` for the file to make.
    """

    files: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...]


class Contract(Protocol):
    """The form of a candidate, and how its author is told."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> Kind:
        """The kind of device that candidates run on."""

    @property
    def language(self) -> str: ...

    def signature_text(self, signatures: tuple[Signature, ...]) -> str:
        """The exact declaration that a candidate must define."""

    def skeleton(self, signatures: tuple[Signature, ...], task_name: str) -> str:
        """A source that compiles and does nothing yet."""

    def rules(self) -> tuple[str, ...]:
        """What an author has to know, a sentence each."""

    def read(self, path: Path) -> Candidate:
        """The candidate in a file or, where the contract knows such, a directory."""


class HostContract(Contract, Protocol):
    """A contract whose candidates a host compiler builds, for one signature at a time."""

    def build_plan(self, candidate: Candidate, signature: Signature, *, sanitized: bool) -> BuildPlan:
        """How to build the candidate for one signature (dtypes and ranks)."""
