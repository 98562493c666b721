"""Sources with comments and layout taken out, in C-like languages and in Python, for contracts to tell duplicates by.

Two sources with the same normal form are the same program. The reverse does not hold, and need not: a duplicate that
is not noticed costs an evaluation, a false one would lose a kernel.

Sources are hostile, so that reading one takes time in proportion to its length: what was found to have no end is not
looked for again.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache

_TEXTS = {  # by quote: a text, or a quote that begins none, with all that stands before the end of its line
    quote: rf"""
    (?P<{name}>(?:u8|[uUL])?{quote}(?:{inside}){least}{quote})
  | (?P<endless_{name}>{quote}(?=(?P<{name}_rest>(?:{inside}){least})))"""
    for quote, name, inside, least in (('"', "string", r'\\.|[^"\\\n]', "*"), ("'", "letter", r"\\.|[^'\\\n]", "+"))
}
_ENDLESS = {"endless_string": ('"', "string_rest"), "endless_letter": ("'", "letter_rest")}
_SPLICE = re.compile(r"\\[ \t\f\v\0]*\n")  # g++ lets a backslash continue a line with blanks behind it, too
_HASHES = ("#", "%:")
_RAW_END = re.compile(r"""\)(?=([^()\\\s]{0,16}"))""")
_OTHERS = r"""
    (?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?P<raw_word>(?:u8|[uUL])?R)"(?P<mark>[^()\\\s]{0,16})\()
  | TEXTS
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<word>\w+)
  | (?P<line>\n+)
  | (?P<space>(?:[^\S\n]|\\\n)+)
  | (?P<mark2>%:%:|%:|<<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)
"""


@cache
def _tokens_with(quotes: str) -> re.Pattern[str]:
    """Tokens, where only these quotes can begin a text. To compile this takes longer than most sources do."""
    texts = "|".join(_TEXTS[quote] for quote in quotes)
    return re.compile(_OTHERS.replace("| TEXTS", f"| {texts}" if texts else ""), re.VERBOSE | re.DOTALL)


_LAYOUT = {tokenize.NEWLINE: "\n", tokenize.INDENT: "{", tokenize.DEDENT: "}"}
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}


def normalised_c_like(source: str) -> str:
    """Tokens of C, C++ or CUDA, a space between them. Lines are kept where they mean something: around directives.

    A source whose continued lines compilers might read in two ways is taken as it is.
    """
    source = source.replace("\r\n", "\n")
    joined = _joined(source)
    if joined is None:
        return source.strip()
    out: list[str] = []
    directive, fresh = False, True  # `fresh`: nothing but space on this line so far
    for kind, token in _tokens(joined):
        if kind in ("comment", "space"):
            # what stands apart after '#define f' is not a parameter list, so that here a space has a meaning
            if directive and out and out[-1] != " ":
                out.append(" ")
            continue
        if kind == "line":
            if directive:
                out.append("\n")
            directive, fresh = False, True
            continue
        if fresh and token in _HASHES:
            directive = True
            if out and out[-1] != "\n":
                out.append("\n")
        fresh = False
        out.append(token if directive else f"{token} ")
    return re.sub(r"(?<! ) *\n", "\n", "".join(out)).strip()


def _joined(source: str) -> str | None:
    """With continued lines made one, as a compiler does before it looks for words and comments: `a\\` and `b` are `ab`.

    None where that is not clear: with blanks behind the backslash, with raw texts, which keep their lines, and where
    joining brings a backslash to the end of a line.
    """
    if any(len(splice) > 2 for splice in _SPLICE.findall(source)):
        return None
    joined = _SPLICE.sub("", source)
    if joined != source and ('R"' in joined or _SPLICE.search(joined)):
        return None
    return joined


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    """Kinds and tokens. A quote, or the head of a raw text, that nothing closes is a mark like any other.

    Within a text without an end every further quote of its kind is an escaped one, so that it has no end either.
    """
    at, endless = 0, {'"': 0, "'": 0}  # up to where no text in these quotes ends
    last_raw_end = _last_raw_ends(source) if 'R"' in source else {}
    while at < len(source):
        quotes = "".join(quote for quote, end in endless.items() if at >= end)
        until = min((end for end in endless.values() if at < end), default=len(source))
        for match in _tokens_with(quotes).finditer(source, at):
            kind = match.lastgroup or ""
            if kind == "raw":
                close = f'){match["mark"]}"'
                closed = last_raw_end.get(match["mark"], -1) >= match.end()
                end = source.index(close, match.end()) + len(close) if closed else match.end("raw_word")
                yield kind, source[at:end]
                at = end
                break
            yield kind, match[0]
            at = match.end()
            if kind in _ENDLESS:
                quote, rest = _ENDLESS[kind]
                if quote in match[rest]:
                    endless[quote] = match.end(rest)
                    break
            if at >= until:
                break


def _last_raw_ends(source: str) -> dict[str, int]:
    """By mark, where the last `)mark"` stands; a mark may have quotes in it."""
    found: dict[str, int] = {}
    for match in _RAW_END.finditer(source):
        parts = match[1].split('"')[:-1]
        for count in range(1, len(parts) + 1):
            found['"'.join(parts[:count])] = match.start()
    return found


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
