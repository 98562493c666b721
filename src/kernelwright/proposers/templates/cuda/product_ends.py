"""Writes how the elements of a product end: what is loaded for one, what is done to it, and where it goes."""

from __future__ import annotations

from dataclasses import replace

from kernelwright.proposers.templates.cuda.last import Last
from kernelwright.proposers.templates.cuda.pen import Pen
from kernelwright.proposers.templates.patterns.heavy import MatmulStep


def written_end(pen: Pen, step: MatmulStep) -> tuple[str, str]:
    """Structures with the sizes and the end of a product, and the statement that makes `last`.

    `last.extra` is apart from `last.finish`, so that a kernel loads before it has the product.
    """
    inner = replace(pen, parameters={})
    steps = Last(inner, step.last, step.output)
    loads, lines, stored = steps.apart()
    stores = [f"store({steps.target(tensor)} + row * COLS + first, s_{tensor});" for tensor in stored]
    singles = steps.singles()
    members = list(inner.parameters.values())
    for one in members:
        pen.pointer(one.name, written=one.written, read=one.read, kind=one.type)
    n = pen.step
    text = [
        f"struct Shape_{n} {{",
        f"  static constexpr int ROWS = M_{n}, COLS = N_{n}, DEPTH = K_{n};",
        "};",
        f"struct Extra_{n} {{",
        *(f"  float {name};" for name in loads),
        "};",
        f"struct Last_{n} {{",
        f"  static constexpr long long COLS = N_{n};",
        *(f"  {'' if one.written else 'const '}{one.type}* {one.pointer};" for one in members),
        f"  __device__ __forceinline__ Extra_{n} extra(const long long row, const long long c) const {{",
        f"    return {{{', '.join(loads.values())}}};",
        "  }",
        "  template <int Run>",
        "  __device__ __forceinline__ void finish(",
        "      const float (&products)[Run], const long long row, const long long first,",
        f"      const Extra_{n} (&extras)[Run]) const {{",
        *(f"    {line}" for line in singles),
        *(f"    alignas(16) float s_{tensor}[Run];" for tensor in stored),
        "#pragma unroll",
        "    for (int j = 0; j < Run; ++j) {",
        "      const long long c = first + j;",
        "      const float product = products[j];",
        *(f"      const float {name} = extras[j].{name};" for name in loads),
        *(f"      {line}" for line in lines),
        *(f"      s_{tensor}[j] = {name};" for tensor, name in stored.items()),
        "    }",
        *(f"    {line}" for line in stores),
        "  }",
        "};",
    ]
    return "".join(
        f"{line}\n" for line in text if line
    ), f"const Last_{n} last{{{', '.join(o.pointer for o in members)}}};"
