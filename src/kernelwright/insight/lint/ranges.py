"""Rules about hidden workloads: there must be enough of them, and none of their sizes known in advance."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kernelwright.insight.lint.finding import Finding, Rule, Severity
from kernelwright.tasks.model import Task

POOL = 16  # as many as the judge draws
SUBJECT = "hidden ranges"


def range_findings(task: Task) -> Iterator[Finding]:
    ranges = dict(task.hidden)
    points = math.prod(high - low + 1 for low, high in ranges.values())
    public = {tuple(sorted(sizes.items())) for sizes in task.public}
    inside = sum(all(ranges[name][0] <= size <= ranges[name][1] for name, size in point) for point in public)
    if points - inside < POOL:
        message = f"hold {points - inside} workloads that are not public (needed: {POOL})"
        yield Finding(Rule.hidden_range, Severity.error, SUBJECT, message, float(points - inside))
        return
    for name, (low, high) in ranges.items():
        shown = {sizes[name] for sizes in task.public}
        unseen = sum(value not in shown for value in range(low, min(high, low + len(shown)) + 1))
        if low == high:
            message = f"is always {low} (a kernel may count on it)"
            yield Finding(Rule.fixed_size, Severity.note, f"size {name}", message, float(low))
        elif not unseen:
            message = f"has {high - low + 1} hidden values, all of them public (needed: others)"
            yield Finding(Rule.fixed_size, Severity.warning, f"size {name}", message, float(high - low + 1))
