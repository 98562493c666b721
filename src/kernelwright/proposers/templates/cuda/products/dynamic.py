"""CUDA for products whose sizes are arguments: the texts for known sizes, with a shape that is an object.

Each text is the fixed one with a few places changed, so that both stay the same algorithm; a place that is not found
is an error.
"""

from __future__ import annotations

from functools import cache

from kernelwright.proposers.templates.cuda.products.blocked import BLOCKED
from kernelwright.proposers.templates.cuda.products.cores import GROUPS
from kernelwright.proposers.templates.cuda.products.dots import DOTS, STRIPS

Changes = tuple[tuple[str, str], ...]

_SMALL: Changes = (
    ("(const int block, const Left& left", "(const Shape& shape, const int block, const Left& left"),
    ("constexpr int ACROSS", "const int ACROSS"),
)
_CHANGES: dict[str, Changes] = {
    DOTS: (
        *_SMALL,
        ("constexpr long long LINE", "const long long LINE"),
        ("s == 0 || Shape::DEPTH % (STEP * Ahead) == 0 || k < Shape::DEPTH", "s == 0 || k < Shape::DEPTH"),
    ),
    STRIPS: (
        _SMALL[0],
        ("constexpr int STRIP = 32 * Width, ACROSS", "constexpr int STRIP = 32 * Width;\n  const int ACROSS"),
        (
            "constexpr int SHARE = (Shape::DEPTH + Team - 1) / Team, COUNT",
            "const int SHARE = (Shape::DEPTH + Team - 1) / Team;\n  constexpr int COUNT",
        ),
    ),
    BLOCKED: (
        (
            "template <int All, int Depth>\n  static __device__ __forceinline__ void fetch(\n      float* const to",
            "static __device__ __forceinline__ void fetch(\n      const int All, const int Depth, float* const to",
        ),
        ("constexpr bool WHOLE = All % Rows == 0 && Depth % Deep == 0;", "constexpr bool WHOLE = false;"),
        ("    Core& core, const float* const left", "    Core& core, const Shape& shape, const float* const left"),
        ("Left::template fetch<Shape::ROWS, Shape::DEPTH>(", "Left::fetch(Shape::ROWS, Shape::DEPTH, "),
        ("Right::template fetch<Shape::COLS, Shape::DEPTH>(", "Right::fetch(Shape::COLS, Shape::DEPTH, "),
        (
            "    const int block, const int blocks, const float* const left",
            "    const Shape& shape, const int block, const int blocks, const float* const left",
        ),
        (
            "constexpr int STEPS = (Shape::DEPTH + Core::DEEP - 1) / Core::DEEP, GROUP = 8;",
            "constexpr int GROUP = 8;\n  const int STEPS = (Shape::DEPTH + Core::DEEP - 1) / Core::DEEP;",
        ),
        ("constexpr int DOWN", "const int DOWN"),
        ("constexpr int ACROSS", "const int ACROSS"),
        ("constexpr long long ALL", "const long long ALL"),
        ("run<Shape, Stages>(left", "run<Shape, Stages>(shape, left"),
        ("Shape::COLS % Core::RUN == 0 ? Core::RUN : 1", "Shape::EVEN ? Core::RUN : 1"),
    ),
    GROUPS: (
        (
            "template <bool AlongDepth, int Width, int All, int Depth>\nstruct Fragments {\n",
            "template <bool AlongDepth, int Width>\nstruct Fragments {\n  int All, Depth;\n",
        ),
        (
            "Fragments(const float* const from, const int first) {",
            "Fragments(\n      const int all, const int depth, const float* const from, const int first)"
            " : All(all), Depth(depth) {",
        ),
        ("if (Depth % 32 == 0 || k + j < Depth)", "if (k + j < Depth)"),
        (
            "template <bool AlongDepth, int Width, int All, int Depth, int Lines, int Threads>",
            "template <bool AlongDepth, int Width, int Lines, int Threads>",
        ),
        ("  const float* from;\n  int first;\n", "  int All, Depth;\n  const float* from;\n  int first;\n"),
        ("if (Depth % 32 == 0 || k < Depth)", "if (k < Depth)"),
        (
            "      const float* const left, const float* const right, const int above",
            "      const Shape& shape, const float* const left, const float* const right, const int above",
        ),
        ("Fragments<LeftAlongDepth, LeftWidth, Shape::ROWS, Shape::DEPTH>", "Fragments<LeftAlongDepth, LeftWidth>"),
        (
            "Share<RightAlongDepth, RightWidth, Shape::COLS, Shape::DEPTH, Wide, THREADS>",
            "Share<RightAlongDepth, RightWidth, Wide, THREADS>",
        ),
        ("const Lefts lefts(left,", "const Lefts lefts(Shape::ROWS, Shape::DEPTH, left,"),
        ("const Rights rights{right, first};", "const Rights rights{Shape::COLS, Shape::DEPTH, right, first};"),
    ),
}
_TYPE_MEMBER = "Shape::EVEN"


@cache
def with_sizes_as_arguments(text: str) -> str:
    """The same CUDA for a shape that is handed in; texts that know no sizes stay as they are."""
    for old, new in _CHANGES.get(text, ()):
        assert old in text, old
        text = text.replace(old, new)
    kept = text.replace(_TYPE_MEMBER, "\0")
    return kept.replace("Shape::", "shape.").replace("\0", _TYPE_MEMBER)
