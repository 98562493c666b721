"""Typed answers are found among what models write around them, and what is wrong with one is said."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field

from kernelwright.llm.attempts import UnusableAnswer, parse_typed


class Diagnosis(BaseModel):
    bottleneck: str
    sure: float = Field(ge=0, le=1)


GOOD = '{"bottleneck": "memory {L2}", "sure": 0.9}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"\n{GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"Here it is:\n\n```\n{GOOD}\n```\nHope that helps!",
        f"I think {GOOD} says it.",
    ],
)
def test_the_object_is_found(text: str) -> None:
    assert parse_typed(Diagnosis, text) == Diagnosis(bottleneck="memory {L2}", sure=0.9)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Invalid JSON"),
        ("It is memory.", "Invalid JSON"),
        ("[" * 100_000, "Invalid JSON"),
        ('{"bottleneck": "memory"', "Invalid JSON"),
        ('{"bottleneck": "memory", "sure": 3}', "sure: Input should be less than or equal to 1"),
        ('Sure! {"bottleneck": "memory"}', "sure: Field required"),
    ],
)
def test_what_is_wrong_is_said(text: str, told: str) -> None:
    with pytest.raises(UnusableAnswer, match=told) as error:
        parse_typed(Diagnosis, text)
    assert len(str(error.value)) < 2000
