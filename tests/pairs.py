"""The exploit pairs of tests/exploits: what each tries, and what became of it. Used by tests and benchmarks."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.contracts.candidate import Candidate, read_candidate
from kernelwright.judge.controller import Judge
from kernelwright.judge.settings import Settings
from kernelwright.judge.timing.measure import Sampling
from kernelwright.judge.verdict import Outcome, SpeedStatus, Verdict

EXPLOITS = Path(__file__).parent / "exploits"
UNDECIDED_GAIN = 1.5
LOADED = 3  # more judgings of a pair, where speeds are undecided
NEEDS_FULL_SIZE = ("assume_", "race_")  # they sample, or must overlap
EFFORT = Sampling(least=6, most=6)
WHOLE = Settings(baselines=(), effort=EFFORT)  # with the check of the whole domain
RIGHT = Settings(baselines=(), effort=EFFORT, domain=False)
FAST = Settings(baselines=("eager",), effort=EFFORT, public_only=True)


@dataclass(frozen=True)
class Pair:
    """An exploit that must earn nothing and an honest twin that must be accepted."""

    name: str
    threats: tuple[int, ...]
    task: str
    claim: str
    reasons: tuple[str, ...]  # empty: it may be accepted, but must not be faster than its twin
    exploit: Path
    twin: Path
    slow: bool
    domain: bool = False  # wrong at some sizes or values, or by a little, and so judged in full


def table() -> dict[str, dict[str, Any]]:
    """What exploits.toml says of each exploit, by name."""
    return tomllib.loads((EXPLOITS / "exploits.toml").read_text())


def pairs() -> list[Pair]:
    return [_pair(name, about) for name, about in table().items()]


def _pair(name: str, about: dict[str, Any]) -> Pair:
    threats = about["threat"] if isinstance(about["threat"], list) else [about["threat"]]
    return Pair(
        name=name,
        threats=tuple(threats),
        task=about["task"],
        claim=about["claim"],
        reasons=tuple(about.get("reasons", ())) if about["expect"] == "rejected" else (),
        exploit=EXPLOITS / f"{name}.cpp",
        twin=EXPLOITS / f"{about.get('twin', name)}.twin.cpp",
        slow=bool(about.get("slow", False)),
        domain=bool(about.get("domain", False)),
    )


class Bench:
    """Judges sources once each: many exploits share a twin.

    Where an exploit must be rejected the size does not matter, and small workloads will do. Where it may be accepted
    it is compared with its twin by speed, on the public workloads, which are long enough to rank.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._known: dict[tuple[str, str, bool], Verdict] = {}

    def verdict(self, pair: Pair, path: Path, *, afresh: bool = False) -> Verdict:
        candidate: Candidate = read_candidate(path, "cpp")
        by_speed = not pair.reasons
        task = pair.task if by_speed else _sized(pair)
        key = (task, candidate.id, by_speed)
        if afresh or key not in self._known:
            right = WHOLE if pair.domain else RIGHT
            self._known[key] = self._judge.judge(task, candidate, settings=FAST if by_speed else right)
        return self._known[key]


@contextmanager
def exploit_bench() -> Iterator[Callable[[], Bench]]:
    """A judge, and a way to make benches that remember nothing of each other."""
    with Judge(RIGHT) as judge:
        yield lambda: Bench(judge)


def _sized(pair: Pair) -> str:
    name, colon, direction = pair.task.partition(":")
    small = EXPLOITS / ("wide" if pair.domain else "small") / f"{name}.py"
    if not small.exists() or pair.name.startswith(NEEDS_FULL_SIZE):
        return pair.task
    return f"{small}{colon}{direction}"


def complaint(pair: Pair, bench: Bench) -> str | None:
    """What is wrong with the outcome of a pair, or None if it is as it must be."""
    exploit = bench.verdict(pair, pair.exploit)
    twin = bench.verdict(pair, pair.twin)
    if twin.verdict is not Outcome.accepted:
        return f"the honest twin is {twin.verdict}: {twin.reason} {twin.evidence}"
    if exploit.verdict is Outcome.undecided:
        return f"undecided: {exploit.evidence}"
    if exploit.verdict is Outcome.rejected:
        if pair.reasons and exploit.reason not in pair.reasons:
            return f"rejected for {exploit.reason}, expected {' or '.join(pair.reasons)}: {exploit.evidence}"
        return None
    if pair.reasons:
        return f"accepted, expected rejected for {' or '.join(pair.reasons)}"
    gain = faster_than_twin(exploit, twin)
    for _ in range(LOADED):  # a gain is there every time; noise on a loaded machine comes and goes
        if gain is None or _measured(exploit, twin):
            break
        exploit, twin = (bench.verdict(pair, path, afresh=True) for path in (pair.exploit, pair.twin))
        if Outcome.rejected in (exploit.verdict, twin.verdict):
            return f"accepted, and then {exploit.verdict} (its twin: {twin.verdict})"
        gain = faster_than_twin(exploit, twin)
    return gain


def _measured(*verdicts: Verdict) -> bool:
    return all(result.speed is SpeedStatus.measured for verdict in verdicts for result in verdict.workloads)


def faster_than_twin(exploit: Verdict, twin: Verdict) -> str | None:
    """An exploit's claim (its lower bound) may not lie above what its twin can be (its upper bound).

    Where the judge leaves the speed undecided, of either, there is no claim, and on a loaded machine the few trials of
    this test scatter; then only a gain that no noise explains counts.
    """
    for cheat, honest in zip(exploit.workloads, twin.workloads, strict=True):
        low = min(b.speedup.low for b in cheat.baselines)
        high = min(b.speedup.high for b in honest.baselines)
        told = cheat.speed is honest.speed is SpeedStatus.measured
        if low > high * (1.0 if told else UNDECIDED_GAIN):
            return f"on {cheat.label} it claims {low:.2f}x, above its twin's {high:.2f}x"
    return None
