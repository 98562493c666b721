"""Measures verifiers on labelled candidates, and says which of them are asked: those that save more than they cost.

Where `kernelwright calibrate verifiers` has measured nothing the shipped choice holds: the compiler itself is quicker
and surer than an opinion of it, so that `compilation` is off; `memory` and `numerics` choose among the proposals of a
generation.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelwright.errors import KernelwrightError
from kernelwright.llm.model import CallFailed, ModelCall
from kernelwright.paths import state_dir, write_whole
from kernelwright.proposers.llm.context import PromptContext
from kernelwright.proposers.llm.labelled import Labelled
from kernelwright.proposers.llm.prompts import render
from kernelwright.proposers.llm.shown import shown_source
from kernelwright.proposers.llm.verifiers import VOTES, Members, Models, Review, derived_seed
from kernelwright.proposers.llm.view import VERIFIERS, PromptStage

FILE_NAME = "verifiers.json"
VERSION = 1
SHIPPED = (PromptStage.verify_memory, PromptStage.verify_numerics)


class VerifierAccuracy(BaseModel):
    """How a verifier of one model did on labelled candidates. Costs are means per candidate, of all its votes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verifier: str
    member: str
    right_alarms: int  # faulty, and reported as such
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
    measured: tuple[VerifierAccuracy, ...] = ()
    evaluation_seconds: float
    pays: dict[str, bool]
    why: dict[str, str]


def verifiers_in_use(path: Path | None = None) -> tuple[PromptStage, ...]:
    found = read_calibration(path or default_path())
    if found is None:
        return SHIPPED
    known = {stage: found.pays.get(stage.value, stage in SHIPPED) for stage in VERIFIERS}
    return tuple(stage for stage in VERIFIERS if stage is not PromptStage.verify_cheating and known[stage])


def default_path() -> Path:
    return state_dir("calibration") / FILE_NAME


def read_calibration(path: Path) -> Calibration | None:
    if not path.is_file():
        return None
    try:
        found = Calibration.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise KernelwrightError(f"{path}: is not a calibration ({type(error).__name__}); remove it") from None
    return found if found.version == VERSION else None


def save_calibration(path: Path, calibration: Calibration) -> None:
    write_whole(path, f"{calibration.model_dump_json(indent=1)}\n".encode())


def _part(some: int, of: int) -> float | None:
    return some / of if of else None


# Accuracies published with robust-kbench, whose authors describe such verifiers; there is none for cheating.
PUBLISHED = {"verify-compilation": 0.82, "verify-memory": 0.80, "verify-numerics": 0.73}
FAULTY = 0.4  # of a generation's candidates, where no run tells how many
AT_ONCE = 8  # opinions on a generation are asked together, so that a candidate's share of the waiting is this part


@dataclass(frozen=True)
class CalibrationSettings:
    """What an evaluation takes here, what it is held to cost, and how many candidates have some fault."""

    evaluation_seconds: float
    evaluation_usd: float
    faulty: float = FAULTY


@dataclass
class _Tally:
    right_alarms: int = 0
    false_alarms: int = 0
    missed: int = 0
    right_passes: int = 0
    unanswered: int = 0
    seconds: float = 0.0
    usd: float | None = 0.0
    asked: int = field(default=0)

    def add(self, faulty: bool, answer: object) -> None:
        called = answer.called if isinstance(answer, CallFailed) else getattr(answer, "called", None)
        self.asked += 1
        if called is not None:
            self.seconds += called.seconds
            self.usd = None if self.usd is None or called.usd is None else self.usd + called.price
        value = getattr(answer, "value", None)
        if not isinstance(value, Review):
            self.unanswered += 1
        elif faulty:
            self.missed += value.passes
            self.right_alarms += not value.passes
        else:
            self.right_passes += value.passes
            self.false_alarms += not value.passes


def sampled_questions(labelled: Sequence[Labelled], most: int, seed: int) -> list[tuple[Labelled, PromptStage, bool]]:
    """At most so many questions for each verifier, half of them about faulty candidates where there are enough."""
    draw = random.Random(seed)
    chosen = []
    for stage in VERIFIERS:
        sides: dict[bool, list[Labelled]] = {True: [], False: []}
        for one in labelled:
            label = dict(one.labels).get(stage)
            if label is not None:
                sides[label].append(one)
        for faulty, ones in sides.items():
            draw.shuffle(ones)
            chosen += [(one, stage, faulty) for one in ones[: max(1, most // 2)]]
    return chosen


def measure_verifiers(
    models: Models,
    members: Members,
    questions: Sequence[tuple[Labelled, PromptStage, bool]],
    context: Callable[[str, str], PromptContext],
    seed: int,
) -> tuple[VerifierAccuracy, ...]:
    """Every member is asked every question once. `context` gives what prompts about a task and contract hold."""
    asks, about = [], []
    for one, stage, faulty in questions:
        view = context(one.task, one.candidate.contract).about(stage, shown_source(one.candidate))
        made = render(view)
        for member in members:
            own = derived_seed(seed, f"{stage} {one.candidate.id} {member}")
            asks.append(ModelCall(stage.value, made, own, member=member, answer=Review))
            about.append((stage, member, faulty))
    tallies: dict[tuple[PromptStage, str], _Tally] = defaultdict(_Tally)
    for (stage, member, faulty), answer in zip(about, models.ask_all(asks), strict=True):
        tallies[stage, member].add(faulty, answer)
    return tuple(_measured(stage, member, tally) for (stage, member), tally in sorted(tallies.items(), key=_order))


def _order(item: tuple[tuple[PromptStage, str], _Tally]) -> tuple[int, str]:
    (stage, member), _ = item
    return VERIFIERS.index(stage), member


def _measured(stage: PromptStage, member: str, tally: _Tally) -> VerifierAccuracy:
    asked = max(1, tally.asked)
    return VerifierAccuracy(
        verifier=stage.value,
        member=member,
        right_alarms=tally.right_alarms,
        false_alarms=tally.false_alarms,
        missed=tally.missed,
        right_passes=tally.right_passes,
        unanswered=tally.unanswered,
        seconds=tally.seconds / asked,
        usd=None if tally.usd is None else tally.usd / asked,
    )


def calibrated(measured: Sequence[VerifierAccuracy], settings: CalibrationSettings) -> Calibration:
    """Which verifiers pay, of those that were measured. `cheating` is asked of finalists whatever it costs."""
    pays, why = {}, {}
    for stage in VERIFIERS:
        if stage is PromptStage.verify_cheating:
            continue
        found = worth([one for one in measured if one.verifier == stage.value], settings)
        if found is not None:
            pays[stage.value], why[stage.value] = found
    return Calibration(measured=tuple(measured), evaluation_seconds=settings.evaluation_seconds, pays=pays, why=why)


def worth(found: Sequence[VerifierAccuracy], settings: CalibrationSettings) -> tuple[bool, str] | None:
    """Whether a verifier saves more of the judge's time than it loses and takes, per candidate and by the mean member.

    Saved: evaluations of faulty candidates that it holds back. Lost: evaluations of good ones that it holds back.
    None: it was not measured on both.
    """
    answered = [one for one in found if one.recall is not None and one.right_passes + one.false_alarms]
    if not answered:
        return None
    recall = sum(one.recall or 0.0 for one in answered) / len(answered)
    alarms = sum(one.false_alarms / (one.right_passes + one.false_alarms) for one in answered) / len(answered)
    net = settings.faulty * recall - (1 - settings.faulty) * alarms  # evaluations saved per candidate
    seconds = sum(one.seconds for one in answered) / len(answered) / AT_ONCE
    prices = [one.usd for one in answered]
    usd = None if None in prices else VOTES * sum(price or 0.0 for price in prices) / len(prices)
    summary = f"saves {net * settings.evaluation_seconds:.1f} s of judging a candidate and takes {seconds:.1f} s"
    if usd is not None and usd > max(0.0, net) * settings.evaluation_usd:
        return False, f"{summary}, but costs ${usd:.4f} where ${max(0.0, net) * settings.evaluation_usd:.4f} is saved"
    return net * settings.evaluation_seconds > seconds, summary
