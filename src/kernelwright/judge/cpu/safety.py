"""The sanitizers: a candidate rebuilt with AddressSanitizer and UBSan, run once on fresh values in its own sandbox."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from kernelwright.errors import CannotDecide
from kernelwright.isolation.log import shown_lines
from kernelwright.isolation.native import program
from kernelwright.isolation.warden import Ending, Reply, WardedProcess
from kernelwright.judge.cpu.runner import SANITIZER_EXIT
from kernelwright.judge.oracle_client import OracleClient, WorkloadSpec
from kernelwright.judge.timing.measure import DEADLINE, Clock, Measurement, Rejected, Rejection
from kernelwright.judge.verdict import ProcessEvidence, Reason, SanitizerEvidence, Stage

LINES = 24
UNTIMED = Clock("cpu")
_REPORT = re.compile(r"ERROR: AddressSanitizer|runtime error:|AddressSanitizer:DEADLYSIGNAL")


@dataclass(frozen=True)
class SourceFiles:
    """The files that a report may name: the author's, and all that were compiled."""

    authored: tuple[str, ...]
    compiled: tuple[str, ...]

    def name_in(self, line: str) -> bool:
        """Whether a line of a report is about the author's code."""
        return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", line) for name in self.authored)

    def shown(self, text: str) -> list[str]:
        return shown_lines(text, (*self.authored, *self.compiled))


@cache
def sanitizers_available() -> bool:
    """Whether the compiler brings its sanitizers' libraries; a minimal installation may not."""
    try:
        program("runner-sanitized")
    except CannotDecide:
        return False
    return True


def inspect(
    runner: WardedProcess,
    spec: WorkloadSpec,
    oracle: OracleClient,
    *,
    files: SourceFiles,
    prepare: bool,
    deadline: float,
    calls: int = 1,
    then: Callable[[], None] | None = None,
) -> Rejection | None:
    """Calls under the sanitizers, each within `deadline` seconds. Their report is evidence; a wrong result or an early
    end is one too. `then` begins another workload that the runner has, for one more call, which is not checked."""
    ready = runner.ready()
    if ready.ending is not Ending.ok:
        return _rejection(runner, spec, ready, Stage.load, files)
    measurement = Measurement(oracle, spec, runner, {}, {"sanitized": deadline / DEADLINE}, UNTIMED, random.Random(0))
    family = oracle.load()  # only now, when it is stopped
    try:
        if prepare:
            measurement.call(family, op="p")
        measurement.call(family)
        for _ in range(calls - 1):
            measurement.call(oracle.load())
        if then is not None:
            then()
            measurement.call(oracle.load(), op="1")
    except Rejected as rejected:
        if isinstance(rejected.rejection.evidence, ProcessEvidence) and _report(runner):
            return Rejection(Stage.safety, Reason.unsafe, _evidence(runner, spec, files))
        return rejected.rejection
    if _report(runner):  # a candidate may have talked the sanitizer out of ending its process
        return Rejection(Stage.safety, Reason.unsafe, _evidence(runner, spec, files))
    return None


def _rejection(runner: WardedProcess, spec: WorkloadSpec, reply: Reply, stage: Stage, files: SourceFiles) -> Rejection:
    if _report(runner) or (reply.ending, reply.value) == (Ending.exited, SANITIZER_EXIT):
        return Rejection(Stage.safety, Reason.unsafe, _evidence(runner, spec, files))
    reason = Reason.timed_out if reply.ending is Ending.timeout else Reason.does_not_load
    output = tuple(runner.log.text().strip().splitlines()[-LINES:])
    evidence = ProcessEvidence(workload=spec.workload.label, trial=0, ending=reply.describe(), output=output)
    return Rejection(stage, reason, evidence)


def _report(runner: WardedProcess) -> bool:
    return bool(_REPORT.search(runner.log.text()))


def _evidence(runner: WardedProcess, spec: WorkloadSpec, files: SourceFiles) -> SanitizerEvidence:
    """The report's own lines that name the fault and the candidate's code."""
    lines = files.shown(runner.log.text())
    telling = [line for line in lines if _REPORT.search(line) or files.name_in(line) or "SUMMARY" in line]
    return SanitizerEvidence(workload=spec.workload.label, lines=tuple(telling[:LINES] or lines[:LINES]))
