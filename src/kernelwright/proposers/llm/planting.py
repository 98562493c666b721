"""Plants bugs into honest sources: small changes of which it is known what they break. For calibrating verifiers.

Each mutator changes one place and says which verifier should notice; None where it finds nothing to change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.registry import contract_named
from kernelwright.proposers.llm.view import Stage

Mutate = Callable[[str, random.Random], str | None]
_LOOP = re.compile(r"(for\s*\([^;{}]{0,400};[^;<>=]{0,400})<(?![=<])([^;]{0,400};)")
_STATEMENT = re.compile(r"(?<=[\w)\]]);(?=[ \t]*\n)")
_CALL = re.compile(r"\b(?:sqrtf?|expf?|rsqrtf|fmaxf?|tanhf?|logf?|exp|log)\(")
_SUM = re.compile(r"(?<![\w.])(\w+(?:\[\w+\])?)[ \t]*\+=[ \t]*")
_STEP = re.compile(r"\[(\w+)\](?=[ \t]*=[^=])")
_TERM = re.compile(r"(?<![ \t])[ \t]*\+[ \t]*(?:static_cast<float>\()?eps\)?")
_SYNC = re.compile(r"^[ \t]*__syncthreads\(\);[ \t]*\n", re.M)


def _one(pattern: re.Pattern[str], source: str, draw: random.Random, new: Callable[[re.Match[str]], str]) -> str | None:
    """One match by chance, replaced."""
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
class Mutator:
    name: str
    breaks: Stage
    mutate: Mutate


MUTATORS = (
    Mutator("a statement without its semicolon", Stage.verify_compilation, _no_semicolon),
    Mutator("a name that is declared nowhere", Stage.verify_compilation, _unknown_name),
    Mutator("a block that is never closed", Stage.verify_compilation, _no_brace),
    Mutator("a loop that goes one too far", Stage.verify_memory, _one_too_far),
    Mutator("a write to the next element", Stage.verify_memory, _next_element),
    Mutator("a missing barrier", Stage.verify_memory, _no_barrier),
    Mutator("a sum that is overwritten", Stage.verify_numerics, _overwritten_sum),
    Mutator("eps left out", Stage.verify_numerics, _no_eps),
    Mutator("a function that is a hundredth too large", Stage.verify_numerics, _other_function),
)


def planted(candidate: Candidate, mutator: Mutator, seed: int) -> Candidate | None:
    """The candidate with one bug, in its kernels and in no other file."""
    draw = random.Random(f"{seed} {mutator.name} {candidate.id}")
    contract = contract_named(candidate.contract)
    try:
        files = dict(contract.split(candidate.source))
    except CandidateError:
        return None
    kernel = mutator.mutate(files[contract.source_name], draw)
    if kernel is None or kernel == files[contract.source_name]:
        return None
    source = contract.join({**files, contract.source_name: kernel})
    return Candidate(candidate.contract, source, f"{candidate.name}: {mutator.name}")
