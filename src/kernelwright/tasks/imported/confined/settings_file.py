"""Reads the settings that a task.yml lists: `benchmarks:` and `tests:`, each a list of small mappings.

A strict part of YAML and no more, so that no YAML library is needed: mappings in one line, `- {"size": 127}`, or
`- size: 127` with further keys below. No anchors, tags, references or merges: a line that has them is refused.
"""

from __future__ import annotations

import re
from typing import Any

from kernelwright.tasks.imported.confined.tape import Untraceable

MOST_LINES, LONGEST, DEEPEST, MOST = 20_000, 2_000, 4, 4_096
_SECTION = re.compile(r"([A-Za-z_]\w*):\s*(#.*)?$")
_PAIR = re.compile(r"""(?:"([^"\\]*)"|'([^']*)'|([A-Za-z_]\w*))\s*:(?:\s+|$)(.*)""")
_TOKEN = re.compile(r"""\s*([{}\[\],:]|"[^"\\]*"|'[^']*'|[^\s{}\[\],:"'#&*!|>%@`]+)""")
_INTEGER, _FLOAT = re.compile(r"[-+]?[0-9]{1,18}"), re.compile(r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]{1,3})?")
WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "~": None, "None": None}


def listed_settings(content: bytes, sections: tuple[str, ...]) -> list[dict[str, Any]]:
    """The mappings of the first section that lists any."""
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise Untraceable("task.yml is not text") from None
    if len(lines) > MOST_LINES:
        raise Untraceable(f"task.yml has more than {MOST_LINES} lines")
    for section in sections:
        found = _section(lines, section)
        if found:
            return found
    raise Untraceable(f"task.yml lists no {' or '.join(sections)}")


def _section(lines: list[str], name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    inside = False
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if not line[0].isspace() and not text.startswith("-"):
            section = _SECTION.match(text)
            inside = section is not None and section[1] == name
            continue
        if not inside:
            continue
        if len(text) > LONGEST or len(found) >= MOST:
            raise Untraceable(f"task.yml has too much in {name}")
        if text.startswith("- "):
            found.append({})
            text = text[2:].strip()
        elif not found:
            raise Untraceable(f"task.yml: {name} is not a list")
        found[-1] |= _mapping(text)
    return found


def _mapping(text: str) -> dict[str, Any]:
    if text.startswith("{"):
        found, rest = _flow(_tokens(text), 0, DEEPEST)
        if rest or not isinstance(found, dict):
            raise _unreadable(text)
        return found
    pair = _PAIR.fullmatch(text)
    if pair is None:
        raise _unreadable(text)
    value, rest = _flow(_tokens(pair[4]), 0, DEEPEST)
    if rest:
        raise _unreadable(text)
    return {pair[1] or pair[2] or pair[3]: value}


def _unreadable(text: str) -> Untraceable:
    return Untraceable(f"task.yml has a setting that is not a plain mapping: {text[:60]!r}")


def _tokens(text: str) -> list[str]:
    found, place = [], 0
    while place < len(text):
        if text[place:].lstrip().startswith("#") or not text[place:].strip():
            break
        match = _TOKEN.match(text, place)
        if match is None:
            raise _unreadable(text)
        found.append(match[1])
        place = match.end()
    return found


def _flow(tokens: list[str], place: int, deeper: int) -> tuple[Any, list[str]]:
    value, end = _value(tokens, place, deeper)
    return value, tokens[end:]


def _value(tokens: list[str], place: int, deeper: int) -> tuple[Any, int]:
    if place >= len(tokens) or deeper == 0:
        raise _unreadable(" ".join(tokens))
    token = tokens[place]
    if token in ("{", "["):
        return _collection(tokens, place, deeper)
    if token in "}],:":
        raise _unreadable(" ".join(tokens))
    return _scalar(token), place + 1


def _collection(tokens: list[str], place: int, deeper: int) -> tuple[Any, int]:
    opening, items, pairs = tokens[place], [], {}
    closing = "}" if opening == "{" else "]"
    place += 1
    while place < len(tokens) and tokens[place] != closing:
        value, place = _value(tokens, place, deeper - 1)
        if opening == "{":
            if not isinstance(value, str) or place >= len(tokens) or tokens[place] != ":" or value in pairs:
                raise _unreadable(" ".join(tokens))
            pairs[value], place = _value(tokens, place + 1, deeper - 1)
        else:
            items.append(value)
        if place < len(tokens) and tokens[place] == ",":
            place += 1
        elif place >= len(tokens) or tokens[place] != closing:
            raise _unreadable(" ".join(tokens))
    if place >= len(tokens):
        raise _unreadable(" ".join(tokens))
    return (pairs if opening == "{" else items), place + 1


def _scalar(token: str) -> Any:
    if token[0] in "\"'":
        return token[1:-1]
    if token in WORDS:
        return WORDS[token]
    if _INTEGER.fullmatch(token):
        return int(token)
    return float(token) if _FLOAT.fullmatch(token) else token
