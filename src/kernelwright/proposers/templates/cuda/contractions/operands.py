"""What a product in batches is made of, in terms of CUDA: sizes, where elements of operands lie, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelwright.proposers.templates.cuda.kernels import STORED


@dataclass(frozen=True)
class GatheredOperand:
    """`at` are statements over `row` and `k` that declare `place`, and return null where there is only padding.

    `moved` are statements over `batch` that change members, of which `from` is one.
    """

    tensor: str
    dtype: str
    panel: str  # the dtype that tensor cores get
    along_depth: bool
    width: str  # Python: how many neighbours lie together
    at: Sequence[str]
    moved: Sequence[str] = ()
    members: Sequence[str] = ()  # of type int, besides `from`


@dataclass(frozen=True)
class ProductForm:
    """`batches` products of `rows` × `depth` and `depth` × `cols`; numbers are Python of the plan.

    `place` are statements over `batch`, `m` and `n` that set `row` and `c`, of a result of `length` columns.
    """

    batches: str
    rows: str
    cols: str
    depth: str
    left: GatheredOperand
    right: GatheredOperand
    place: Sequence[str]
    length: str
    pairs: str  # Python: whether neighbours along n lie together in pairs
    constants: Sequence[str] = field(default_factory=list)  # declarations for operands and `place`


def declared(name: str, operand: GatheredOperand) -> list[str]:
    """The structure `name` of an operand; what it is of is in scope as ROWS and DEPTH."""
    kind = STORED[operand.dtype]
    return [
        f"struct {name} {{",
        f"  using Element = {STORED[operand.panel]};",
        f"  static constexpr bool ALONG_DEPTH = {str(operand.along_depth).lower()};",
        f"  static constexpr int WIDTH = WIDTH_{name};",
        f"  static constexpr int ROWS = ROWS_{name}, DEPTH = DEPTH_{name};",
        f"  const {kind}* from;",
        *(f"  int {member};" for member in operand.members),
        "  __device__ __forceinline__ void move(const int batch) {",
        "    (void)batch;",
        *(f"    {line}" for line in operand.moved),
        "  }",
        "  template <bool Whole>",
        f"  __device__ __forceinline__ const {kind}* at(const int row, const int k) const {{",
        "    if (!Whole && (row >= ROWS || k >= DEPTH)) return nullptr;",
        *(f"    {line}" for line in operand.at),
        "    return from + place;",
        "  }",
        "};",
    ]


def taken_apart(number: str, names: Sequence[str], sizes: Sequence[str], kind: str = "int") -> list[str]:
    """Declares `names`, the index of element `number` in a shape; the first size is not needed."""
    lines: list[str] = []
    left = number
    for at in range(len(names) - 1, 0, -1):
        if sizes[at] == "1":
            lines.append(f"const {kind} {names[at]} = 0;")
            continue
        lines.append(f"const {kind} {names[at]} = {left} % {sizes[at]}, {names[at]}_ = {left} / {sizes[at]};")
        left = f"{names[at]}_"
    lines.append(f"const {kind} {names[0]} = {left};")
    return lines


def put_together(names: Sequence[str], sizes: Sequence[str]) -> str:
    """The number of an element; 64 bits wide from the first dimension on."""
    text = f"static_cast<long long>({names[0]})"
    for name, size in zip(names[1:], sizes[1:], strict=True):
        text = f"({text} * {size} + {name})"
    return text
