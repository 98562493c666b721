"""Every constant of the comparison in one frozen object.

`benchmarks/cpu/tolerance_corpus.py` records the whole object beside the margins that it measured, and a test compares
the two: a constant changes only together with a new run. docs/precision.md says what each one means.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    # The tolerance of an element (`tolerance`, `rounding`, `scales`). A unit is the unit roundoff.
    step: float = 128.0  # units by which a probe disturbs every step
    probes: int = 8
    reach: float = 2.0  # tolerance over the mean distance that the probes saw
    eager: float = 4.0  # times the typical error of eager in the row
    own_eager: float = 2.0  # times eager's error at the element
    coarsest: float = 2.0**-5
    flushed: float = 1024.0  # smallest normal numbers, below which a result may be zero
    mixing: float = 3.0  # steps of the largest value of a plane that a convolution may spread over it
    clip: float = 4.0  # times the mean, at which a typical size is clipped
    clip_passes: int = 4

    # What a sum may lose (`sums`), in terms of one float32 accumulator over the same values.
    sum_segment: int = 16  # terms added one after the other, from the exact sum of those before
    sum_measured: int = 1 << 20  # terms that are measured in a tensor; of longer ones a sample of the segments
    sum_longest: int = 1 << 20  # terms in one accumulator; of a longer row a kernel keeps several
    sum_least_segments: int = 8  # measured in each row
    sum_short: int = 256  # rows up to this length have `sum_floor` alone where the tensor is longer than `sum_measured`
    sum_factor: float = 2.0  # times what was measured
    sum_random: float = 2.0  # times the root of the sum of the squared errors of segments
    sum_floor: float = 0.75  # units of the largest running sum, times the root of the number of terms

    # Probe rows (`probe_rows`): products of one or two terms.
    probe_share: float = 1.0 / 8  # of the tolerance, where an element depends on probe rows alone
    probe_depth: int = 16_384  # terms of a product of computed values, up to which that holds

    # --- statistics over a whole judging: added here by the rules that need them ---


CONSTANTS = Constants()

UNIT_OF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-9}
"""Unit roundoff: half of the distance from 1 to the next number. A fact of the format, not a choice."""
