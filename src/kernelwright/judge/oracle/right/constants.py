"""Every constant that decides whether a result is right, in one frozen object: those of the tolerance of an element,
and those of the rules about errors over a judging.

`benchmarks/cpu/tolerance_corpus.py` and `precision_corpus.py` record the whole object beside the margins that they
measured, and a test compares it with both: a constant changes only together with new runs. docs/precision.md says what
each one means.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorLimits:
    """What errors may reach together, over some trials of a judging (`errors.rules`)."""

    mean: float  # units by which a mean may exceed the yardstick's
    standard_errors: float  # by which means and shares may differ at random
    ratio: float  # times the yardstick that a typical row may reach
    share: float  # of a predicted error
    least_trials: int  # fewer say nothing of a mean or of a typical row
    least_rows: int  # fewer say nothing of a typical row either
    least_shares: int  # rows; fewer say nothing of a share


@dataclass(frozen=True)
class StatisticalConstants:
    judging: ErrorLimits = ErrorLimits(2.0, 4.0, 2.5, 0.2, 8, 4, 16)  # over all trials
    workload: ErrorLimits = ErrorLimits(3.0, 5.0, 2.75, 0.25, 8, 16, 16)  # of one workload, or of all check points
    point: ErrorLimits = ErrorLimits(3.0, 6.0, 3.25, 0.4, 8, 16, 32)  # of one check point
    upper: float = 2.0  # times `ratio` that nine rows in ten of a trial may reach
    upper_rows: int = 20  # of a trial; fewer have no tenth
    floor: float = 1.0  # units: what any honest kernel may lose, also where eager loses nothing
    clip: float = 128.0  # units: a value that took the other side of a tie decides nothing
    share_clip: float = 4.0  # times a predicted error, at which an error counts
    least_row: int = 16  # elements: shorter rows are put together
    visible_bias: float = 2e-5  # where a larger one would go unnoticed, nothing was seen
    rows: int = 64  # sampled in a trial of a result
    columns: int = 2048  # sampled in a row
    elements: int = 1 << 15  # sampled in a trial of a result
    sampled_trials: int = 12  # the first of a workload, whose errors are always looked at
    sampled_share: float = 0.25  # of the trials after them, chosen in secret
    filtered_trials: int = 4  # of a workload, on which shortened factors are looked for
    filtered_elements: int = 1 << 12  # of a workload, for results so small that more trials are needed
    rounding: float = 0.42  # root mean square of a rounding error, in units of roundoff of the rounded value
    sequential_terms: int = 1 << 22  # of a tensor, up to which the yardstick really adds them up one after the other


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
    sampled: int = 256  # elements of a long row, of which that is taken
    least_row: int = 8  # elements: shorter rows are put together
    least_eager: int = 64  # elements for a typical error of eager
    jumps: float = 2.0  # times the typical jump of the row

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

    # The rules about errors over a judging (`errors`).
    statistics: StatisticalConstants = StatisticalConstants()


CONSTANTS = Constants()
