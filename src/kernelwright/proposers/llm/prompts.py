"""Renders prompts: template files in `prompts/`, filled from a `PromptView` and its contract's own texts.

Text of others (a task's, a candidate's, a compiler's, a model's) is only ever a value in a template, never a template,
and stands in a fence that it cannot close, or as one line between backticks.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernelwright.contracts.registry import contract_named
from kernelwright.insight.counters import symbol
from kernelwright.judge.words import byte_count, duration, shortened
from kernelwright.llm.model import Prompt
from kernelwright.proposers.llm.answers import NOTE_LENGTH
from kernelwright.proposers.llm.excerpts import excerpt
from kernelwright.proposers.llm.view import PromptView

HERE = Path(__file__).parent / "prompts"
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
    """A few words of somebody else's in a sentence: one line of code, which no backtick in it can end."""
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
        loader=FileSystemLoader(HERE),
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
