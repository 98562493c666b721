"""Strict readers for JSON that a stranger may have sent: what is not expected is refused, in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
MOST_BYTES = 16 << 20


class MalformedData(ValueError):  # noqa: N818 - it names the data
    """Data that is not of the closed form, in one line."""


def parsed(text: str | bytes) -> object:
    if len(text) > MOST_BYTES:
        raise MalformedData(f"more than {MOST_BYTES:,} bytes")
    try:
        return json.loads(text, parse_constant=_not_finite, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise MalformedData(f"not JSON: {error}") from None


def _not_finite(text: str) -> object:
    raise ValueError(f"{text} is not a number here")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def record(raw: object, what: str, keys: tuple[str, ...]) -> dict[str, object]:
    """An object with exactly these keys."""
    if not isinstance(raw, dict) or set(raw) != set(keys):
        raise MalformedData(f"{what}: not an object with {', '.join(keys)}")
    return raw


def listed(raw: object, what: str, read: Callable[[object], T], most: int, least: int = 0) -> tuple[T, ...]:
    if not isinstance(raw, list) or not least <= len(raw) <= most:
        raise MalformedData(f"{what}: not a list of {least} to {most}")
    return tuple(read(entry) for entry in raw)


def text(raw: object, what: str, most: int = 256) -> str:
    if not isinstance(raw, str) or len(raw) > most or not raw.isascii() or not raw.isprintable():
        raise MalformedData(f"{what}: not a text of at most {most} printable characters")
    return raw


def identifier(raw: object, what: str) -> str:
    if not isinstance(raw, str) or not IDENTIFIER.fullmatch(raw):
        raise MalformedData(f"{what}: not a name")
    return raw


def hexadecimal(raw: object, most: int) -> str:
    """Bytes, at most so many, as two digits each."""
    if not isinstance(raw, str) or len(raw) % 2 or len(raw) > 2 * most or set(raw) - set("0123456789abcdef"):
        raise MalformedData(f"not at most {most} bytes in hexadecimal")
    return raw


def one_of(raw: object, what: str, known: tuple[str, ...] | Mapping[str, object]) -> str:
    if not isinstance(raw, str) or raw not in known:
        raise MalformedData(f"{what}: not one of {', '.join(known)}")
    return raw


def whole(raw: object, what: str, least: int, most: int) -> int:
    if type(raw) is not int or not least <= raw <= most:
        raise MalformedData(f"{what}: not a whole number from {least} to {most}")
    return raw


def flag(raw: object, what: str) -> bool:
    if type(raw) is not bool:
        raise MalformedData(f"{what}: neither true nor false")
    return raw
