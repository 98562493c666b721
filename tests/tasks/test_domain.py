"""Check points cover every class of every declared size within their limits, and cannot be known without the key."""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from statistics import median

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.tasks import TaskError, tensor
from kernelwright.tasks.declarations import integers
from kernelwright.tasks.domain import CheckPoints, PointLimits, check_points, coverage
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.hidden import require_within, work
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.resolve import builtin_names, resolve
from kernelwright.tasks.size_classes import LEAST, MOST, classes_of, coarse_classes_of, size_groups

from .samples import small_task

KEY = b"made for one judging"


def box(ranges: dict[str, tuple[int, int]], **changes: object) -> Task:
    """A task whose one tensor has every size as a dimension."""
    public = [{name: max(low, min(high, 40)) for name, (low, high) in ranges.items()}]
    inputs = {"x": tensor(*ranges)}
    return small_task(**{"inputs": inputs, "public": public, "hidden": ranges, **changes})


def footprint(task: Task, workload: Workload) -> int | None:
    try:
        return sum(4 * math.prod(one.shape) for one in signature(task, workload).tensors)
    except TaskError:
        return None


def cost(task: Task, workload: Workload, limits: PointLimits) -> float:
    usual = max(median(work(task, sizes) for sizes in task.public), limits.smallest)
    return work(task, workload.size_map) / usual


def met(found: CheckPoints, task: Task) -> set[tuple[str, str]]:
    return {
        (name, one)
        for point in found.points
        for name, value in point.sizes
        for one in classes_of(value, *task.hidden[name])
    }


def declared(task: Task) -> set[tuple[str, str]]:
    """Every class of every range."""
    return {
        (name, one) for name, bounds in task.hidden.items() for group in size_groups(*bounds) for one in group.classes
    }


def sound(task: Task, found: CheckPoints, limits: PointLimits) -> None:
    assert len(found.points) == len(set(found.points)) <= limits.points
    for point in found.points:
        assert point.hidden
        require_within(task, point)
        assert cost(task, point, limits) <= limits.single * (1 + 1e-9)
    total = sum(cost(task, point, limits) for point in found.points)
    assert total == pytest.approx(found.work) and total <= limits.total * (1 + 1e-9)
    covered, possible = found.coverage.classes
    assert possible - covered == len(found.coverage.missing)
    for pairs in (found.coverage.coarse_pairs, found.coverage.fine_pairs):
        assert 0 <= pairs[0] <= pairs[1]


def variants() -> list[tuple[str, str]]:
    names = [name + suffix for name in builtin_names() for suffix in ("", ":backward")]
    without = ("adamw:backward", "argmax:backward")
    return [(name, device) for name in names if name not in without for device in ("cpu", "cuda")]


@pytest.mark.parametrize(("name", "device"), variants())
def test_every_builtin_task_has_every_class_and_every_coarse_pair(name: str, device: str) -> None:
    task, limits = resolve(name, device), PointLimits()
    found = check_points(task, KEY, limits)
    sound(task, found, limits)
    assert found.coverage.missing == ()
    assert met(found, task) == declared(task)
    assert found.coverage.coarse_pairs[0] >= 0.97 * found.coverage.coarse_pairs[1]
    least = {name: low for name, (low, _) in task.hidden.items()}
    assert any(point.size_map == least for point in found.points)


@pytest.mark.parametrize("name", ["rmsnorm", "linear", "maxpool2d", "llama_ffw:backward"])
def test_the_reference_takes_the_points_of_builtin_tasks(name: str) -> None:
    task = resolve(name)
    asked: list[Workload] = []

    def ask(workload: Workload) -> int | None:
        asked.append(workload)
        return footprint(task, workload)

    found = check_points(task, KEY, footprint=ask)
    assert len(found.points) == 40 and found.coverage.missing == ()
    assert len(asked) < 50  # only about points that are taken, or nearly


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 300), st.sampled_from((0, 1, 8, 100, 1000))), min_size=1, max_size=6),
    st.sampled_from((("float32",), ("float32", "bfloat16"), ("float16", "bfloat16", "float32"))),
    st.binary(min_size=1, max_size=8),
)
def test_any_ranges(spans: list[tuple[int, int]], dtypes: tuple[str, ...], key: bytes) -> None:
    ranges = {f"n{place}": (low, low + span) for place, (low, span) in enumerate(spans)}
    task, limits = box(ranges, dtypes=dtypes), PointLimits()
    found = check_points(task, key, limits)
    sound(task, found, limits)
    named = {f"{name} {one}" for name, one in declared(task) - met(found, task)}
    words = {word.partition(" (")[0] for word in found.coverage.missing}
    assert words == named | {f"dtype {dtype}" for dtype in set(dtypes) - {p.dtype for p in found.points}}
    for name, one in declared(task) - met(found, task):  # even the lightest is beyond the limits
        low, high = task.hidden[name]
        first = next(value for value in range(low, high + 1) if one in classes_of(value, low, high))
        lightest = Workload(tuple((n, first if n == name else r[0]) for n, r in task.hidden.items()))
        over = cost(task, lightest, limits) > limits.single or 4 * work(task, lightest.size_map) > limits.bytes
        assert over or found.work > limits.total / 2


def test_the_counts_are_those_of_the_points() -> None:
    task = resolve("linear")
    found = check_points(task, KEY)

    def standing(value: int, low: int, high: int) -> tuple[str, ...]:
        """In fine pairs an end of a range stands for itself alone."""
        names = classes_of(value, low, high)
        return tuple(one for one in names if one in (LEAST, MOST)) or names

    for of, counts in ((coarse_classes_of, found.coverage.coarse_pairs), (standing, found.coverage.fine_pairs)):
        pairs = set()
        for point in found.points:
            named = [[(name, one) for one in of(value, *task.hidden[name])] for name, value in point.sizes]
            for first, second in itertools.combinations(named, 2):
                pairs |= set(itertools.product(first, second))
        assert len(pairs) == counts[0]


def test_every_remainder_of_a_vector_is_met_and_work_between_ordinary_and_most() -> None:
    task = resolve("rmsnorm")
    for number in range(10):
        points = [point.size_map for point in check_points(task, bytes([number])).points]
        for name in task.hidden:
            assert {sizes[name] % 8 for sizes in points} == set(range(8))
        usual = 1024 * 2048
        assert any(1.5 * usual < sizes["rows"] * sizes["cols"] < 20 * usual for sizes in points)
        ends = {end for bounds in task.hidden.values() for end in bounds}
        inside = [sizes for sizes in points if not ends & set(sizes.values())]
        assert len(inside) >= len(points) // 3  # not most of them at an end


def test_every_dtype_meets_every_class() -> None:
    task = box({"rows": (10, 2000), "cols": (10, 2000)}, dtypes=("float32", "float16"))
    found = check_points(task, KEY)
    together = {
        (point.dtype, name, one)
        for point in found.points
        for name, value in point.sizes
        for one in classes_of(value, *task.hidden[name])
    }
    assert len(together) == 2 * len(declared(task))


def test_the_most_work_within_the_limit_is_among_them() -> None:
    task, limits = resolve("linear"), PointLimits(single=20.0)
    works = sorted(cost(task, point, limits) for point in check_points(task, KEY, limits).points)
    assert 10 < works[-1] <= 20
    roomy = box({"rows": (1, 900), "cols": (1, 900)})
    assert {"rows": 900, "cols": 900} in [point.size_map for point in check_points(roomy, KEY).points]


def test_another_key_gives_other_points_and_the_same_key_the_same() -> None:
    task = resolve("rmsnorm")
    first, again, other = (set(check_points(task, key).points) for key in (KEY, KEY, b"another"))
    assert first == again
    assert len(first & other) < 13  # corners are where they are


def test_values_are_drawn_from_all_of_a_class() -> None:
    """An odd size beside a multiple of 128 does not stand for all odd sizes, nor does one certain odd size."""
    task = box({"rows": (1, 64), "cols": (1, 200)})
    inner = [group.classes for group in size_groups(1, 200) if group.least < group.most]
    widths: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for seed in range(20):
        found = {point.size_map["cols"] for point in check_points(task, bytes([seed])).points}
        for classes in inner:
            drawn = {value for value in found if classes_of(value, 1, 200) == classes}
            assert drawn
            widths[classes] |= drawn
    assert len(widths["odd",]) > 15


def test_a_class_beyond_the_limits_is_missing() -> None:
    task = box({"rows": (1000, 9000), "cols": (1000, 9000)}, public=[{"rows": 1000, "cols": 1000}])
    found = check_points(task, KEY, PointLimits(single=3.0, total=90.0))
    assert found.coverage.missing == ("rows at its most (9000)", "cols at its most (9000)")
    small = check_points(task, KEY, PointLimits(bytes=20_000_000))
    assert small.coverage.missing == ("rows at its most (9000)", "cols at its most (9000)")


def test_few_points_leave_classes_missing() -> None:
    found = check_points(resolve("rmsnorm"), KEY, PointLimits(points=4))
    assert len(found.points) == 4
    assert 4 < len(found.coverage.missing) < 24


def test_sizes_that_make_no_tensor_are_not_missing() -> None:
    ranges = {"height": (4, 64), "kernel": (1, 9)}
    inputs = {"x": tensor("height", "height - kernel + 1")}
    task = box(ranges, inputs=inputs, public=[{"height": 32, "kernel": 3}])
    found = check_points(task, KEY)
    assert found.coverage.missing == ()
    assert met(found, task) == declared(task)  # the largest kernel on larger images
    for point in found.points:
        assert point.size_map["kernel"] <= point.size_map["height"]


def test_whole_numbers_need_a_range_that_is_not_empty() -> None:
    inputs = {"x": tensor("rows"), "index": tensor("rows", draw=integers(1, "classes"), dtype="int64")}
    task = box({"rows": (1, 50), "classes": (1, 50)}, inputs=inputs, public=[{"rows": 9, "classes": 9}])
    found = check_points(task, KEY)
    assert all(point.size_map["classes"] > 1 for point in found.points)
    assert found.coverage.missing == ()


def halves(x: torch.Tensor) -> torch.Tensor:
    return x[..., ::2] * x[..., 1::2]


def test_classes_that_the_reference_refuses_are_not_missing() -> None:
    task = box({"rows": (10, 500), "cols": (10, 500)}, reference=halves)
    with pytest.raises(TaskError):
        signature(task, Workload((("rows", 3), ("cols", 11))))
    found = check_points(task, KEY, footprint=lambda workload: footprint(task, workload))
    assert found.coverage.missing == ()
    assert all(point.size_map["cols"] % 2 == 0 for point in found.points)
    assert found.coverage.classes == (12 + 9, 12 + 9)  # no odd cols, none beside a multiple of 128
    assert len(found.points) > 30


def outer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x[:, None] * y[None, :]


def test_results_count_as_memory_too() -> None:
    inputs = {"x": tensor("n"), "y": tensor("m")}
    task = box({"n": (10, 99_000), "m": (10, 99_000)}, inputs=inputs, reference=outer)
    limits = PointLimits(bytes=100_000_000)
    found = check_points(task, KEY, limits, lambda workload: footprint(task, workload))
    assert found.coverage.missing == ()
    assert max(math.prod(point.size_map.values()) for point in found.points) <= 25_000_000


def test_the_first_points_cover_the_classes() -> None:
    task = resolve("linear")
    found = check_points(task, KEY)
    assert coverage(task, found.points) == found.coverage
    assert coverage(task, found.points[:25]).missing == ()
    few = coverage(task, found.points[:3])
    assert few.classes[0] < few.classes[1] == found.coverage.classes[1]
    assert len(few.missing) == few.classes[1] - few.classes[0]


def test_what_the_reference_refuses_is_not_missing_from_some_of_the_points_either() -> None:
    task = box({"rows": (10, 500), "cols": (10, 500)}, reference=halves)
    found = check_points(task, KEY, footprint=lambda workload: footprint(task, workload))
    assert coverage(task, found.points) == found.coverage


MATRICES = {"a": tensor("m", "k"), "b": tensor("3 * k", "n")}


@given(st.binary(min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_sizes_are_equal_somewhere(key: bytes) -> None:
    ranges = {"m": (1, 300), "k": (1, 90), "n": (1, 400)}
    found = check_points(box(ranges, inputs=MATRICES), key)
    points = [point.size_map for point in found.points[:20]]
    assert any(1 < point["m"] == point["k"] == point["n"] for point in points)
    assert found.coverage.missing == ()


def test_axes_of_a_tensor_are_equal_somewhere_where_they_can_be() -> None:
    ranges = {"m": (1, 300), "k": (1, 90), "n": (1, 400)}
    keys = [bytes([key]) for key in range(8)]
    points = [one.size_map for key in keys for one in check_points(box(ranges, inputs=MATRICES), key).points]
    assert any(3 * point["k"] == point["n"] > 3 for point in points)


def test_ranges_that_do_not_meet_have_no_equal_sizes() -> None:
    found = check_points(box({"rows": (1, 20), "cols": (100, 200)}), KEY)
    assert not any(point.size_map["rows"] == point.size_map["cols"] for point in found.points)


@pytest.mark.timed
def test_choosing_is_quick() -> None:
    task = resolve("unet_linear")
    check_points(task, KEY)
    begin = time.process_time()
    for seed in range(5):
        check_points(task, bytes([seed]))
    assert (time.process_time() - begin) / 5 < 0.15
