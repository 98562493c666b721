"""Inline PTX on the emulator: asynchronous copies that are late, and products on tensor cores."""

from __future__ import annotations

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts.cuda.emulate.ptx import without_known_ptx
from kernelwright.contracts.cuda.emulate.refuse import NotEmulatedError, refuse_source
from kernelwright.contracts.cuda.source import Sources
from kernelwright.judge.emulate.check import Checker, CheckOutcome
from kernelwright.judge.verdict import Reason

# Each warp brings 16 rows of 8 elements to shared memory and multiplies them by twice the identity.
KERNEL = r"""
__global__ void double_it(const float* x, float* out, int n) {
  __shared__ __align__(16) float rows[16][12];
  const int lane = threadIdx.x, first = blockIdx.x * 128;
  for (int i = lane; i < 128; i += 32) {
    const int from = min(first + i, n - 1);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "l"(__cvta_generic_to_shared(&rows[i / 8][i % 8])), "l"(x + from), "r"(first + i < n ? 4 : 0)
                 : "memory");
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
  WAIT
  __syncthreads();
  unsigned a[4], small[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "l"(__cvta_generic_to_shared(&rows[lane % 16][lane / 16 * 4])));
  for (int i = 0; i < 4; ++i) small[i] = __float_as_uint(__uint_as_float(a[i]) - __uint_as_float(a[i] & 0xffffe000u));
  unsigned b[2] = {0, 0};
  if (lane % 4 == lane / 4 % 4) b[lane / 16] = __float_as_uint(2.f);
  float d[4] = {};
  for (const auto& part : {a, small})
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(part[0]), "r"(part[1]), "r"(part[2]), "r"(part[3]), "r"(b[0]), "r"(b[1]),
                   "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]));
  for (int e = 0; e < 4; ++e) {
    const int i = first + (lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2;
    if (i < n) out[i] = d[e];
  }
}
"""
PLAN = """
import kw

def plan(x, out):
    return kw.plan(kw.launch("double_it", (x.numel() + 127) // 128, 32, x, out, kw.i32(x.numel())))
"""
WAIT = 'asm volatile("cp.async.wait_group %0;" :: "n"(0) : "memory");'


def candidate(wait: str) -> Candidate:
    return Candidate("cuda", Sources(KERNEL.replace("WAIT", wait), PLAN).joined(), "ptx")


def test_a_product_on_tensor_cores_is_right(checker: Checker, double: str) -> None:
    found = checker.check(double, candidate(WAIT))
    assert found.outcome is CheckOutcome.right, found


def test_a_copy_that_nobody_waits_for_has_not_come(checker: Checker, double: str) -> None:
    found = checker.check(double, candidate(""))
    assert (found.outcome, found.reason) == (CheckOutcome.faulty, Reason.nan_or_inf)


POWER = r"""
__global__ void double_it(const float* x, float* out, int n) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  if (i >= n) return;
  const float inputs[] = {1.f, 1e-40f, -127.f, -1e9f}, expected[] = {2.f, 1.f, 0.f, 0.f};
  float factor = 2.f;
  for (int e = 0; e < 4; ++e) {
    float made;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(inputs[e]));
    if (made != expected[e]) factor = 0.f;
  }
  out[i] = factor * x[i];
}
"""


def test_a_power_of_two_is_right_and_never_subnormal(checker: Checker, double: str) -> None:
    plan = PLAN.replace("+ 127) // 128", "+ 31) // 32")
    found = checker.check(double, Candidate("cuda", Sources(POWER, plan).joined(), "ptx"))
    assert found.outcome is CheckOutcome.right, found


def test_an_instruction_becomes_a_call_on_as_many_lines() -> None:
    text = 'asm volatile("cp.async.cg.shared.global [%1],\\n [%0], 16;"\n  :: "l"(f(x, (1))), "l"(y) : "memory");'
    made = without_known_ptx(text.replace("\\n", ""))
    assert made == "kw::ptx::copy((y), (f(x, (1))), 16);\n"


@pytest.mark.parametrize("text", ["cp.async.bulk.commit_group;", "cp.async.commit_group; mov.u32 a, b;"])
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(NotEmulatedError, match="inline PTX"):
        refuse_source(f'asm volatile("{text}");')


GROUP = """asm volatile(
  "{ .reg .pred p; setp.ne.b32 p, %9, 0; "
  "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, SIGN; }"
  : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
  : "r"(a), "r"(b), "r"(d), "r"(e), "l"(at), "r"(more));"""
SHARED = (
    'asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0; wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 '
    '{%0, %1, %2, %3}, %4, %5, p, 1, 1; }" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) '
    ': "l"(left), "l"(right), "r"(more));'
)


def test_a_predicate_that_is_made_for_an_instruction_is_its_operand() -> None:
    made = without_known_ptx(GROUP.replace("SIGN", "1"))
    assert made.count("\n") == GROUP.count("\n")
    assert made.strip() == (
        "{ float* const sums[] = {&(c[0]), &(c[1]), &(c[2]), &(c[3])}; "
        "kw::ptx::multiply_group(sums, (a), (b), (d), (e), (at), (more)); }"
    )


@pytest.mark.parametrize("text", [GROUP.replace("SIGN", "-1"), SHARED], ids=["another sign", "left in shared memory"])
def test_a_product_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(NotEmulatedError, match="inline PTX"):
        refuse_source(text)


@pytest.mark.parametrize(
    "statement",
    [
        'asm volatile("cp.async.wait_group %7;" :: "n"(0));',
        'asm volatile("cp.async.wait_group %0;" :: "n"((0));',
        f'asm volatile("cp.async.wait_group %{"9" * 9999};" :: "n"(0));',
        f'asm volatile("wgmma.mma_async.sync.aligned.m64n{"9" * 9999}k8.f32.tf32.tf32 %0;" :: "n"(0));',
        'asm volatile("cp.async.wait_group %0;" :: "n"(0)',
    ],
)
def test_what_names_an_operand_that_is_not_there_is_refused(statement: str) -> None:
    with pytest.raises(NotEmulatedError, match=r"kernel\.cu:1: the emulator has no inline PTX"):
        refuse_source(statement)


# One warp doubles what another brings to shared memory, number by number, in a ring of two.
PIPELINE = r"""
__device__ void wait_at(unsigned long long* barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "l"(__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
  } while (!done);
}
__device__ void arrive_at(unsigned long long* barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "l"(__cvta_generic_to_shared(barrier)) : "memory");
}
__global__ void double_it(const float* x, float* out, int n) {
  __shared__ float ring[2][32];
  __shared__ unsigned long long full[2], empty[2];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0)
    for (int s = 0; s < 2; ++s)
      for (auto* one : {full + s, empty + s})
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "l"(__cvta_generic_to_shared(one)), "r"(32) : "memory");
  __syncthreads();
  for (int step = 0; step * 32 < n; ++step) {
    const int stage = step % 2, at = min(step * 32 + lane, n - 1);
    if (threadIdx.x >= 32) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(24));
      wait_at(empty + stage, step / 2 % 2 ^ 1);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                   :: "l"(__cvta_generic_to_shared(&ring[stage][lane])), "l"(x + at) : "memory");
      FILLED
    } else {
      wait_at(full + stage, step / 2 % 2);
      out[at] = 2.f * ring[stage][31 - (31 - lane)];
      arrive_at(empty + stage);
    }
  }
  if (threadIdx.x < 32) asm volatile("bar.sync 1, %0;" :: "n"(MEET) : "memory");
}
"""
PIPELINE_PLAN = """
import kw

def plan(x, out):
    return kw.plan(kw.launch("double_it", 1, 64, x, out, kw.i32(x.numel())))
"""
FILLED = (
    'asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" '
    ':: "l"(__cvta_generic_to_shared(full + stage)) : "memory");'
)


@pytest.mark.parametrize(
    ("filled", "meet", "outcome", "words"),
    [
        (FILLED, 32, CheckOutcome.right, ""),
        ("arrive_at(full + stage);", 32, CheckOutcome.faulty, ""),  # before the copy is there
        ("", 32, CheckOutcome.faulty, "a barrier of some of its block"),
        (FILLED, 64, CheckOutcome.faulty, "a barrier of some of its block"),
    ],
    ids=["right", "too early", "nobody arrives", "too few meet"],
)
def test_warps_wait_at_barriers_in_shared_memory(
    checker: Checker, double: str, filled: str, meet: int, outcome: CheckOutcome, words: str
) -> None:
    source = PIPELINE.replace("FILLED", filled).replace("MEET", str(meet))
    found = checker.check(double, Candidate("cuda", Sources(source, PIPELINE_PLAN).joined(), "ptx"))
    assert found.outcome is outcome and words in str(found), found
