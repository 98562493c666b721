"""What errors say over a judging: rules on emulated kernels, and what is reported where nothing can be seen."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from corpus.judgings import Case, cases, measure  # noqa: E402
from kernelwright.judge.oracle.errors.gathering import JudgingErrors  # noqa: E402
from kernelwright.judge.oracle.errors.observations import STATISTICS, sample_index, share_sums  # noqa: E402
from kernelwright.judge.oracle.errors.rules import ErrorFinding, TrialSet  # noqa: E402
from kernelwright.judge.oracle.errors.shortened import kept  # noqa: E402
from kernelwright.judge.oracle.errors.yardstick import running, sequential_results  # noqa: E402
from kernelwright.judge.oracle.pool import ValuePool  # noqa: E402
from kernelwright.judge.oracle.right.constants import CONSTANTS  # noqa: E402
from kernelwright.tasks import Task, tensor  # noqa: E402
from kernelwright.tasks.model import Workload  # noqa: E402
from kernelwright.tasks.reference import run_reference  # noqa: E402

SEEN = {
    "softmax": {"bias 2e-5", "cubic exp", "quartic exp", "18 bits, cut", "18 bits, nearest", "bf16 steps"},
    "linear": {"bias 2e-5", "TF32", "TF32, cut", "2xTF32, left", "2xTF32, right", "bf16x3", "bf16x3, cut", "bf16x4"},
    "rmsnorm": {"bias 2e-5", "bias 1e-6", "18 bits, cut", "18 bits, nearest", "18-bit rsqrt"},
}
FORMS = {"TF32": "tf32", "2xTF32, left": "2xtf32", "bf16x3": "bf16x3"}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def case_of(label: str) -> Case:
    return next(case for case in cases() if case.label == label)


@pytest.mark.parametrize("label", SEEN)
def test_honest_kernels_are_not_called_imprecise_and_bad_ones_are(label: str) -> None:
    rows = {row.kernel: row for row in measure(case_of(label), [1])}
    assert [row for row in rows.values() if row.honest and any(row.imprecise.values())] == []
    assert {kernel for kernel in SEEN[label] if not rows[kernel].imprecise[TrialSet.judging]} == set()
    for kernel, name in FORMS.items():
        if kernel in rows:
            assert rows[kernel].findings == {name}


def test_the_written_results_are_of_these_constants() -> None:
    written = json.loads((ROOT / "benchmarks/results/precision_corpus.json").read_text())
    assert written["constants"] == asdict(CONSTANTS), "run benchmarks/cpu/precision_corpus.py again"
    summary = written["summary"]
    for kind, margins in summary["nearest honest"].items():
        assert summary["honest"][kind]["imprecise"] == 0
        assert max(margins.values()) < 0.85
    assert summary["honest"]["judging"]["judged"] >= 800


def make(reference: Callable[..., Any], dtype: str = "float32") -> Task:
    x = tensor("rows", "cols")
    return Task(
        reference=reference,
        inputs={"x": x},
        public=[{"rows": 40, "cols": 300}],
        hidden={"rows": (1, 64), "cols": (1, 512)},
        name="t",
        dtypes=(dtype,),
    )


def judged(task: Task, kernel: Callable[[torch.Tensor], torch.Tensor], trials: int = 24) -> dict[str, Any]:
    """As the oracle does it, on values of its pool."""
    (workload,) = task.public_workloads()
    errors = JudgingErrors()
    entries = ValuePool(task, workload, b"k" * 32).trials("runner", 1 << 30)
    for entry, _ in zip(entries, range(trials), strict=False):
        errors.add(task, workload, entry, {"out": kernel(entry.tensor("x"))})
    report = errors.report()
    assert len(report["all"]) == len(report["public"]) == 1
    found: dict[str, Any] = report["all"][0]
    return found


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def test_a_report_stands_beside_eagers() -> None:
    found = judged(make(softmax), softmax)
    assert found["finding"] == "float32"
    assert found["rms"] == found["eager_rms"] > 0
    assert found["mean"] == found["eager_mean"]
    assert found["ulp"] == found["eager_ulp"] > 0
    assert 0 < found["share"] < 1
    assert found["elements"] > 24 * 1000
    assert found["smallest_bias"] < 1e-6


def test_a_bias_inside_the_tolerance_is_found() -> None:
    assert judged(make(softmax), lambda x: softmax(x) * (1 + 2e-5))["finding"] == "biased"


def test_one_number_does_not_show_a_format_but_a_bias() -> None:
    task = make(torch.mean)
    honest = judged(task, torch.mean, 48)
    assert honest["scalar"] and honest["elements"] == 48
    assert honest["finding"] in ("float32", "indistinguishable") and honest["smallest_bias"] is not None
    smallest = honest["smallest_bias"]
    assert judged(task, lambda x: x.mean() * (1 + 3 * smallest), 48)["finding"] == "biased"


def test_what_has_too_few_trials_or_a_narrow_format_is_indistinguishable() -> None:
    assert judged(make(torch.mean), torch.mean, 3)["finding"] == "indistinguishable"
    assert judged(make(softmax, "bfloat16"), softmax)["finding"] == "indistinguishable"
    wide = judged(make(softmax, "float64"), softmax)
    assert wide["finding"] == "indistinguishable" and wide["smallest_bias"] is None


def test_a_kernel_that_truncates_to_bfloat16_is_not_called_imprecise() -> None:
    def truncated(x: torch.Tensor) -> torch.Tensor:
        words = torch.softmax(x.float(), -1).view(torch.int32)
        return (words >> 16 << 16).view(torch.float32).bfloat16()

    assert judged(make(softmax, "bfloat16"), truncated)["finding"] == "indistinguishable"


def test_results_without_errors_are_right() -> None:
    assert judged(make(lambda x: x * 0), lambda x: x * 0)["finding"] == "indistinguishable"
    assert judged(make(lambda x: x + 1.0), lambda x: x + 1.0)["finding"] == "float32"


def test_hidden_workloads_do_not_enter_the_public_report() -> None:
    task = make(softmax)
    sizes = (("rows", 16), ("cols", 64))
    errors = JudgingErrors()
    for hidden in (False, True):
        workload = Workload(sizes, "float32", hidden)
        entries = ValuePool(task, workload, b"k" * 32).trials("runner", 1 << 30)
        for entry, _ in zip(entries, range(12), strict=False):
            factor = 1 + 2e-5 if hidden else 1.0
            errors.add(task, workload, entry, {"out": softmax(entry.tensor("x")) * factor})
    report = errors.report()
    assert report["public"][0]["finding"] == "float32"
    assert report["all"][0]["finding"] != "float32"
    assert report["all"][0]["elements"] == 2 * report["public"][0]["elements"]


def judged_at_sizes(kernels: dict[int, Callable[[torch.Tensor], torch.Tensor]], *, point: bool) -> dict[str, Any]:
    """Twelve trials on each workload, or one at each check point; `kernels` by the columns of the workload."""
    task = make(softmax)
    errors = JudgingErrors()
    for cols, kernel in kernels.items():
        workload = Workload((("rows", 40), ("cols", cols)), "float32", hidden=point)
        entries = ValuePool(task, workload, b"k" * 32).trials("runner", 1 << 30)
        for entry, _ in zip(entries, range(1 if point else 12), strict=False):
            errors.add(task, workload, entry, {"out": kernel(entry.tensor("x"))}, point=point)
    found: dict[str, Any] = errors.report()["all"][0]
    return found


def a_little_coarse(x: torch.Tensor) -> torch.Tensor:
    return kept(softmax(x), 17, True)


def test_what_is_coarse_on_one_workload_alone_is_not_diluted() -> None:
    sizes = (64, 96, 128, 192, 256, 300, 350, 400)
    honest = judged_at_sizes(dict.fromkeys(sizes, softmax), point=False)
    assert (honest["finding"], honest["found_in"]) == ("float32", "judging")
    found = judged_at_sizes({size: a_little_coarse if size == 400 else softmax for size in sizes}, point=False)
    assert (found["finding"], found["found_in"]) == ("coarse", "workload")


def test_what_is_coarse_at_large_check_points_alone_is_not_diluted() -> None:
    sizes = range(32, 352, 16)
    honest = judged_at_sizes(dict.fromkeys(sizes, softmax), point=True)
    assert (honest["finding"], honest["found_in"]) == ("float32", "judging")
    found = judged_at_sizes({size: a_little_coarse if size > 208 else softmax for size in sizes}, point=True)
    assert (found["finding"], found["found_in"]) == ("coarse", "points")


def test_what_is_coarse_in_two_rows_of_five_is_not_diluted() -> None:
    def partly(x: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(x.shape[0])[:, None] % 5 < 2
        return torch.where(rows, kept(softmax(x), 16, True), softmax(x))

    found = judged_at_sizes(dict.fromkeys((64, 128, 256), partly), point=False)
    assert (found["finding"], found["found_in"]) == ("coarse", "judging")


def test_one_trial_says_nothing_of_a_rounding_that_all_its_rows_share() -> None:
    """A norm over a whole tensor: one sum, which two orders round differently, by luck one of them hardly at all."""
    task = make(lambda x: x * torch.rsqrt(x.square().mean() + 1e-5))
    errors = JudgingErrors()
    for cols in range(32, 352, 16):
        workload = Workload((("rows", 40), ("cols", cols)), "float32", hidden=True)
        for entry, _ in zip(ValuePool(task, workload, b"k" * 32).trials("runner", 1 << 30), range(1), strict=False):
            x = entry.tensor("x")
            total = running((x * x).flip(0, 1).reshape(1, -1))[0, -1]
            out = x * torch.rsqrt(total / x.numel() + 1e-5)
            errors.add(task, workload, entry, {"out": out}, point=True)
    assert not ErrorFinding(errors.report()["all"][0]["finding"]).imprecise


def test_a_bias_on_one_workload_alone_is_found() -> None:
    sizes = (64, 96, 128, 192, 256, 300, 350, 400)
    found = judged_at_sizes(
        {size: (lambda x: softmax(x) * (1 + 2e-6)) if size == 400 else softmax for size in sizes}, point=False
    )
    assert (found["finding"], found["found_in"]) == ("biased", "workload")


@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 3), (64, 512), (3, 5000), (100_000,), (9, 4, 40), (0, 8)])
def test_a_sample_lies_inside_a_result_and_is_bounded(shape: tuple[int, ...]) -> None:
    index = sample_index(shape, torch.Generator().manual_seed(1))
    total = int(torch.tensor(shape).prod()) if shape else 1
    assert index.numel() <= STATISTICS.elements and (total == 0 or index.numel() > 0)
    assert total == 0 or (int(index.min()) >= 0 and int(index.max()) < total)
    assert len(index.unique()) == index.numel() or total > 4 * STATISTICS.rows * index.shape[1]


def test_samples_of_two_pairs_differ() -> None:
    one, two = (sample_index((1000, 64), torch.Generator().manual_seed(seed)) for seed in (1, 2))
    assert not torch.equal(one, two)


def test_running_sums_round_after_every_addition() -> None:
    terms = torch.tensor([[1.0, 2.0**-24, 2.0**-24]])
    assert running(terms)[0, -1] == 1.0
    assert float(terms.double().sum()) > 1.0


def test_the_yardstick_adds_up_in_parts_of_fused_operations_too() -> None:
    x = torch.full((2, 4096), 0.1)

    def loss() -> dict[str, torch.Tensor]:
        return {"out": torch.nn.functional.mse_loss(x, torch.zeros_like(x))}

    total = torch.tensor(0.0)
    for term in (x * x).view(-1):
        total = total + term
    sequential = sequential_results(loss, 2.0**-24, 0, torch.device("cpu"))["out"]
    assert sequential == total / x.numel()
    assert sequential != loss()["out"]


def test_an_error_below_half_a_unit_of_the_result_says_nothing() -> None:
    exact = torch.full((1, 8), 1.0, dtype=torch.float64)
    predicted = torch.full_like(exact, 2.0**-26)
    assert share_sums(predicted, predicted, exact, 2.0**-24)[1] == 0
    assert share_sums(predicted, predicted, exact * 2.0**-3, 2.0**-24)[1] > 0


def test_leading_bits_are_kept() -> None:
    value = torch.tensor([1 + 2.0**-10 + 2.0**-11 + 2.0**-12])
    assert kept(value, 11, nearest=True).item() == 1 + 2.0**-9
    assert kept(value, 11, nearest=False).item() == 1 + 2.0**-10


def test_a_reference_without_products_has_no_filters() -> None:
    task = make(softmax)
    (workload,) = task.public_workloads()
    errors = JudgingErrors()
    entry = next(iter(ValuePool(task, workload, b"k" * 32).trials("runner", 1 << 30)))
    before = entry.bytes
    errors.add(task, workload, entry, run_reference(task, entry.inputs))
    assert entry.samples is not None and entry.samples.taken["out"].predicted == {}
    assert before < entry.bytes
