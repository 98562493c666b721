"""What is wrong with a result, and the evidence for it."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.judge.oracle.right.compare import Mismatch, MismatchKind, check
from kernelwright.judge.oracle.right.tolerance import BitExact, ChosenIndex, Within, expectations
from kernelwright.judge.verdict import MismatchEvidence, Reason
from kernelwright.tasks import Chosen, Task, tensor

WORD = 0x7FF17FF2


def around(reference: torch.Tensor, relative: float = 1e-5) -> Within:
    allowed = reference.abs() * relative
    return Within(reference - allowed, reference + allowed)


def poisoned(shape: tuple[int, ...], dtype: torch.dtype, word: int = WORD) -> torch.Tensor:
    """A tensor as the arena holds it before a call."""
    size = torch.empty(shape, dtype=dtype).nbytes
    memory = bytearray(struct.pack("<I", word) * (size // 4 + 1))[:size]
    return torch.frombuffer(memory, dtype=dtype).view(shape)


def found(expectation: Any, got: torch.Tensor) -> Mismatch:
    mismatch = check(expectation, got, WORD)
    assert mismatch is not None
    return mismatch


REFERENCE = torch.linspace(1, 2, 600).view(3, 200)


def test_what_is_within_its_bounds_is_right() -> None:
    expectation = around(REFERENCE)
    assert check(expectation, REFERENCE.clone(), WORD) is None
    assert check(expectation, expectation.low.clone(), WORD) is None
    assert check(expectation, expectation.high.clone(), WORD) is None


@settings(max_examples=50)
@given(st.integers(0, 599), st.sampled_from([torch.nan, torch.inf, -torch.inf, 0.0, -1.0, 1e-30, 3.0, 1e30]))
def test_one_wrong_element_anywhere_is_found(place: int, value: float) -> None:
    got = REFERENCE.clone()
    got.view(-1)[place] = value
    mismatch = found(around(REFERENCE), got)
    assert mismatch.index == (place // 200, place % 200)
    assert (mismatch.wrong, mismatch.unwritten, mismatch.total) == (1, 0, 600)
    assert mismatch.kind is (MismatchKind.wrong if -2 < value < 1e31 else MismatchKind.nan_or_inf)


def test_every_chunk_of_a_large_result_is_looked_at() -> None:
    reference = torch.ones(600_000)
    for place in (0, 262_143, 262_144, 599_999):
        got = reference.clone()
        got[place] = 1.1
        assert found(around(reference), got).index == (place,)


def test_the_evidence_names_both_values_and_the_tolerance() -> None:
    got = REFERENCE.clone()
    got[1, 3], got[2, 0] = 7.0, 9.0
    mismatch = found(around(REFERENCE), got)
    assert mismatch.index == (1, 3)
    assert float(mismatch.expected) == pytest.approx(REFERENCE[1, 3].item())
    assert mismatch.got == "7"
    assert mismatch.error == pytest.approx(7 - REFERENCE[1, 3].item(), rel=1e-4)
    assert mismatch.tolerance == pytest.approx(REFERENCE[1, 3].item() * 1e-5, rel=0.1)
    assert mismatch.wrong == 2


def test_small_errors_everywhere_look_like_low_precision() -> None:
    mismatch = found(around(REFERENCE), REFERENCE.bfloat16().float())
    assert mismatch.kind is MismatchKind.imprecise
    assert mismatch.wrong > 500
    assert found(around(REFERENCE), REFERENCE * 1.2).kind is MismatchKind.wrong
    assert found(around(REFERENCE), torch.zeros_like(REFERENCE)).kind is MismatchKind.wrong


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int16, torch.uint8]
)
def test_elements_that_were_never_written_are_counted(dtype: torch.dtype) -> None:
    reference = torch.arange(1, 64).to(dtype)
    got = poisoned((63,), dtype)
    got[:40] = reference[:40]
    expectation = Within(reference, reference) if dtype.is_floating_point else BitExact(reference)
    mismatch = found(expectation, got)
    assert mismatch.kind is MismatchKind.unwritten
    assert (mismatch.index, mismatch.wrong, mismatch.unwritten) == ((40,), 23, 23)
    assert mismatch.error is None or mismatch.error >= 0


def test_a_nan_is_not_taken_for_an_unwritten_element() -> None:
    got = REFERENCE.clone()
    got[0, 5] = torch.nan
    mismatch = found(around(REFERENCE), got)
    assert (mismatch.kind, mismatch.unwritten, mismatch.got) == (MismatchKind.nan_or_inf, 0, "nan")
    assert mismatch.error is None


def test_nan_and_infinity_are_right_only_where_they_belong() -> None:
    low = torch.tensor([1.0, torch.inf, -torch.inf, torch.inf])
    high = torch.tensor([1.0, torch.inf, -torch.inf, -torch.inf])
    expectation = Within(low, high, torch.tensor([False, False, False, True]))
    right = torch.tensor([1.0, torch.inf, -torch.inf, torch.nan])
    assert check(expectation, right, WORD) is None
    for place in range(4):
        for value in (torch.nan, torch.inf, -torch.inf, 0.0):
            got = right.clone()
            got[place] = value
            if not torch.equal(got.nan_to_num(42.0), right.nan_to_num(42.0)):
                mismatch = found(expectation, got)
                assert mismatch.index == (place,)
                assert mismatch.kind is (MismatchKind.wrong if (place, value) == (0, 0.0) else MismatchKind.nan_or_inf)


def test_odd_elements_admit_what_is_not_finite_beside_their_bounds() -> None:
    demanded, either, finite = (torch.inf, -torch.inf), (-1.0, 1.0), (-1.0, 1.0)
    low, high = (torch.tensor(ends) for ends in zip(demanded, either, finite, strict=True))
    expectation = Within(low, high, odd=torch.tensor([True, True, False]))
    for odd in (torch.nan, torch.inf, -torch.inf):
        assert check(expectation, torch.tensor([odd, odd, 0.0]), WORD) is None
        assert check(expectation, torch.tensor([odd, 0.5, 0.0]), WORD) is None
        assert found(expectation, torch.tensor([odd, 0.5, odd])).kind is MismatchKind.nan_or_inf
    assert found(expectation, torch.tensor([3e38, 0.0, 0.0])).expected == "nan"
    assert check(expectation, torch.tensor([torch.nan, 2.0, 0.0]), WORD) is not None


@pytest.mark.parametrize("mask", ["nan", "odd"])
def test_an_unwritten_element_is_wrong_even_where_nan_is_right(mask: str) -> None:
    got = poisoned((4,), torch.float32)
    bounds = torch.full((4,), torch.inf), torch.full((4,), -torch.inf)
    expectation = Within(*bounds, **{mask: torch.ones(4, dtype=torch.bool)})
    assert found(expectation, got).kind is MismatchKind.unwritten
    assert check(expectation, torch.full((4,), torch.nan), WORD) is None
    assert found(BitExact(torch.full((4,), torch.nan)), got).kind is MismatchKind.unwritten


def test_same_bits_for_booleans_means_no_other_byte() -> None:
    value = torch.tensor([True, False, True])
    got = torch.frombuffer(bytearray([1, 0, 255]), dtype=torch.bool)
    mismatch = found(BitExact(value), got)
    assert (mismatch.index, mismatch.got) == ((2,), "255")
    assert check(BitExact(value), value.clone(), WORD) is None


def test_same_tells_zeros_apart_and_takes_any_nan() -> None:
    value = torch.tensor([0.0, torch.nan, 1.0])
    assert found(BitExact(value), torch.tensor([-0.0, torch.nan, 1.0])).index == (0,)
    other = torch.tensor([0, 0x7FC00001, 0x3F800000], dtype=torch.int32).view(torch.float32)
    assert check(BitExact(value), other, WORD) is None
    assert found(BitExact(value), torch.tensor([0.0, 1.0, 1.0])).kind is MismatchKind.nan_or_inf


def test_scalars_and_empty_results() -> None:
    assert check(around(torch.tensor(3.0)), torch.tensor(3.0), WORD) is None
    assert found(around(torch.tensor(3.0)), torch.tensor(4.0)).index == ()
    assert check(around(torch.empty(0, 3)), torch.empty(0, 3), WORD) is None
    assert found(BitExact(torch.tensor(True)), torch.tensor(False)).index == ()


# --- indices ------------------------------------------------------------------------------------------------


def chosen(reference: Any, x: torch.Tensor, **how: Any) -> ChosenIndex:
    task = Task(
        reference=reference,
        inputs={"x": tensor(*x.shape)},
        public=[{}],
        hidden={},
        name="choose",
        comparators={"out": Chosen(source="x", **how)},
    )
    expectation = expectations(task, {"x": x}, task.public_workloads()[0])["out"]
    assert isinstance(expectation, ChosenIndex)
    return expectation


X = torch.tensor([[1.0, 5.0, 5.0, 2.0], [7.0, 0.0, 1.0, 7.0], [3.0, 1.0, 2.0, 0.0]])


@pytest.mark.parametrize("index", [[1, 0, 0], [2, 3, 0], [1, 3, 0]])
def test_either_side_of_a_tie_is_right(index: list[int]) -> None:
    expectation = chosen(lambda x: x.argmax(-1), X)
    assert check(expectation, torch.tensor(index), WORD) is None


@pytest.mark.parametrize(
    ("index", "place"),
    [([0, 0, 0], 0), ([1, 1, 0], 1), ([1, 0, 4], 2), ([1, 0, -1], 2), ([1, 0, -4], 2), ([2**40, 0, 0], 0)],
)
def test_any_other_index_is_wrong(index: list[int], place: int) -> None:
    mismatch = found(chosen(lambda x: x.argmax(-1), X), torch.tensor(index))
    assert (mismatch.index, mismatch.kind, mismatch.wrong) == ((place,), MismatchKind.wrong, 1)
    assert "value" in mismatch.expected


def test_dimensions_may_be_kept_and_others_than_the_last() -> None:
    assert check(chosen(lambda x: x.argmax(0, keepdim=True), X, dim=0, keepdim=True), X.argmax(0, True), WORD) is None
    assert found(chosen(lambda x: x.argmin(0), X, dim=0), X.argmax(0)).wrong == 4
    assert check(chosen(lambda x: x.argmin(0), X, dim=0), X.argmin(0), WORD) is None


def test_the_largest_few_come_in_order_and_none_twice() -> None:
    expectation = chosen(lambda x: x.topk(2, -1).indices, X)
    assert check(expectation, torch.tensor([[2, 1], [0, 3], [0, 2]]), WORD) is None
    assert check(expectation, torch.tensor([[1, 2], [3, 0], [0, 2]]), WORD) is None
    assert found(expectation, torch.tensor([[1, 1], [0, 3], [0, 2]])).index == (0, 1)
    assert found(expectation, torch.tensor([[1, 2], [0, 3], [2, 0]])).wrong == 2


def test_a_nan_is_the_largest_and_has_to_be_found() -> None:
    x = X.clone()
    x[0, 3] = torch.nan
    expectation = chosen(lambda x: x.argmax(-1), x)
    assert check(expectation, torch.tensor([3, 0, 0]), WORD) is None
    assert found(expectation, torch.tensor([1, 0, 0])).index == (0,)


def test_unwritten_indices_are_named_as_such() -> None:
    got = poisoned((3,), torch.int64)
    got[0] = 1
    mismatch = found(chosen(lambda x: x.argmax(-1), X), got)
    assert (mismatch.kind, mismatch.index, mismatch.unwritten) == (MismatchKind.unwritten, (1,), 2)


# --- what travels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3.0, torch.nan, torch.inf])
def test_a_mismatch_travels_as_json_and_becomes_evidence(value: float) -> None:
    got = REFERENCE.clone()
    got[0, 0] = value
    sent = json.loads(json.dumps(found(around(REFERENCE), got).to_json(), allow_nan=False))
    assert Reason(sent.pop("kind")) in (Reason.wrong, Reason.nan_or_inf)
    evidence = MismatchEvidence(workload="w", family="normal", trial=1, result="out", **sent)
    assert evidence.index == (0, 0)
