"""What a public certificate says, in words for a README."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelwright.export.public import HiddenAggregate, PublicDomain, PublicWorkload
from kernelwright.judge.verdict import ErrorReport, SpeedStatus


def sizes(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in found.items())


def times(workload: PublicWorkload) -> str:
    best = min(workload.baselines, key=lambda one: one.speedup.low, default=None)
    if workload.speed is not SpeedStatus.measured or best is None or workload.seconds is None:
        return f"speed undecided ({workload.speed.value})"
    interval = f"[{best.speedup.low:.2f}, {best.speedup.high:.2f}]"
    return f"{_seconds(workload.seconds)}, **{best.speedup.low:.2f}×** over {best.baseline} {interval}"


def _seconds(value: float) -> str:
    return f"{value * 1e6:.1f} µs" if value < 1e-3 else f"{value * 1e3:.2f} ms"


def hidden(found: HiddenAggregate) -> str:
    if found.least_speedup is None:
        return "none was timed"
    return f"{found.faster} of {found.timed} faster, at least {found.least_speedup:.2f}×"


def domain(found: PublicDomain) -> str:
    ranges = ", ".join(f"{name} from {low} to {high}" for name, (low, high) in found.sizes.items())
    if found.points is None:
        return f"at the timed workloads; the rest of the declared domain ({ranges}) was not checked."
    special = f", and special values ({', '.join(found.special_values)})" if found.special_values else ""
    without = f"; without {', '.join(found.opted_out)}" if found.opted_out else ""
    return f"checked at {found.points} points ({found.calls} calls) all over {ranges}{special}{without}."


def errors(found: Sequence[ErrorReport]) -> str:
    if not found:
        return "not reported."
    return "; ".join(
        f"{one.result}: at most {one.ulp:.1f} units in the last place (PyTorch {one.eager_ulp:.1f}), "
        f"{one.share:.0%} of the tolerance"
        for one in found
    )


FILTERS: dict[str, Callable[..., Any]] = {
    "sizes": sizes,
    "times": times,
    "hidden": hidden,
    "domain": domain,
    "errors": errors,
}
