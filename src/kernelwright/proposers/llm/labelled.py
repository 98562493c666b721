"""Candidates with known faults: exploits and their honest twins, injected defects, past verdicts.

They calibrate verifiers. Each injector changes one place of an honest source and says which verifier should notice; it
gives None where it finds nothing to change.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.registry import contract_named, read_source
from kernelwright.errors import KernelwrightError
from kernelwright.judge.verdict import AuthorVerdict, Outcome, Reason
from kernelwright.proposers.llm.view import VERIFIERS, PromptStage
from kernelwright.tasks.resolve import builtin_names

Injection = Callable[[str, random.Random], str | None]
_LOOP = re.compile(r"(for\s*\([^;{}]{0,400};[^;<>=]{0,400})<(?![=<])([^;]{0,400};)")
_STATEMENT = re.compile(r"(?<=[\w)\]]);(?=[ \t]*\n)")
_CALL = re.compile(r"\b(?:sqrtf?|expf?|rsqrtf|fmaxf?|tanhf?|logf?|exp|log)\(")
_SUM = re.compile(r"(?<![\w.])(\w+(?:\[\w+\])?)[ \t]*\+=[ \t]*")
_STEP = re.compile(r"\[(\w+)\](?=[ \t]*=[^=])")
_TERM = re.compile(r"(?<![ \t])[ \t]*\+[ \t]*(?:static_cast<float>\()?eps\)?")
_SYNC = re.compile(r"^[ \t]*__syncthreads\(\);[ \t]*\n", re.M)


def _one(pattern: re.Pattern[str], source: str, draw: random.Random, new: Callable[[re.Match[str]], str]) -> str | None:
    """One random match, replaced."""
    found = list(pattern.finditer(source))
    if not found:
        return None
    match = draw.choice(found)
    return source[: match.start()] + new(match) + source[match.end() :]


def _no_semicolon(source: str, draw: random.Random) -> str | None:
    return _one(_STATEMENT, source, draw, lambda match: "")


def _unknown_name(source: str, draw: random.Random) -> str | None:
    return _one(_SUM, source, draw, lambda match: f"undeclared_total += {match[1]} + ")


def _no_brace(source: str, draw: random.Random) -> str | None:
    end = source.rstrip().rfind("}")
    return source[:end] + source[end + 1 :] if end >= 0 else None


def _one_too_far(source: str, draw: random.Random) -> str | None:
    return _one(_LOOP, source, draw, lambda match: f"{match[1]}<={match[2]}")


def _next_element(source: str, draw: random.Random) -> str | None:
    return _one(_STEP, source, draw, lambda match: f"[{match[1]} + 1]")


def _no_barrier(source: str, draw: random.Random) -> str | None:
    return _one(_SYNC, source, draw, lambda match: "")


def _overwritten_sum(source: str, draw: random.Random) -> str | None:
    return _one(_SUM, source, draw, lambda match: f"{match[1]} = ")


def _no_eps(source: str, draw: random.Random) -> str | None:
    return _one(_TERM, source, draw, lambda match: "")


def _other_function(source: str, draw: random.Random) -> str | None:
    return _one(_CALL, source, draw, lambda match: f"1.01f * {match[0]}")


@dataclass(frozen=True)
class Injector:
    name: str
    breaks: PromptStage
    mutate: Injection


INJECTORS = (
    Injector("a statement without its semicolon", PromptStage.verify_compilation, _no_semicolon),
    Injector("a name that is declared nowhere", PromptStage.verify_compilation, _unknown_name),
    Injector("a block that is never closed", PromptStage.verify_compilation, _no_brace),
    Injector("a loop that goes one too far", PromptStage.verify_memory, _one_too_far),
    Injector("a write to the next element", PromptStage.verify_memory, _next_element),
    Injector("a missing barrier", PromptStage.verify_memory, _no_barrier),
    Injector("a sum that is overwritten", PromptStage.verify_numerics, _overwritten_sum),
    Injector("eps left out", PromptStage.verify_numerics, _no_eps),
    Injector("a function that is a hundredth too large", PromptStage.verify_numerics, _other_function),
)


def inject(candidate: Candidate, injector: Injector, seed: int) -> Candidate | None:
    """The candidate with one defect, in its kernels and in no other file."""
    draw = random.Random(f"{seed} {injector.name} {candidate.id}")
    contract = contract_named(candidate.contract)
    try:
        files = dict(contract.split(candidate.source))
    except CandidateError:
        return None
    kernel = injector.mutate(files[contract.source_name], draw)
    if kernel is None or kernel == files[contract.source_name]:
        return None
    source = contract.join({**files, contract.source_name: kernel})
    return Candidate(candidate.contract, source, f"{candidate.name}: {injector.name}")


# Which verifier should have foreseen a rejection. What is not here says nothing about any of them.
FORESEEN = {
    Reason.does_not_build: PromptStage.verify_compilation,
    Reason.launch_failed: PromptStage.verify_compilation,
    Reason.crashed: PromptStage.verify_memory,
    Reason.illegal_access: PromptStage.verify_memory,
    Reason.wrote_outside: PromptStage.verify_memory,
    Reason.unwritten: PromptStage.verify_memory,
    Reason.dirty_workspace: PromptStage.verify_memory,
    Reason.unsafe: PromptStage.verify_memory,
    Reason.wrong: PromptStage.verify_numerics,
    Reason.imprecise: PromptStage.verify_numerics,
    Reason.nan_or_inf: PromptStage.verify_numerics,
}


@dataclass(frozen=True)
class Labelled:
    """`labels`: for each verifier that has something to say of it, whether it has that fault."""

    task: str
    candidate: Candidate
    labels: tuple[tuple[PromptStage, bool], ...]
    origin: str


def honest(task: str, candidate: Candidate, origin: str) -> Labelled:
    return Labelled(task, candidate, tuple((stage, False) for stage in VERIFIERS), origin)


def from_pairs(folder: Path) -> list[Labelled]:
    """A folder with exploits.toml and a NAME.cpp and NAME.twin.cpp for each of its sections, as tests/exploits is one.
    An exploit may name another whose twin is its own too; a task of their own is a file in `small` or `wide`."""
    found: list[Labelled] = []
    twins: set[str] = set()
    table = folder / "exploits.toml"
    abouts = tomllib.loads(table.read_text(encoding="utf-8")) if table.is_file() else {}
    if not abouts:
        raise KernelwrightError(f"{folder}: has no pairs; each is NAME.cpp, NAME.twin.cpp and [NAME] in exploits.toml")
    for name, about in sorted(abouts.items()):
        exploit = read_source(folder / f"{name}.cpp")
        task = _task_of(folder, about["task"])
        found.append(Labelled(task, exploit, _exploit_labels(about), f"exploit {name}"))
        twin = read_source(folder / f"{about.get('twin', name)}.twin.cpp")
        if twin.id not in twins:
            twins.add(twin.id)
            found.append(honest(task, twin, f"twin of {name}"))
    return found


def _task_of(folder: Path, name: str) -> str:
    own = (folder / kind / f"{name}.py" for kind in ("small", "wide"))
    return name if name in builtin_names() else next((str(path) for path in own if path.is_file()), name)


def _exploit_labels(about: dict[str, object]) -> tuple[tuple[PromptStage, bool], ...]:
    """A cheat; and a fault of another kind where every reason of its rejection is of that kind."""
    reasons = about.get("reasons", [])
    kinds = {FORESEEN.get(Reason(reason)) for reason in reasons} if isinstance(reasons, list) else set()
    extra = ((kind, True) for kind in kinds if kind is not None and len(kinds) == 1)
    return ((PromptStage.verify_cheating, True), *extra)


def from_injection(sources: Iterable[Labelled], seed: int) -> list[Labelled]:
    """Every injector once on every honest source that it fits."""
    found = []
    for one in sources:
        if any(faulty for _, faulty in one.labels):
            continue
        for injector in INJECTORS:
            candidate = inject(one.candidate, injector, seed)
            if candidate is not None:
                found.append(Labelled(one.task, candidate, ((injector.breaks, True),), injector.name))
    return found


def from_verdict(task: str, candidate: Candidate, verdict: AuthorVerdict) -> Labelled | None:
    """A past verdict as a label; None where it says nothing about any verifier."""
    if verdict.verdict is Outcome.accepted:
        return honest(task, candidate, "accepted before")
    stage = FORESEEN.get(verdict.reason)
    if verdict.verdict is not Outcome.rejected or stage is None:
        return None
    return Labelled(task, candidate, ((stage, True),), f"rejected before: {verdict.reason}")
