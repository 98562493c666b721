"""A kernel that leaves, as data: what it takes, its binaries by digest, and how it is launched at sizes not yet known.

expressions.py  arithmetic over named sizes: a table of nodes, and its evaluation
launches.py     launches and memory whose numbers may be nodes of a table
formula.py      the launch formula: a decision tree over sizes, with launches at its leaves
kernel.py       the portable kernel: signature, domain, formulas with binaries, or a library with an entry point
reading.py      strict readers for JSON that a stranger may have sent

Standard library only and relative imports only, so that an exported package can carry a copy of this folder: a
user's process evaluates these formulas, and never the Python of a candidate. Nothing here is compiled or executed.
"""

from .expressions import FormulaError, Nodes, Number, Ref, Term
from .formula import Case, LaunchFormula
from .kernel import (
    Library,
    Module,
    NamedSize,
    PortableKernel,
    ScalarArgument,
    TensorArgument,
    Variant,
    digest_of,
)
from .launches import (
    NumberArgument,
    PackedArgument,
    PlannedCall,
    PointerArgument,
    PortableCopy,
    PortableLaunch,
    PortableMemory,
    PortableMemset,
    PortableStep,
    StructArgument,
    TensorMapArgument,
)

__all__ = [
    "Case",
    "FormulaError",
    "LaunchFormula",
    "Library",
    "Module",
    "NamedSize",
    "Nodes",
    "Number",
    "NumberArgument",
    "PackedArgument",
    "PlannedCall",
    "PointerArgument",
    "PortableCopy",
    "PortableKernel",
    "PortableLaunch",
    "PortableMemory",
    "PortableMemset",
    "PortableStep",
    "Ref",
    "ScalarArgument",
    "StructArgument",
    "TensorArgument",
    "TensorMapArgument",
    "Term",
    "Variant",
    "digest_of",
]
