"""Rules about arguments: each must matter, and each half of each tensor, or a kernel may leave it out.

An argument matters if for at least one family changing it gives results that the judge would reject. Tensors are
drawn again, whole and in parts; what the forward pass saved for a backward is computed again from the changed inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from kernelwright.insight.lint.finding import LintFinding, Rule, Severity
from kernelwright.insight.lint.trials import Trial
from kernelwright.tasks.declarations import Input, Saved, Scalar, Upstream
from kernelwright.tasks.model import Task, TaskError
from kernelwright.tasks.reference import Argument, guarded, prepared, run_reference

Change = tuple[str, Argument]


def argument_findings(task: Task, trials: Sequence[Trial]) -> Iterator[LintFinding]:
    """`trials`: one for each family, all of one workload."""
    for name, declared in task.inputs.items():
        if isinstance(declared, Saved):  # a derived gradient need not look at what was saved
            continue
        if isinstance(declared, bool | int | float):
            if task.traced:  # the number is written into the graph, and a kernel is only told it
                continue
            yield from _scalar_findings(task, trials, name, declared)
        elif _fixed(trials, name):
            yield _fixed_finding(task, trials, name)
        else:
            yield from _tensor_findings(task, trials, name)


def _scalar_findings(task: Task, trials: Sequence[Trial], name: str, value: Scalar) -> Iterator[LintFinding]:
    others = alternatives(value)
    changes = [[(name, other) for other in others] for _ in trials]
    if not _matters(task, trials, changes):
        shown = ", ".join(f"{other:g}" for other in others)
        message = f"{shown} instead of {value:g} go unnoticed on {len(trials)} of {len(trials)} families"
        yield LintFinding(Rule.insensitive, _severity(task, name), f"scalar {name}", message, 1.0)


def alternatives(value: Scalar) -> tuple[Scalar, ...]:
    """What a careless kernel would use: nothing at all, or a wrong power of two."""
    if isinstance(value, bool):
        return (not value,)
    if value == 0:
        return (1, -1) if isinstance(value, int) else (1.0, 1e-3)
    return (0, value + 1, 2 * value) if isinstance(value, int) else (0.0, value / 2, 2 * value)


def _tensor_findings(task: Task, trials: Sequence[Trial], name: str) -> Iterator[LintFinding]:
    subject, severity = f"input {name}", _severity(task, name)
    families = f"{len(trials)} of {len(trials)} families"
    if not _matters(task, trials, [_redrawn(trial, name, None) for trial in trials]):
        message = f"other values go unnoticed on {families}"
        yield LintFinding(Rule.insensitive, severity, subject, message, 1.0)
        return
    masks = parts(_tensor(trials[0].drawn.inputs, name).shape)
    dead = [
        part
        for part, mask in masks.items()
        if not _matters(task, trials, [_redrawn(trial, name, mask) for trial in trials])
    ]
    if dead:
        message = f"other values in {' and in '.join(dead)} go unnoticed on {families}"
        share = max(float(masks[part].float().mean()) for part in dead)
        yield LintFinding(Rule.dead_region, severity, subject, message, share)


def parts(shape: Sequence[int]) -> dict[str, torch.Tensor]:
    """Masks of the halves along each axis, and of its even and odd places."""
    found: dict[str, torch.Tensor] = {}
    for axis, size in enumerate(shape):
        if size < 2:
            continue
        place = torch.arange(size).view(-1, *(1 for _ in shape[axis + 1 :])).expand(tuple(shape))
        found[f"the first half of axis {axis}"] = place < size // 2
        found[f"the second half of axis {axis}"] = place >= size // 2
        if size >= 4:
            found[f"the even places of axis {axis}"] = place % 2 == 0
            found[f"the odd places of axis {axis}"] = place % 2 == 1
    return found


def _redrawn(trial: Trial, name: str, mask: torch.Tensor | None) -> list[Change]:
    value = _tensor(trial.drawn.inputs, name)
    others = [_tensor(other.inputs, name) for other in trial.others]
    return [(name, other if mask is None else torch.where(mask, other, value)) for other in others]


def _matters(task: Task, trials: Sequence[Trial], changes: Sequence[Sequence[Change]]) -> bool:
    return any(_noticed(task, trial, change) for trial, each in zip(trials, changes, strict=True) for change in each)


def _noticed(task: Task, trial: Trial, change: Change) -> bool:
    """A reference that raises for the changed value has noticed it."""
    name, value = change
    try:
        inputs = _again_saved(task, {**trial.drawn.inputs, name: value})
        return trial.noticed(run_reference(task, inputs))
    except TaskError:
        return True


def _again_saved(task: Task, inputs: dict[str, Argument]) -> dict[str, Argument]:
    for name, declared in task.inputs.items():
        if isinstance(declared, Saved):
            forward = declared.forward
            given = prepared(forward, {argument: inputs[argument] for argument in forward.inputs})
            kept = guarded(forward, f"saved[{name!r}] raised", declared.function, *given.values())
            inputs[name] = kept.detach().contiguous()
    return inputs


def _fixed(trials: Sequence[Trial], name: str) -> bool:
    """Every draw gives the same values, so that drawing again changes nothing."""
    draws = [drawn.inputs for trial in trials for drawn in (trial.drawn, *trial.others)]
    first = _tensor(draws[0], name)
    return all(torch.equal(_tensor(draw, name), first) for draw in draws[1:])


def _fixed_finding(task: Task, trials: Sequence[Trial], name: str) -> LintFinding:
    value = _tensor(trials[0].drawn.inputs, name)
    flat = value.reshape(-1)
    subject = f"input {name}"
    if bool((flat == flat[0]).all()):
        message = f"every value of every draw is {flat[0].item():g} (a kernel may leave it out)"
        return LintFinding(Rule.fixed_input, Severity.error, subject, message, float(flat[0]))
    message = f"every draw gives the same {flat.numel()} values (a kernel may contain them)"
    severity = Severity.note if name in task.constant else Severity.warning
    return LintFinding(Rule.fixed_input, severity, subject, message, float(flat.numel()))


def _severity(task: Task, name: str) -> Severity:
    """A backward receives all that its forward did, needed or not, and its author cannot change that."""
    declared: Input = task.inputs[name]
    inherited = task.direction == "backward" and not isinstance(declared, Upstream)
    return Severity.note if inherited else Severity.error


def _tensor(inputs: Mapping[str, Argument], name: str) -> torch.Tensor:
    value = inputs[name]
    assert isinstance(value, torch.Tensor)
    return value
