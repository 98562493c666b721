"""Renders prompts: template files in `prompts/`, filled from a `PromptView` and its contract's own texts.

Text of others (a task's, a candidate's, a compiler's, a model's) is only ever a value in a template, never a template,
and stands in a fence that it cannot close, or as one line between backticks.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernelwright.contracts.craft import ANY
from kernelwright.contracts.registry import contract_named
from kernelwright.insight.bottleneck import symbol
from kernelwright.judge.wording import byte_count, duration, shortened
from kernelwright.llm.model import Prompt
from kernelwright.proposers.llm.answers import NOTE_LENGTH
from kernelwright.proposers.llm.view import Hint, PromptView

TEMPLATES = Path(__file__).parent / "prompts"
_TICKS = re.compile(r"`{3,}")


def render(view: PromptView) -> Prompt:
    """What is sent to a model: who it is, and what it is asked."""
    values: dict[str, Any] = {name: getattr(view, name) for name in PromptView.model_fields}
    contract = contract_named(view.contract)
    values |= {"stage": view.stage.value, "craft": contract.craft}
    values |= {"fence": contract.fence, "brief_fence": contract.brief_fence}
    system = _environment().get_template("system.md.j2").render(values)
    user = _environment().get_template(f"{view.stage}.md.j2").render(values)
    return Prompt(system=_tidy(system), user=_tidy(user))


def page(prompt: Prompt) -> str:
    """Both parts as one text, for a person or a tool that has no place for a system prompt."""
    return f"{prompt.system}\n---\n\n{prompt.user}"


def fenced(text: str, language: str = "") -> str:
    """A block of code that nothing inside of it can end."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def quoted(text: str, most: int = NOTE_LENGTH) -> str:
    """A few words of others in a sentence: one line of code, which no backtick in it can end."""
    return "`" + shortened(text, most).replace("`", "'") + "`"


def _rate(value: float) -> str:
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g} "


def _percent(part: float) -> str:
    return f"{part:.0%}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(
        fenced=fenced,
        quoted=quoted,
        excerpt=excerpt,
        symbol=symbol,
        bytes=byte_count,
        rate=_rate,
        percent=_percent,
        duration=duration,
    )
    return made


def _tidy(text: str) -> str:
    """One blank line where a template left several. What is quoted stays as it is: an edit has to repeat it exactly."""
    kept: list[str] = []
    fence = ""
    for line in text.strip().split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif opened := _TICKS.match(line):
            fence = opened[0]
        elif not line and not kept[-1]:
            continue
        kept.append(line)
    return "\n".join(kept) + "\n"


MOST_SOURCE = 48_000  # bytes, since these are what is paid for: more than is written by hand
_MOST_HEAD = 36_000


@dataclass(frozen=True)
class Excerpt:
    text: str
    left_out: int  # characters


def is_cut(source: str) -> bool:
    return len(source.encode()) > MOST_SOURCE


def excerpt(source: str) -> Excerpt:
    """The end is shown because a plan stands there."""
    if not is_cut(source):
        return Excerpt(source, 0)
    lines = source.split("\n")
    head = _fitting(lines, _MOST_HEAD)
    tail = _fitting(reversed(lines[len(head) :]), MOST_SOURCE - _MOST_HEAD)[::-1]
    left_out = len(source) - sum(len(line) + 1 for line in (*head, *tail))
    gap = f"[here {left_out:,} characters are left out]"
    return Excerpt("\n".join([*head, gap, *tail]), left_out)


def _fitting(lines: Iterable[str], most: int) -> list[str]:
    """As many of the first lines as there is room for."""
    found: list[str] = []
    for line in lines:
        most -= len(line.encode()) + 1
        if most < 0:
            break
        found.append(line)
    return found


def hints(contract: str) -> tuple[tuple[str, Hint], ...]:
    """All of a contract's hints, each with the limit that it is for (see insight/bottleneck.py) or `any`."""
    found = contract_named(contract).craft.hints
    return tuple((hint.limit, Hint(name=hint.name, text=hint.text)) for hint in found)


def sampled_hint(contract: str, limit: str, seed: int) -> Hint | None:
    """One that suits what limits the parent; `limit` empty: any of them."""
    suited = [hint for kind, hint in hints(contract) if not limit or kind in (limit, ANY)]
    return random.Random(seed).choice(suited) if suited else None
