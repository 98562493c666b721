"""What lint says about a task: a closed set of rules, each finding one line with its figure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error makes a task unfit to judge by; a warning weakens what it says; a note is for information."""

    error = "error"
    warning = "warning"
    note = "note"


class Rule(StrEnum):
    zeros_accepted = "zeros-accepted"
    constant_accepted = "constant-accepted"
    echo_accepted = "echo-accepted"
    nearly_constant = "nearly-constant"
    repeated = "repeated"
    mostly_constant = "mostly-constant"
    insensitive = "insensitive"
    dead_region = "dead-region"
    fixed_input = "fixed-input"
    dead_operations = "dead-operations"
    hidden_range = "hidden-range"
    fixed_size = "fixed-size"
    not_deterministic = "not-deterministic"
    slow_eager = "slow-eager"
    too_short = "too-short"
    unchecked_values = "unchecked-values"
    imported = "imported"


@dataclass(frozen=True)
class LintFinding:
    """`subject` is what it is about ("output y"); `figure` is the number that `message` rests on."""

    rule: Rule
    severity: Severity
    subject: str
    message: str
    figure: float

    def line(self, task: str) -> str:
        return f"{task}  {self.severity}  {self.rule}  {self.subject}: {self.message}"
