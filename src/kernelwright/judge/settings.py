"""How to judge: what a caller chooses, and what a replay adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernelwright.devices.names import CPU, Device, Kind
from kernelwright.isolation.levels import Level, accepted
from kernelwright.judge.baseline_names import usual

if TYPE_CHECKING:
    from kernelwright.judge.oracle_client import FailingDraw
    from kernelwright.tasks.model import Workload

ProgressCallback = Callable[[str], None]
HIDDEN_PER_EVALUATION = 3
MOST_UPCOMING = 8  # candidates that a judge is told of ahead: more than it builds at a time are of no use
DOMAIN_SECONDS: dict[Kind, float] = {"cpu": 40.0, "cuda": 5.0}  # for a domain check; points that are left are dropped


def ignore_progress(_: str) -> None:
    return None


@dataclass(frozen=True)
class Sampling:
    """How many blocks are run: `least` always, then more until the baseline agrees with itself, up to `most` blocks
    or until `seconds` have gone by.

    What decides is the baseline's noise: a candidate must not choose its own sample size. One exception: where the
    speedup's interval is too wide then, the sample is doubled, once, so that there are two sizes it can get and no
    more.
    """

    least: int = 12
    most: int = 160
    step: int = 6
    seconds: float = 15.0


@dataclass(frozen=True)
class ReplaySettings:
    """What a replay takes from a certificate instead of drawing it anew. `subkey` is drawn for the replay: who signed
    the certificate must not foresee its values. `own_hidden` counts hidden workloads of this judge's key beside the
    certificate's."""

    subkey: bytes
    hidden: tuple[Workload, ...]
    lighter: tuple[Workload, ...] = ()
    failed_on: str | None = None  # the label of the workload to which the witness belongs
    failing_draw: FailingDraw | None = None
    checks: bytes | None = None  # the key of the domain check's points
    own_hidden: int = 0


@dataclass(frozen=True)
class Settings:
    """How to judge. The defaults are what a claim needs.

    `isolation` is the lowest level that is accepted. With `refuse_pageable` a GPU whose kernels can reach the host
    memory of their own process is refused. `device`, `threads` and `key` belong to a judge and stay with it; the rest
    may differ from candidate to candidate.
    """

    baselines: tuple[str, ...] = usual("cpu")
    threads: int = 0  # 0: as many as there are cores to use
    effort: Sampling = field(default_factory=Sampling)
    public_only: bool = False
    safety: bool = True
    domain: bool = True  # check the whole declared domain, untimed; without it a candidate is never best
    profile: bool = False  # advice for authors, where the device has a profiler; a verdict never depends on it
    hidden_of: str = ""  # fingerprint of a candidate to compare with, on whose hidden workloads; certifies nothing
    certify: bool = False
    key: bytes | None = None
    replaying: ReplaySettings | None = None
    device: Device = CPU
    isolation: Level = field(default_factory=accepted)
    refuse_pageable: bool = False

    @property
    def checks_domain(self) -> bool:
        """The points are hidden workloads, which `public_only` leaves out."""
        return self.domain and not self.public_only
