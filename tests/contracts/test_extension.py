"""The `extension` contract: what it takes, how its functions are called, what it refuses, and checks without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.extension import EXTENSION
from kernelwright.contracts.extension.emulate.launches import without_launches
from kernelwright.contracts.extension.source import bound_functions, call_plan, inline_source, with_own_headers
from kernelwright.contracts.extension.toolchain.nvcc import nvcc
from kernelwright.contracts.extension.values import advice_on_torch
from kernelwright.contracts.host_build import build_as
from kernelwright.contracts.model import BuildFailure, BuildPlan, GpuBuild
from kernelwright.contracts.registry import read_source
from kernelwright.contracts.target import HOPPER
from kernelwright.devices import lock
from kernelwright.judge.emulate.check import Checker, CheckOutcome
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Signature
from kernelwright.tasks.resolve import resolve

HEAD = "#include <torch/extension.h>\n#include <cuda_runtime.h>\n#include <vector>\n"
BIND = '\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "a kernel"); }\n'
SOFTMAX = (
    HEAD
    + """
template <typename T>
__global__ void softmax(const T* __restrict__ x, T* __restrict__ y, int cols) {
  extern __shared__ float partial[];
  const T* row = x + int64_t(blockIdx.x) * cols;
  float most = -INFINITY, sum = 0;
  for (int i = 0; i < cols; ++i) most = fmaxf(most, row[i]);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(row[i] - most);
  partial[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < blockDim.x; ++i) sum += partial[i];
  for (int i = threadIdx.x; i < cols; i += blockDim.x) y[int64_t(blockIdx.x) * cols + i] = expf(row[i] - most) / sum;
}
torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be contiguous");
  auto y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "softmax", ([&] {
    softmax<scalar_t><<<x.size(0), 64, 64 * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.size(1));
  }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}"""
    + BIND
)


def forms(task: str) -> Signature:
    found = resolve(task, "cuda")
    return signature(found, found.public_workloads()[0])


def named(task: str, source: str) -> list[object]:
    """The names of the arguments that a function is called with."""
    form = forms(task)
    return [form.arguments[value].name if isinstance(value, int) else value for value in call_plan(source, form).values]


def declared(name: str, parameters: str) -> str:
    return (
        f'torch::Tensor {name}({parameters}) {{ return x; }}\nPYBIND11_MODULE(N, m) {{ m.def("{name}", &{name}); }}\n'
    )


def test_a_cu_file_that_binds_functions_is_an_extension_and_one_with_a_plan_is_not(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(SOFTMAX)
    assert read_source(path).contract == "extension"
    path.write_text(f"{SOFTMAX}\n/* plan.py\ndef plan(x, out): ...\n*/\n")
    assert read_source(path).contract == "cuda"


def test_torchs_headers_become_ours_line_by_line() -> None:
    text = with_own_headers("#include <torch/extension.h>\n  #include <ATen/cuda/CUDAContext.h>\n#include <vector>\n")
    assert text == '#include "extension.h"\n  #include "extension.h"\n#include <vector>\n'


def test_a_librarys_header_may_be_included_and_its_functions_are_missing() -> None:
    EXTENSION.check_source(f"#include <cublas_v2.h>\n{SOFTMAX}")
    assert with_own_headers("#include <cublas_v2.h>\n#include <cudnn.h>") == "\n".join(['#include "extension.h"'] * 2)
    said = ('kernel.cu(9): error: identifier "cublasSgemm" is undefined', "error: ‘cudnnCreate’ was not declared in")  # noqa: RUF001
    assert [line.partition(" ")[0] for line in advice_on_torch(said)] == ["cublasSgemm", "cudnnCreate"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("int x;", "no PYBIND11_MODULE"),
        (f"#include <thrust/sort.h>\n{SOFTMAX}", "thrust/sort.h: library calls do not exist"),
        ("PYBIND11_MODULE(N, m) {}", "defines no function"),
    ],
)
def test_what_is_not_an_extension_is_one_line(source: str, said: str) -> None:
    with pytest.raises(CandidateError, match=said):
        EXTENSION.check_source(source)


def test_parameters_take_arguments_by_name_and_the_rest_in_order() -> None:
    assert named("rmsnorm", declared("forward", "torch::Tensor input, torch::Tensor w, double eps")) == [
        "x",
        "weight",
        "eps",
    ]
    assert named("rmsnorm", declared("forward", "double eps, at::Tensor weight, const at::Tensor& a")) == [
        "eps",
        "weight",
        "x",
    ]


def test_upstream_gradients_come_first_unless_a_name_says_where() -> None:
    first = declared("backward", "torch::Tensor a, torch::Tensor b, torch::Tensor c")
    assert named("linear:backward", first)[0] == "grad_out"
    last = declared("backward", "torch::Tensor x, torch::Tensor w, torch::Tensor grad_output")
    assert named("linear:backward", last) == ["x", "weight", "grad_out"]


def test_a_tuple_takes_the_saved_tensors() -> None:
    source = declared("backward", "py::tuple saved, const at::Tensor& grad")
    assert named("maxpool2d:backward", source) == [(0,), "grad_out"]


def test_what_the_task_does_not_give_is_named() -> None:
    with pytest.raises(CandidateError, match="forward takes mask, which the task does not give"):
        named("softmax", declared("forward", "torch::Tensor x, torch::Tensor mask"))


def test_load_inline_gives_its_strings_and_is_never_run(tmp_path: Path) -> None:
    kernel = SOFTMAX.removeprefix(HEAD).removesuffix(BIND)
    path = tmp_path / "inline.py"
    path.write_text(
        "from torch.utils.cpp_extension import load_inline\n"
        f"cuda = r'''{kernel}'''\nopen('/nowhere')\n"
        "module = load_inline(name='m', cpp_sources='torch::Tensor forward(torch::Tensor x);', cuda_sources=cuda,\n"
        "                     functions=['forward'])\n"
    )
    candidate = read_source(path)
    assert candidate.contract == "extension" and 'm.def("forward", &forward);' in candidate.source
    assert [one.name for one in bound_functions(candidate.source)] == ["forward"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("load_inline(cuda_sources=make(), functions=['f'])", "line 1: a source of load_inline is not a plain string"),
        ("load_inline(cuda_sources='', functions=['f; }'])", "not an identifier"),
        ("load_inline(cuda_sources='')\nload_inline(cuda_sources='')", "2 times"),
    ],
)
def test_strings_that_are_not_there_are_refused(text: str, said: str) -> None:
    with pytest.raises(CandidateError, match=said):
        inline_source(text)


def test_launches_become_calls_on_the_same_lines() -> None:
    text = without_launches("f<A<int>, 4>\n  <<<dim3(1, 2), 3>>>(\n  a, b);")
    assert (
        text.count("\n") == 2 and "<<<" not in text and "f<A<int>, 4>" in text and "::kw::Config(dim3(1, 2), 3)" in text
    )


def test_a_call_of_torch_that_does_not_exist_is_advised_on() -> None:
    lines = ["kernel.cu:3:4: error: 'conv2d' is not a member of 'at'"]
    assert advice_on_torch(lines) == ("torch's conv2d does not exist in this contract: write a kernel for it",)


# --- on the emulator -------------------------------------------------------------------------------------------------

CHANGES = {
    "honest": ("", "", CheckOutcome.right, ""),
    "an element too far": ("i < cols; i += blockDim.x) y", "i <= cols; i += blockDim.x) y", CheckOutcome.faulty, ""),
    "a launch that fails and is not looked at": ("64, 64 * sizeof", "64, 4096 * 64 * sizeof", CheckOutcome.faulty, ""),
    "values read by host code": ("return y;", "x.item<float>(); return y;", CheckOutcome.faulty, "reads a tensor"),
    "a check that fails": ("x.is_cuda()", "x.dim() == 7", CheckOutcome.faulty, "x must be contiguous"),
    "another shape": ("return y;", "return y.view({-1});", CheckOutcome.faulty, "another type or rank"),
    "another number of results": ("return y;", "return torch::Tensor();", CheckOutcome.faulty, "returns 0 tensors"),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_the_emulator_tells_right_from_faulty(change: str) -> None:
    before, after, outcome, said = CHANGES[change]
    source = SOFTMAX.replace("C10_CUDA_KERNEL_LAUNCH_CHECK();", "") if "launch" in change else SOFTMAX
    source = source.replace(before, after) if before else source
    assert change == "honest" or source != SOFTMAX
    with Checker(small=1) as checker:
        result = checker.check("softmax@rows=96,cols=96", Candidate("extension", source))
    assert result.outcome is outcome, result
    assert said in result.model_dump_json()


def test_an_extension_builds_for_the_emulator() -> None:
    more = "auto zero = torch::tensor(-FLT_MAX, x.options()); return y;"
    source = "#include <float.h>\n#include <limits.h>\n" + SOFTMAX.replace("return y;", more)
    assert more in source
    (plan,) = EXTENSION.emulation(Candidate("extension", source)).builds((forms("softmax"),), HOPPER, sanitized=False)
    assert isinstance(plan, BuildPlan)
    assert not isinstance(build_as(plan), BuildFailure)


# --- built and recorded ----------------------------------------------------------------------------------------------

needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="there is no nvcc on this machine")


def recorded(source: str) -> GpuBuild | BuildFailure:
    with lock.working():  # as the judge does
        return EXTENSION.toolchain(HOPPER).build(Candidate("extension", source), (forms("softmax"),))


@pytest.mark.slow
@needs_nvcc
def test_an_extension_becomes_a_program_of_its_launches() -> None:
    made = recorded(SOFTMAX)
    assert isinstance(made, GpuBuild), made
    program = made.built[0].program
    (step,) = program.launches
    assert "softmax" in step.function and step.block == (64, 1, 1) and step.shared == 256
    rows = forms("softmax").tensors[0].shape[0]
    assert step.grid == (rows, 1, 1)
    pointed = [program.blocks[argument.pointers[0].block].name for argument in step.arguments[:2]]
    assert pointed == ["x", "out"]
    assert [block.name for block in program.blocks] == ["x", "out"]


REFUSED = {
    "host code that reads values": ("return y;", "x.data_ptr<float>()[0] += 1; return y;", "reads or writes a tensor"),
    "a branch on an address": ("x.size(0), 64,", "(int64_t(x.data_ptr()) >> 40) & 255, 64,", "differs between two"),
    "an address as a number": ("x.size(1));", "int(int64_t(x.data_ptr()) >> 32));", "differs between two recordings"),
    "a side stream that nobody waits for": (
        "at::cuda::getCurrentCUDAStream()>>>",
        "at::cuda::getStreamFromPool()>>>",
        "side stream",
    ),
    "an argument returned": ("return y;", "return x;", "returns its argument x"),
    "a call that does not exist": ("return y;", "cudaDeviceReset(); return y;", "cudaDeviceReset, which the recorder"),
    "a loop without end": ("return y;", "for (volatile int i = 0;; ++i) {} return y;", "did not finish"),
    "a file": ("return y;", 'TORCH_CHECK(fopen("/etc/forged", "w"), "no file"); return y;', "no file"),
    "a constructor that ends the process": (
        "torch::Tensor forward",
        "static int e = (exit(0), 0);\nat::Tensor forward",
        "",
    ),
    "a forged answer": (
        "return y;",
        'FILE* f = fopen("/tmp/record.json", "w"); fputs("{}", f); fclose(f); _exit(0); return y;',
        "Field required",
    ),
}


@pytest.mark.slow
@needs_nvcc
@pytest.mark.parametrize("exploit", REFUSED)
def test_host_code_that_no_record_can_have_is_refused(exploit: str) -> None:
    before, after, said = REFUSED[exploit]
    source = SOFTMAX.replace(before, after).replace(HEAD, f"{HEAD}#include <unistd.h>\n")
    assert before in SOFTMAX
    made = recorded(source)
    assert isinstance(made, BuildFailure) and said in " ".join(made.lines), made
    assert len(made.lines) < 50


@pytest.mark.slow
@needs_nvcc
def test_a_static_buffer_and_memory_of_its_own_are_scratch_of_one_call() -> None:
    """What is kept between calls on a GPU is not kept here: each record is of a first call."""
    source = SOFTMAX.replace(
        "auto y = ", "static float* kept = nullptr; if (!kept) cudaMalloc(&kept, 4096); static auto y = "
    )
    made = recorded(source.replace("return y;", "cudaMemsetAsync(kept, 0, 4096); return y;"))
    assert isinstance(made, GpuBuild), made
    assert sorted(block.fill for block in made.built[0].program.blocks) == ["output", "poison", "received"]
