"""All rows of some trials in one table, and the standard errors of means over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch

from kernelwright.judge.oracle.errors.observations import STATISTICS, SUM, ULP, Observation


def on_cpu(seen: Sequence[Observation]) -> list[Observation]:
    """Observations whose figures can be read, all moved at the same time: a copy of each would wait for the device."""
    if not seen:
        return []
    lengths = [len(one.elements) for one in seen]
    moved = {
        part.name: torch.cat([getattr(one, part.name) for one in seen]).cpu().split_with_sizes(lengths)
        for part in fields(Observation)
        if part.name not in ("factored", "shares")
    }
    shares: list[dict[str, tuple[torch.Tensor, torch.Tensor]]] = [{} for _ in seen]
    for form in dict.fromkeys(form for one in seen for form in one.shares):
        holders = [number for number, one in enumerate(seen) if form in one.shares]
        sides = [torch.cat([seen[number].shares[form][side] for number in holders]).cpu() for side in (0, 1)]
        split = [side.split_with_sizes([lengths[number] for number in holders]) for side in sides]
        for number, held, whole in zip(holders, *split, strict=True):
            shares[number][form] = held, whole
    return [
        replace(one, shares=shares[number], **{name: parts[number] for name, parts in moved.items()})  # type: ignore[arg-type]
        for number, one in enumerate(seen)
    ]


@dataclass(frozen=True)
class RowTable:
    """All rows of some trials. Short ones are put together, across trials if need be."""

    elements: torch.Tensor
    weight: torch.Tensor
    candidate: torch.Tensor
    eager: torch.Tensor
    sequential: torch.Tensor
    factored: torch.Tensor

    @classmethod
    def of(cls, seen: Sequence[Observation]) -> RowTable:
        elements = torch.cat([one.elements for one in seen])
        factored = torch.cat([torch.full((len(one.elements),), one.factored) for one in seen])
        groups = _groups(elements.tolist(), STATISTICS.least_row)
        numbers = torch.tensor(groups)
        kept = numbers >= 0
        most = int(numbers.max()) + 1 if bool(kept.any()) else 0

        def together(parts: list[torch.Tensor]) -> torch.Tensor:
            rows = torch.cat(parts).double()[kept]
            return torch.zeros(most, *rows.shape[1:], dtype=torch.float64).index_add_(0, numbers[kept], rows)

        alone = torch.zeros(most, dtype=torch.int64).index_add_(0, numbers[kept], torch.ones_like(numbers[kept])) == 1
        whole = torch.zeros(most, dtype=torch.int64).index_add_(0, numbers[kept], factored[kept].long()) == 1
        return cls(
            together([one.elements for one in seen]),
            together([one.weight for one in seen]),
            together([one.candidate[:, :ULP] for one in seen]),
            together([one.eager[:, :ULP] for one in seen]),
            together([one.sequential[:, :ULP] for one in seen]),
            alone & whole,
        )

    def only_factored(self) -> RowTable:
        chosen = self.factored
        parts = (self.elements, self.weight, self.candidate, self.eager, self.sequential, self.factored)
        return RowTable(*(part[chosen] for part in parts))


def _groups(elements: Sequence[float], least: int) -> list[int]:
    """The number of the row that each row belongs to when short ones are put together; -1 where nothing counts."""
    numbers, number, filled = [], 0, 0.0
    for count in elements:
        if count <= 0:
            numbers.append(-1)
        elif count >= least:
            if filled:
                number, filled = number + 1, 0.0
            numbers.append(number)
            number += 1
        else:
            numbers.append(number)
            filled += count
            if filled >= least:
                number, filled = number + 1, 0.0
    return numbers


def mean_and_error(
    rows: torch.Tensor, elements: torch.Tensor, trials: Sequence[torch.Tensor], seen: Sequence[Observation]
) -> tuple[float, float]:
    """The mean of a yardstick's errors, and its standard error."""
    total = float(elements.sum())
    if total <= 0:
        return 0.0, 0.0
    mean = float(rows[:, SUM].sum()) / total
    sums, counts = _of_trials(trials), _of_trials([one.elements.unsqueeze(1) for one in seen])
    errors = (_error(rows[:, SUM] - mean * elements), _error(sums - mean * counts))
    return mean, max(errors) / total


def error_of_bias(table: RowTable, seen: Sequence[Observation]) -> float:
    """The standard error of a candidate's mean. A bias is in proportion to the reference, so that rows differ by it:
    what it explains is not random."""
    total, weight = float(table.elements.sum()), float(table.weight.sum())
    if total <= 0 or weight <= 0:
        return 0.0
    bias = float(table.candidate[:, SUM].sum()) / weight
    sums = _of_trials([one.candidate for one in seen])
    weights = _of_trials([one.weight.unsqueeze(1) for one in seen])
    return max(_error(table.candidate[:, SUM] - bias * table.weight), _error(sums - bias * weights)) / total


def _of_trials(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([part[:, SUM].sum() for part in parts]).double()


def _error(distances: torch.Tensor) -> float:
    """Of a sum of clusters, from how far each lies from what is expected of it."""
    clusters = len(distances)
    return math.sqrt(float(distances.square().sum()) * clusters / (clusters - 1)) if clusters > 1 else 0.0
