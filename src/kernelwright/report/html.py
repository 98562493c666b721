"""A report as one HTML file that needs nothing else: style, script and charts are in it.

Everything that others wrote is a value in a template and never a template. It is escaped by jinja2 after letters that
are not printed were spelt out (`finalize`), so that no place can forget either. The page's own Content-Security-Policy
allows its one style and its one script, by their hashes, and nothing else: were something to slip through, it would
not run, load or send anything.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kernelwright.insight.bottleneck import profile_table, symbol
from kernelwright.judge.verdict import SpeedStatus
from kernelwright.judge.wording import FINDINGS, FOUND_IN, byte_count, counted, duration, speed_words
from kernelwright.report.charts import search, speed
from kernelwright.report.model import ReportView
from kernelwright.report.text import one_line, visible
from kernelwright.search.summary import refused_words

PAGE = Path(__file__).parent / "page"
MOST_REJECTED = 200
MOST_SOURCE = 200_000  # characters of a file


def page(view: ReportView) -> str:
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    values = {"view": view, "style": Markup(style), "script": Markup(script), "policy": policy}
    return _environment().get_template("page.html.j2").render(values)


def rendered(template: str, **values: Any) -> str:
    """A page of its own that has our style and no script."""
    style = _asset("page.css")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    return _environment().get_template(template).render({**values, "style": Markup(style), "policy": policy})


def _asset(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {
        "breakable": _breakable,
        "bytes": byte_count,
        "duration": duration,
        "line": one_line,
        "sentence": lambda words: words[:1].upper() + words[1:],
        "number": lambda number: f"{number:04d}",
        "speed_words": speed_words,
        "times": lambda value: f"{value:.2f}×",
        "symbol": symbol,
    }
    made.globals |= {
        "charts": {**_functions(search), **_functions(speed)},
        "counted": counted,
        "findings": FINDINGS,
        "found_in": FOUND_IN,
        "measured": SpeedStatus.measured,
        "most_rejected": MOST_REJECTED,
        "most_source": MOST_SOURCE,
        "profile_table": profile_table,
        "refused_words": refused_words,
    }
    return made


def _breakable(name: str) -> Markup:
    """A long name that may go on in the next line after a comma or before an at sign."""
    parts = re.split(r"(?<=,)|(?=@)", one_line(name))
    return Markup("<wbr>").join(Markup.escape(part) for part in parts)


def _functions(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if callable(value) and not name.startswith("_")}


def _shown(value: Any) -> Any:
    """What a template prints: texts of others without a letter that is obeyed; what we drew ourselves as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
