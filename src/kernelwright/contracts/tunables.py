"""Tunables: parameters that a candidate declares in its own source, with the values worth trying.

    // tunable: BLOCK = 32, 64, 128        in C++ and CUDA
    # tunable: ROWS = 1, 2, 4              in Python

A contract says which syntax its sources have (tunable_syntax.py). A declaration stands on a line of its own. Rendered,
the same line begins with a definition (`#define BLOCK 64`, or `ROWS = 2`), which an author may write there as well;
line numbers stay, and what was rendered can be rendered again. Without a definition the first value holds.

A contract may see tunables in a source that declares none (`Contract.implied_tunables`). Rendered with another value
than they have, they become declarations at the end of the source.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.contracts.candidate import Candidate
from kernelwright.contracts.registry import contract_named
from kernelwright.contracts.tunable_syntax import TunableSyntax
from kernelwright.errors import KernelwrightError

MOST_TUNABLES, MOST_VALUES = 8, 32
_VALUE = r"-?[0-9]+(?:\.[0-9]+)?|[A-Za-z_]\w*"


class TunableError(KernelwrightError):
    """A declaration that cannot be understood."""


@dataclass(frozen=True)
class Tunable:
    name: str
    values: tuple[str, ...]
    now: str


def declared(candidate: Candidate) -> tuple[Tunable, ...]:
    """What a source declares, in its order; one line says what is wrong with a declaration."""
    found: dict[str, Tunable] = {}
    for syntax in contract_named(candidate.contract).tunable_syntax:
        for match in syntax.line.finditer(candidate.source):
            tunable = _tunable(match)
            if tunable.name in found:
                raise TunableError(f"tunable {tunable.name} is declared twice; declare it once")
            found[tunable.name] = tunable
    implied = _implied(candidate, found)
    found |= dict(itertools.islice(implied.items(), max(0, MOST_TUNABLES - len(found))))
    if len(found) > MOST_TUNABLES:
        raise TunableError(f"{len(found)} tunables are declared; at most {MOST_TUNABLES} can be swept")
    return tuple(found.values())


def render(candidate: Candidate, values: Mapping[str, str] | None = None) -> Candidate:
    """The candidate with these values; a tunable that is not named keeps its own. Without tunables: as it is."""
    chosen = {tunable.name: tunable.now for tunable in declared(candidate)}
    for name, value in (values or {}).items():
        if name not in chosen:
            raise TunableError(f"there is no tunable {name}; declared are {', '.join(chosen) or 'none'}")
        chosen[name] = value
    source = candidate.source
    for tunable in _implied(candidate, {}).values():
        if chosen.get(tunable.name, tunable.now) != tunable.now and not _is_declared(candidate, tunable.name):
            line = contract_named(candidate.contract).tunable_syntax[0].rendered
            told = line.format(name=tunable.name, value=tunable.now, values=", ".join(tunable.values))
            source = f"{source.rstrip()}\n\n{told}\n"
    for syntax in contract_named(candidate.contract).tunable_syntax:
        source = _defined(source, syntax, chosen)
    return Candidate(candidate.contract, source, candidate.name)


def variants(candidate: Candidate, limit: int, seed: int) -> tuple[dict[str, str], ...]:
    """Other values than the candidate has: all there are, or as many as the limit allows.

    Beyond the limit, those that change one value come first, since they tell what each tunable does.
    """
    tunables = declared(candidate)
    now = {tunable.name: tunable.now for tunable in tunables}
    chance = random.Random(seed)
    single = [now | {t.name: value} for t in tunables for value in t.values if value != t.now]
    chance.shuffle(single)
    total = 1
    for tunable in tunables:
        total *= len(tunable.values)
    if total <= 4 * limit:
        product = itertools.product(*(tunable.values for tunable in tunables))
        others = [dict(zip(now, choice, strict=True)) for choice in product]
        chance.shuffle(others)
    else:
        others = [{t.name: chance.choice(t.values) for t in tunables} for _ in range(2 * limit)]
    found: list[dict[str, str]] = []
    for choice in (*single, *others):
        if choice != now and choice not in found:
            found.append(choice)
    return tuple(found[:limit])


def _implied(candidate: Candidate, declared_already: Mapping[str, Tunable]) -> dict[str, Tunable]:
    """Those that the contract sees, and the source does not declare."""
    found = contract_named(candidate.contract).implied_tunables(candidate.source)
    return {
        name: Tunable(name, values[:MOST_VALUES], values[0]) for name, values in found if name not in declared_already
    }


def _is_declared(candidate: Candidate, name: str) -> bool:
    syntaxes = contract_named(candidate.contract).tunable_syntax
    return any(match["name"] == name for syntax in syntaxes for match in syntax.line.finditer(candidate.source))


def _tunable(match: re.Match[str]) -> Tunable:
    name, written = match["name"], match["values"]
    values = tuple(value.strip() for value in written.split(","))
    if not name.isidentifier():
        raise TunableError(f"tunable {name!r} is not a name; write a word such as BLOCK")
    for value in values:
        if not re.fullmatch(_VALUE, value):
            raise TunableError(f"tunable {name}: cannot read {value[:40]!r}; write numbers or words between commas")
    if len(set(values)) != len(values):
        raise TunableError(f"tunable {name}: has the same value twice")
    if len(values) > MOST_VALUES:
        raise TunableError(f"tunable {name}: has {len(values)} values; at most {MOST_VALUES} can be tried")
    if match["defined"] not in (None, name):
        raise TunableError(f"tunable {name}: its line defines {match['defined']} instead")
    return Tunable(name, values, match["now"] or values[0])


def _defined(source: str, syntax: TunableSyntax, chosen: Mapping[str, str]) -> str:
    def line(match: re.Match[str]) -> str:
        name = match["name"]
        return syntax.rendered.format(name=name, value=chosen[name], values=match["values"])

    return syntax.line.sub(line, source)
