"""Typed answers: how one is asked for in words, and how it is read. A model's text is hostile and only ever data."""

from __future__ import annotations

import re

from pydantic import BaseModel, ValidationError

_FENCED = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.S)
SHOWN_ERRORS = 5
SHOWN_CHARACTERS = 300


class Unusable(Exception):  # noqa: N818 - it names an outcome
    """An answer that is not of the wanted type; the text says what is wrong with it."""


def instructions(schema_text: str) -> str:
    """For a model that is not given the schema in any other way."""
    return f"Answer with one JSON object and nothing else. It must match this JSON schema:\n{schema_text}"


def complaint(wrong: str) -> str:
    """What a model is told once, when its answer cannot be used."""
    return f"Your answer cannot be used: {wrong}\nAnswer again, with one JSON object that matches and nothing else."


def parse(wanted: type[BaseModel], text: str) -> BaseModel:
    """The object in the text, also between lines of ``` or among words, as models write it."""
    error: ValidationError | None = None
    for candidate in _candidates(text):
        try:
            return wanted.model_validate_json(candidate)
        except ValidationError as found:
            error = error if error is not None and _is_json(error) else found
    assert error is not None  # there is always one candidate
    raise Unusable(_in_words(error))


def _candidates(text: str) -> list[str]:
    found = [text.strip(), *(match[1] for match in _FENCED.finditer(text))]
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        found.append(text[first : last + 1])
    return list(dict.fromkeys(found))


def _is_json(error: ValidationError) -> bool:
    return all(one["type"] != "json_invalid" for one in error.errors(include_url=False))


def _in_words(error: ValidationError) -> str:
    lines = []
    for one in error.errors(include_input=False, include_url=False)[:SHOWN_ERRORS]:
        place = ".".join(str(part) for part in one["loc"])
        lines.append(f"{place}: {one['msg']}" if place else one["msg"])
    return "; ".join(line[:SHOWN_CHARACTERS] for line in lines)
