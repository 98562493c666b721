"""The controller: keeps an oracle and baselines up, and takes one candidate after another to a verdict.

It schedules and decides. It never loads candidate code and holds no answers; the stages are in `judging`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.registry import contract_named, fingerprint
from kernelwright.devices.names import Device
from kernelwright.errors import CannotDecide, JudgeOutOfMemory, MemoryEnded
from kernelwright.isolation import levels
from kernelwright.isolation.start import protect_this_process
from kernelwright.judge import certificate as certificates
from kernelwright.judge.evaluation import Evaluation
from kernelwright.judge.keys import candidate_key, judge_key
from kernelwright.judge.oracle_client import OpenTask, OracleLost
from kernelwright.judge.settings import ProgressCallback, Settings, ignore_progress
from kernelwright.judge.verdict import Verdict
from kernelwright.judge.workshop import Workshop
from kernelwright.tasks.loading import digest, unchanged


def workshop(device: Device, key: bytes, threads: int) -> Workshop:
    """What a device is judged with; each is imported where it is used."""
    if device.kind == "cpu":
        from kernelwright.judge.cpu.workshop import CpuWorkshop

        return CpuWorkshop(key, threads)
    from kernelwright.judge.gpu.workshop import GpuWorkshop

    return GpuWorkshop(device.index, key, threads)


class Judge:
    """Judges candidates one after another; the oracle and the baselines stay warm in between."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        protect_this_process()
        levels.demand(self.settings.isolation)  # before anything is started
        self._key = self.settings.key or judge_key()
        self._tasks: dict[str, OpenTask] = {}
        self._shop = self._start()
        self._shop.baselines.prepare(self.settings.baselines)
        self.restarts = 0

    def _start(self) -> Workshop:
        return workshop(self.settings.device, self._key, self.settings.threads)

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._shop.close()

    def restart(self) -> None:
        """A new oracle and new baselines, which know nothing yet."""
        self.close()
        self._tasks.clear()
        self._shop = self._start()
        self.restarts += 1

    def demand(self, settings: Settings) -> None:
        """Refuses where a process of some role reaches less than is demanded; on a GPU our own processes try it out."""
        levels.demand(settings.isolation, self._shop.isolation())
        self._shop.demand_memory(refuse_pageable=settings.refuse_pageable)

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self._tasks)

    def open(self, task: str) -> OpenTask:
        """Reads a task once, and again when its files have changed; a bad one is an error here and not a verdict."""
        known = self._tasks.get(task)
        if known is not None and not unchanged(known.sources):
            self.restart()
        if task not in self._tasks:
            try:
                self._tasks[task] = self._shop.oracle.open(task)
            except OracleLost:
                self.restart()
                self._tasks[task] = self._shop.oracle.open(task)
        return self._tasks[task]

    def judge(
        self,
        task: str,
        candidate: Candidate,
        progress: ProgressCallback = ignore_progress,
        settings: Settings | None = None,
    ) -> Verdict:
        """The verdict on one candidate. Raises only for what is the user's or the machine's fault."""
        chosen = settings or self.settings
        self.demand(chosen)
        try:
            judging, verdict = self._judge(task, candidate, progress, chosen)
        except OracleLost:
            progress("the oracle ended unexpectedly; starting another")
            self.restart()
            judging, verdict = self._judge(task, candidate, progress, chosen, last=True)
        except JudgeOutOfMemory:
            self.restart()  # whatever held the memory is gone: the next judging begins with all of it
            raise
        judging.report_use(verdict)
        if chosen.certify and chosen.replaying is None and not chosen.hidden_of:
            issued = certificates.issue(self._key, judging, verdict)
            verdict = verdict.model_copy(update={"certificate": certificates.store(issued)})
        if judging.memory_ended:  # what the judge holds itself would make it end again, and again
            self.restart()
        return verdict

    def expect(self, task: str, candidates: Iterable[Candidate], settings: Settings | None = None) -> None:
        """Candidates that are judged later, in this order: they are built beside what is judged before them. A task
        that is not open yet has to wait, and what cannot be judged at all is found out in its turn."""
        chosen, opened = settings or self.settings, self._tasks.get(task)
        if opened is None or chosen.replaying is not None or not unchanged(opened.sources):
            return
        for candidate in candidates:
            with suppress(CandidateError, CannotDecide):
                suits = contract_named(candidate.contract).device == self.settings.device.kind
                if suits and self._shop.may_build_ahead(candidate):
                    subkey = self._subkey(task, opened, candidate)
                    Evaluation(self._shop, chosen, opened, candidate, subkey).build_ahead()

    def _subkey(self, task: str, opened: OpenTask, candidate: Candidate) -> bytes:
        return candidate_key(self._key, digest(opened.sources), task, fingerprint(candidate))

    def _judge(
        self, task: str, candidate: Candidate, progress: ProgressCallback, settings: Settings, *, last: bool = False
    ) -> tuple[Evaluation, Verdict]:
        contract = contract_named(candidate.contract)
        if contract.device != self.settings.device.kind:
            raise CandidateError(
                f"{candidate.name}: a {contract.name} candidate runs on {contract.device}, and this judge is on "
                f"{self.settings.device}"
            )
        opened = self.open(task)
        replaying = settings.replaying
        subkey = replaying.subkey if replaying else self._subkey(task, opened, candidate)
        judging = Evaluation(self._shop, settings, opened, candidate, subkey)
        try:
            return judging, judging.run(progress)
        except CannotDecide as error:
            if isinstance(error, OracleLost):
                if not last:
                    raise
                self.restart()  # whatever this candidate does to oracles, the next one gets a sound one
            judging.memory_ended = isinstance(error, MemoryEnded)
            return judging, judging.undecided(str(error))
