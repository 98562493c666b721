"""Which verifiers are asked: those that were found to pay for themselves here, by `kernelwright calibrate verifiers`.

For what was not calibrated here the shipped choice holds: the compiler itself is quicker and surer than an opinion of
it, so that `compilation` is off; `memory` and `numerics` choose among the proposals of a generation.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelwright.errors import KernelwrightError
from kernelwright.paths import state_dir, write_whole
from kernelwright.proposers.llm.view import VERIFIERS, Stage

NAME = "verifiers.json"
VERSION = 1
SHIPPED = (Stage.verify_memory, Stage.verify_numerics)


class Measured(BaseModel):
    """How a verifier of one model fared on labelled candidates. Costs are means per candidate, of all its votes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verifier: str
    member: str
    right_alarms: int  # faulty, and said so
    false_alarms: int
    missed: int
    right_passes: int
    unanswered: int = 0
    seconds: float = 0.0
    usd: float | None = 0.0

    @property
    def count(self) -> int:
        return self.right_alarms + self.false_alarms + self.missed + self.right_passes

    @property
    def accuracy(self) -> float | None:
        return _part(self.right_alarms + self.right_passes, self.count)

    @property
    def precision(self) -> float | None:
        """Of its alarms, how many were right."""
        return _part(self.right_alarms, self.right_alarms + self.false_alarms)

    @property
    def recall(self) -> float | None:
        """Of the faults, how many it found."""
        return _part(self.right_alarms, self.right_alarms + self.missed)


class Calibration(BaseModel):
    """`pays`: by verifier, whether asking it saves more time of the judge's than it takes; only those measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = VERSION
    measured: tuple[Measured, ...] = ()
    evaluation_seconds: float
    pays: dict[str, bool]
    why: dict[str, str]


def verifiers_in_use(path: Path | None = None) -> tuple[Stage, ...]:
    found = read(path or default_path())
    if found is None:
        return SHIPPED
    known = {stage: found.pays.get(stage.value, stage in SHIPPED) for stage in VERIFIERS}
    return tuple(stage for stage in VERIFIERS if stage is not Stage.verify_cheating and known[stage])


def default_path() -> Path:
    return state_dir("calibration") / NAME


def read(path: Path) -> Calibration | None:
    if not path.is_file():
        return None
    try:
        found = Calibration.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise KernelwrightError(f"{path}: is no calibration ({type(error).__name__}); remove it") from None
    return found if found.version == VERSION else None


def save(path: Path, calibration: Calibration) -> None:
    write_whole(path, f"{calibration.model_dump_json(indent=1)}\n".encode())


def _part(some: int, of: int) -> float | None:
    return some / of if of else None
