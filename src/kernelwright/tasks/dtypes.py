"""The dtypes that tensors of a task may have: one row each, and everything else is derived from the rows.

What a contract calls a dtype in its own language stands with the contract; tests hold those tables to this one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dtype:
    """`unit` is the unit roundoff of a floating-point format. `computes` tells whether torch has arithmetic in it;
    where it has none, values are widened to float32 first, which is exact, and rounded once at the end."""

    name: str
    bytes: int
    unit: float | None = None
    computes: bool = True


TABLE = (
    Dtype("float64", 8, 2.0**-53),
    Dtype("float32", 4, 2.0**-24),
    Dtype("float16", 2, 2.0**-11),
    Dtype("bfloat16", 2, 2.0**-9),
    Dtype("float8_e4m3fn", 1, 2.0**-4, computes=False),
    Dtype("float8_e5m2", 1, 2.0**-3, computes=False),
    Dtype("int64", 8),
    Dtype("int32", 4),
    Dtype("int16", 2),
    Dtype("int8", 1),
    Dtype("uint8", 1),
    Dtype("bool", 1),
)
DTYPES = tuple(row.name for row in TABLE)
FLOATS = tuple(row.name for row in TABLE if row.unit is not None)
STORED_ONLY = tuple(row.name for row in TABLE if not row.computes)
ITEM_BYTES = {row.name: row.bytes for row in TABLE}
UNIT_OF = {row.name: row.unit for row in TABLE if row.unit is not None}
NARROW = tuple(row.name for row in TABLE if row.unit is not None and row.bytes < 4)
"""Floats that are stored in fewer bits than kernels compute in."""
