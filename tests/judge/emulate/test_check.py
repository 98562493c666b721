"""CUDA source on the emulator: honest kernels are right, faults are found and named, the rest is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts.cuda.source import Sources, read_cuda_candidate
from kernelwright.judge.emulate.check import Checker, CheckOutcome, CheckResult
from kernelwright.judge.verdict import BuildEvidence, MismatchEvidence, ProcessEvidence, Reason, SanitizerEvidence

TESTS = Path(__file__).parents[2]
HONEST = ("vector", "shared", "split", "cooperative", "cluster", "workspace")
PLAN = """
import kw

def plan(x, out):
    n = x.numel()
    return kw.plan(kw.launch("double_it", (n + 127) // 128, 128, x, out, kw.i32(n){extra}))
"""


def doubling(body: str, *, before: str = "", extra: str = "") -> Candidate:
    head = "__global__ void double_it(const float* x, float* out, int n)"
    kernel = f"{before}\n{head} {{\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n{body}\n}}\n"
    return Candidate("cuda", Sources(kernel, PLAN.replace("{extra}", extra)).joined(), "doubling")


def lines(check: CheckResult) -> str:
    assert isinstance(check.evidence, SanitizerEvidence), check
    return "\n".join(check.evidence.lines)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_is_right(checker: Checker, rmsnorm: str, name: str) -> None:
    found = checker.check(rmsnorm, read_cuda_candidate(TESTS / "kernels_cuda" / f"rmsnorm_{name}"))
    assert found.outcome is CheckOutcome.right, found
    assert len(found.workloads) == 2


def test_what_it_says_has_no_time(checker: Checker, double: str) -> None:
    found = checker.check(double, doubling("  if (i < n) out[i] = 2 * x[i];"))
    assert found.outcome is CheckOutcome.right
    assert "seconds" not in found.model_dump_json()


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("cub", "the emulator has no cub/block/block_reduce.cuh: judge this kernel on a GPU"),
        ("tma", "kernel.cu:26: the emulator has no inline PTX: judge this kernel on a GPU"),
    ],
)
def test_what_it_does_not_have_is_refused_in_a_line(checker: Checker, rmsnorm: str, name: str, what: str) -> None:
    found = checker.check(rmsnorm, read_cuda_candidate(TESTS / "kernels_cuda" / f"rmsnorm_{name}"))
    assert (found.outcome, found.message) == (CheckOutcome.unchecked, what)


def test_a_task_that_is_too_large_says_how_to_make_it_smaller(
    checker: Checker, double: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "most_elements", 150)
    found = checker.check(double, doubling("  if (i < n) out[i] = 2 * x[i];"))
    assert found.outcome is CheckOutcome.unchecked and "name smaller sizes, TASK@n=96" in found.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("past_end_one", Reason.unsafe),
        ("write_input", Reason.unsafe),
        ("cache_workspace", Reason.unsafe),
        ("launch_cooperative_too_large", Reason.unsafe),
        ("partial_last_element", Reason.unwritten),
        ("downcast", Reason.imprecise),
        ("zeros", Reason.wrong),
    ],
)
def test_what_a_gpu_would_reject_is_faulty(checker: Checker, rmsnorm: str, name: str, reason: Reason) -> None:
    found = checker.check(rmsnorm, read_cuda_candidate(TESTS / "gpu" / "exploits" / f"{name}.cu"))
    assert (found.outcome, found.reason) == (CheckOutcome.faulty, reason)


def test_it_works_without_the_sanitizers(checker: Checker, rmsnorm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.judge.emulate.check.sanitizers_available", lambda: False)
    found = checker.check(rmsnorm, read_cuda_candidate(TESTS / "kernels_cuda" / "rmsnorm_cooperative"))
    assert (found.outcome, found.sanitizers) == (CheckOutcome.right, "none")


def test_a_missing_barrier_shows_in_the_result(checker: Checker, rmsnorm: str) -> None:
    found = checker.check(rmsnorm, read_cuda_candidate(TESTS / "gpu" / "faulty" / "race.cu"))
    assert found.outcome is CheckOutcome.faulty
    assert isinstance(found.evidence, MismatchEvidence)


def test_a_barrier_missing_on_the_other_side_shows_too(checker: Checker, double: str) -> None:
    """Threads with high numbers read what those with low ones wrote: right in the order in which one would try it."""
    body = "  __shared__ float kept[128];\n  kept[threadIdx.x] = i < n ? 2 * x[i] : 0.f;\n"
    body += "  float left = kept[threadIdx.x / 2];\n  if (i < n) out[i] = 2 * x[i] + 0.f * left;"
    found = checker.check(double, doubling(body))
    assert found.outcome is CheckOutcome.faulty
    assert isinstance(found.evidence, MismatchEvidence) and found.evidence.trial == 1


def test_unwritten_scratch_is_a_nan(checker: Checker, double: str) -> None:
    kernel = "__global__ void f(const float* x, float* out, float* mine, int n) {\n"
    kernel += "  for (int i = threadIdx.x; i < n; i += 128) out[i] = 2 * x[i] + 0.f * mine[i];\n}\n"
    plan = "import kw\ndef plan(x, out):\n    mine = kw.scratch('mine', 4 * x.numel())\n"
    plan += "    return kw.plan(kw.launch('f', 1, 128, x, out, mine, kw.i32(x.numel())))\n"
    found = checker.check(double, Candidate("cuda", Sources(kernel, plan).joined(), "scratch"))
    assert found.reason is Reason.nan_or_inf


def test_a_write_past_the_end_is_caught(checker: Checker, double: str) -> None:
    found = checker.check(double, doubling("  if (i <= n) out[i] = i < n ? 2 * x[i] : 0.f;"))
    assert (found.outcome, found.reason) == (CheckOutcome.faulty, Reason.unsafe)
    assert "AddressSanitizer" in lines(found) and "kernel.cu:4" in lines(found)


@pytest.mark.parametrize("declared", ["__shared__ float kept[128];", "extern __shared__ float kept[];"])
def test_an_access_outside_of_shared_memory_is_caught(checker: Checker, double: str, declared: str) -> None:
    body = f"  {declared}\n  kept[threadIdx.x + (i == 5 ? 124 : 0)] = 1.f;\n  if (i < n) out[i] = 2 * x[i];"
    found = checker.check(double, doubling(body, extra=", shared=512" if "extern" in declared else ""))
    assert found.reason is Reason.unsafe, found
    assert "kernel.cu:5" in lines(found)


def test_a_misaligned_vector_is_caught(checker: Checker, double: str) -> None:
    body = "  if (i == 0) { float2 v = *(const float2*)(x + 1); out[0] = v.x; }\n  if (i < n) out[i] = 2 * x[i];"
    assert "misaligned" in lines(checker.check(double, doubling(body)))


def test_a_divergent_barrier_is_named(checker: Checker, double: str) -> None:
    body = "  if (threadIdx.x < 64) __syncthreads();\n  else __syncthreads();\n  if (i < n) out[i] = 2 * x[i];"
    said = lines(checker.check(double, doubling(body)))
    assert "divergent barrier" in said and "line 4 and at line 5" in said


def test_a_barrier_that_not_all_lanes_reach_is_named(checker: Checker, double: str) -> None:
    body = "  if (threadIdx.x < 40) __syncthreads();\n  else __shfl_sync(~0u, i, 0);\n  if (i < n) out[i] = 2 * x[i];"
    said = lines(checker.check(double, doubling(body)))
    assert "divergent barrier" in said and "__syncthreads at line 4" in said


def test_threads_that_left_are_not_waited_for(checker: Checker, double: str) -> None:
    body = "  if (i >= n) return;\n  __syncthreads();\n  out[i] = 2 * x[i];"
    assert checker.check(double, doubling(body)).outcome is CheckOutcome.right


def test_a_workspace_must_be_left_zero(checker: Checker, double: str) -> None:
    kernel = "__global__ void f(const float* x, float* out, int* seen, int n) {\n"
    kernel += "  for (int i = threadIdx.x; i < n; i += 128) out[i] = 2 * x[i];\n  atomicAdd(seen, 1);\n}\n"
    plan = "import kw\ndef plan(x, out):\n    seen = kw.workspace('seen', 4)\n"
    plan += "    return kw.plan(kw.launch('f', 1, 128, x, out, seen, kw.i32(x.numel())))\n"
    found = checker.check(double, Candidate("cuda", Sources(kernel, plan).joined(), "workspace"))
    assert "the workspace seen is not zero after the call" in lines(found)


def test_device_variables_keep_nothing_from_call_to_call(checker: Checker, double: str) -> None:
    before = "__device__ int calls = 1;\n__constant__ float two = 2.f;"
    body = "  if (i < n) out[i] = calls == 1 ? two * x[i] : 0.f;\n  __syncthreads();\n"
    body += "  if (i == n - 1) calls = 1;"
    assert checker.check(double, doubling(body, before=before)).outcome is CheckOutcome.right
    once = "  if (i == 0) calls += n;\n  if (i < n) out[i] = calls <= 1 + n ? two * x[i] : 0.f;"
    assert checker.check(double, doubling(once, before=before)).outcome is CheckOutcome.right


def test_arguments_that_do_not_fit_are_named(checker: Checker, double: str) -> None:
    found = checker.check(double, doubling("  if (i < n) out[i] = 2 * x[i];", extra=", kw.i32(1)"))
    assert "the plan gives 4 arguments and the kernel takes 3" in lines(found)


@pytest.mark.parametrize(
    ("name", "header", "named"),
    [
        ("INFINITY", "math.h", "math.h"),
        pytest.param("CUDART_INF_F", "math_constants.h", "math_constants.h", marks=pytest.mark.slow),
        pytest.param("INT_MAX", "cooperative_groups.h", "limits.h", marks=pytest.mark.slow),
    ],
)
def test_a_name_whose_header_is_missing_is_unknown(
    checker: Checker, double: str, name: str, header: str, named: str
) -> None:
    body = f"  if (i < n) out[i] = x[i] < {name} ? 2 * x[i] : 0.f;"
    found = checker.check(double, doubling(body))
    assert isinstance(found.evidence, BuildEvidence)
    assert found.evidence.lines[0] == f"{name} needs #include <{named}>"
    assert checker.check(double, doubling(body, before=f"#include <{header}>")).outcome is CheckOutcome.right


def test_a_wrong_kernel_is_wrong(checker: Checker, double: str) -> None:
    found = checker.check(double, doubling("  if (i < n) out[i] = 3 * x[i];"))
    assert isinstance(found.evidence, MismatchEvidence)


def test_a_kernel_cannot_reach_beyond_its_sandbox(checker: Checker, double: str) -> None:
    before = 'extern "C" int open(const char*, int, ...);\nextern "C" [[noreturn]] void _exit(int);'
    body = '  if (open("/etc/passwd", 0) < 0) _exit(7);\n  if (i < n) out[i] = 2 * x[i];'
    found = checker.check(double, doubling(body, before=before))
    assert isinstance(found.evidence, ProcessEvidence) and "exited with code 7" in found.evidence.ending
