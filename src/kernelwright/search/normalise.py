"""Whether two sources say the same: comments, layout and the candidate's name taken out.

Two sources with the same fingerprint are the same program. The reverse does not hold, and need not: a duplicate that
is not noticed costs an evaluation, a false one would lose a kernel.
"""

from __future__ import annotations

import hashlib
import io
import re
import tokenize

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.cuda.source import split

_TOKEN = re.compile(
    r"""
    (?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
  | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<word>\w+)
  | (?P<line>\n)
  | (?P<space>(?:[^\S\n]|\\\n)+)
  | (?P<mark2><<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LAYOUT = {tokenize.NEWLINE: "\n", tokenize.INDENT: "{", tokenize.DEDENT: "}"}
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}


def fingerprint(candidate: Candidate) -> str:
    text = normalised(candidate)
    return hashlib.sha256(f"{candidate.contract}\0{text}".encode()).hexdigest()[:16]


def normalised(candidate: Candidate) -> str:
    if candidate.contract != "cuda":
        return normalised_cpp(candidate.source)
    try:
        sources = split(candidate.source)
    except CandidateError:
        return normalised_cpp(candidate.source)
    return f"{normalised_cpp(sources.kernel)}\0{normalised_python(sources.plan)}"


def normalised_cpp(source: str) -> str:
    """Tokens with a space between them. Lines are kept where they mean something: around directives."""
    out: list[str] = []
    directive, fresh = False, True  # `fresh`: nothing but space on this line so far
    for match in _TOKEN.finditer(source.replace("\r\n", "\n")):
        kind = match.lastgroup
        if kind in ("comment", "space"):
            # what stands apart after '#define f' is no parameter list, so that here a space has a meaning
            if directive and out and out[-1] != " ":
                out.append(" ")
            continue
        if kind == "line":
            if directive:
                out.append("\n")
            directive, fresh = False, True
            continue
        token = match.group(0)
        if fresh and token == "#":
            directive = True
            if out and out[-1] != "\n":
                out.append("\n")
        fresh = False
        out.append(token if directive else f"{token} ")
    return re.sub(r" *\n", "\n", "".join(out)).strip()


def normalised_python(source: str) -> str:
    """Tokens, lines and blocks; the text as it is where it is no Python."""
    out: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source.replace("\r\n", "\n")).readline):
            if token.type not in _SKIPPED:
                out.append(_LAYOUT.get(token.type, token.string))
    except (tokenize.TokenError, SyntaxError):
        return source.strip()
    return " ".join(out).strip()
