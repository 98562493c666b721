"""A run's directory, for a person with ls and cat. Made from the journal, and made again from it when a run goes on.

    journal.db                    everything that happened
    journal.origin                by which this installation knows that it began the run
    candidates/0001-NAME/         kernel.cpp (or kernel.cu and plan.py), about.json, verdict.json;
                                  prompt.md and answer.md where a person or a model was asked
    best/                         the same files of the best; missing until a candidate has won a final
    summary.md                    where the run stands

Verdicts are the author's view, because a proposer may read all of this.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.registry import contract_named
from kernelwright.errors import NO_SPACE, DiskFull, KernelwrightError
from kernelwright.search.core.events import Abandoned, Answered, Evaluated, Event, FinalHeld, Planned, Proposed, Stopped
from kernelwright.search.core.state import Entry, State
from kernelwright.search.summary import summary

BEST, CANDIDATES, SUMMARY = "best", "candidates", "summary.md"


class Directory:
    """A watcher of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, event: Event, state: State) -> None:
        with _one_line(self.folder):
            self._saw(event, state)

    def restore(self, state: State) -> None:
        """What a crash left unwritten is written now, and what it left half-written is taken away."""
        with _one_line(self.folder):
            self._restore(state)

    def _saw(self, event: Event, state: State) -> None:
        match event:
            case Proposed():
                self._proposed(state.entries[event.number])
            case Evaluated() | Abandoned():
                self._judged(state.entries[event.number])
                self._told(state)
            case Planned() | Answered():
                self._told(state)
            case FinalHeld():
                self._judged(state.entries[event.challenger])
                if event.best is not None:
                    self._about(state.entries[event.best])
                if event.won or event.best_rejected:
                    self._best(state)
                self._summary(state)
            case Stopped():
                self._summary(state)

    def _told(self, state: State) -> None:
        """A person who writes answers reads at once what became of the last one; others can wait for the next final."""
        if not state.run.lockstep:
            self._summary(state)

    def _restore(self, state: State) -> None:
        for half in self.folder.glob(".best-*"):
            shutil.rmtree(half)
        for entry in state.entries.values():
            self._proposed(entry)
            self._judged(entry)
        self._best(state)
        self._summary(state)

    def _best(self, state: State) -> None:
        if state.best is not None:
            self._write_best(state.entries[state.best])
        else:
            self._remove_best()

    def of(self, entry: Entry) -> Path:
        candidate = entry.proposal.candidate
        words = re.sub(r"[^A-Za-z0-9_.]+", "-", _without_suffix(candidate)).strip("-.")
        name = words[:40]
        return self.folder / CANDIDATES / (f"{entry.number:04d}-{name}" if name else f"{entry.number:04d}")

    def _proposed(self, entry: Entry) -> None:
        place = self.of(entry)
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files(entry.proposal.candidate):
            _write(place / name, text)
        if entry.proposal.prompt:
            _write(place / "prompt.md", entry.proposal.prompt)
        if entry.proposal.answer:
            _write(place / "answer.md", entry.proposal.answer)
        self._about(entry)

    def _judged(self, entry: Entry) -> None:
        if entry.verdict is not None:
            _write(self.of(entry) / "verdict.json", entry.verdict.model_dump_json(indent=1) + "\n")
        self._about(entry)

    def _about(self, entry: Entry) -> None:
        proposal = entry.proposal
        about = {
            "number": entry.number,
            "candidate": proposal.candidate.id,
            "name": proposal.candidate.name,
            "origin": proposal.origin,
            "note": proposal.note,
            "genes": dict(proposal.genes),
            "parents": list(proposal.parents),
            "island": entry.island,
            "standing": entry.standing.value,
            "score": entry.score,
            "estimate": entry.estimate,
            "chosen": entry.chosen,
            "niche": dataclasses.asdict(entry.niche),
            "why": entry.why,
            "certificates": list(entry.certificates),
        }
        _write(self.of(entry) / "about.json", json.dumps(about, indent=1) + "\n")

    def _write_best(self, entry: Entry) -> None:
        """The old best gives way in one step, so that there is never half of one."""
        new = Path(tempfile.mkdtemp(dir=self.folder, prefix=".best-"))
        try:
            new.chmod(0o755)
            for path in self.of(entry).iterdir():
                if path.is_file():  # whatever else lies there is not ours
                    shutil.copyfile(path, new / path.name)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            raise
        old = self.folder / BEST
        if old.exists():
            shutil.rmtree(old)
        new.rename(old)

    def _remove_best(self) -> None:
        if (self.folder / BEST).exists():
            shutil.rmtree(self.folder / BEST)

    def _summary(self, state: State) -> None:
        _write(self.folder / SUMMARY, summary(state))


@contextmanager
def _one_line(folder: Path) -> Iterator[None]:
    """A full disk is the user's to put right; the journal has what could not be written here."""
    try:
        yield
    except OSError as error:
        kind = DiskFull if error.errno in NO_SPACE else KernelwrightError
        raise kind(
            f"{error.filename or folder}: {error.strerror}; fix that, and continue with --resume {folder}"
        ) from error


def _without_suffix(candidate: Candidate) -> str:
    suffixes = contract_named(candidate.contract).suffixes
    return next((candidate.name.removesuffix(one) for one in suffixes if candidate.name.endswith(one)), candidate.name)


def files(candidate: Candidate) -> Iterable[tuple[str, str]]:
    """A candidate's source as its author would keep it."""
    contract = contract_named(candidate.contract)
    try:
        return contract.split(candidate.source)
    except CandidateError:
        return [(contract.source_name, candidate.source)]


def _write(path: Path, text: str) -> None:
    """Whole or not at all for a reader. Not brought to the disk: the journal is, and this can be made again."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
