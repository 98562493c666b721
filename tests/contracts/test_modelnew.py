"""The `modelnew` contract: what it takes, how it is made and bound, what it refuses, and checks without a GPU."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.extension.toolchain.nvcc import nvcc
from kernelwright.contracts.extension.values import INCLUDE
from kernelwright.contracts.model import BuildFailure, GpuBuild
from kernelwright.contracts.modelnew import MODELNEW
from kernelwright.contracts.modelnew.confined.construction import DoesNotFitError, arguments_of, bind
from kernelwright.contracts.modelnew.libraries import InlineLibrary
from kernelwright.contracts.modelnew.source import module_call
from kernelwright.contracts.program import (
    Argument,
    Block,
    Copy,
    LibraryStep,
    Memset,
    Pointer,
    Program,
    ProgramStep,
    TensorView,
)
from kernelwright.contracts.recorded.ownership import launches_that_count
from kernelwright.contracts.recorded.record import RecordedLibrary
from kernelwright.contracts.registry import fingerprint, read_source
from kernelwright.contracts.target import HOPPER
from kernelwright.contracts.triton import confined
from kernelwright.contracts.triton.confined import refusal
from kernelwright.contracts.triton.toolchain import ptxas
from kernelwright.judge.emulate.check import Checker, CheckOutcome
from kernelwright.judge.verdict import Reason
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import ModuleForm, Signature
from kernelwright.tasks.resolve import resolve

HERE = Path(__file__).parents[1]
KERNELS, EXPLOITS = HERE / "kernels_modelnew", HERE / "exploits_modelnew"
PROBLEM = str(KERNELS / "scaled_linear.py")
HONEST: dict[str, list[str]] = tomllib.loads((KERNELS / "kernels.toml").read_text())
TRICKS: dict[str, dict[str, Any]] = tomllib.loads((EXPLOITS / "exploits.toml").read_text())
HEAD = "import torch, torch.nn as nn\n"
MODULE = HEAD + "class ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n"
absent = ptxas.absence() or ("" if nvcc() else "there is no nvcc")
needs_both = pytest.mark.skipif(bool(absent), reason=absent)


def form(task: str = PROBLEM) -> Signature:
    found = resolve(task, "cuda")
    return signature(found, found.public_workloads()[0])


def built(source: str) -> GpuBuild | BuildFailure:
    return MODELNEW.toolchain(HOPPER).build(Candidate("modelnew", source), (form(),))


# --- what it takes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "contract"), [("epilogue.py", "modelnew"), ("triton_epilogue.py", "modelnew")])
def test_a_file_with_the_class_is_its_own_whatever_its_kernels_are(name: str, contract: str) -> None:
    assert read_source(KERNELS / name).contract == contract


def test_a_problem_is_not_a_candidate() -> None:
    assert not MODELNEW.takes(Path(PROBLEM))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class ModelNew(:\n", "line 1: is not Python"),
        (HEAD, "has no class ModelNew"),
        (HEAD + "class ModelNew(nn.Module):\n    pass\n", "has no forward"),
    ],
)
def test_what_is_not_a_module_is_one_line(source: str, said: str) -> None:
    with pytest.raises(CandidateError, match=said):
        MODELNEW.check_source(source)


def test_comments_make_no_other_candidate() -> None:
    plain, remarked = Candidate("modelnew", MODULE), Candidate("modelnew", f"# a remark\n{MODULE}")
    assert fingerprint(plain) == fingerprint(remarked)


# --- what is called --------------------------------------------------------------------------------------------------


def test_the_problem_says_how_its_module_is_made_and_what_it_holds() -> None:
    found = form().module
    assert isinstance(found, ModuleForm)
    assert json.loads(found.initial)["items"] == [48, 40, 0.5]
    assert found.held == (("linear_weight", "linear.weight"), ("linear_bias", "linear.bias"))
    call = module_call(MODULE, form())
    assert (call.given, call.held) == (("x",), found.held)


NUMBERED = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, scale, y):
        return x * scale + y
def get_inputs():
    return [torch.rand(40, 30), 3.5, torch.rand(40, 30)]
def get_init_inputs():
    return []
"""


def test_what_the_problem_gives_besides_tensors_is_given_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(NUMBERED)
    call = module_call(MODULE, form(str(tmp_path / "problem.py")))
    assert (call.given, call.fixed) == (("x", "y"), ((1, 3.5),))
    told = {"given": list(call.given), "fixed": [list(one) for one in call.fixed]}
    assert arguments_of(told, {"x": "the first", "y": "the second"}) == ["the first", 3.5, "the second"]


def test_of_another_task_forward_takes_what_it_names_and_the_rest_are_parameters() -> None:
    call = module_call(MODULE, form("rmsnorm"))
    assert (call.given, call.held) == (("x",), (("weight", "weight"),))
    with pytest.raises(CandidateError, match="upstream gradients"):
        module_call(MODULE, form("softmax:backward"))


def test_the_strings_of_load_inline_are_found_in_whatever_way_they_are_given() -> None:
    text = 'S = "a"\nload_inline("n", "c", S, functions=["f"])\nload_inline(name="n", cuda_sources=made())\n'
    assert InlineLibrary.written(text) == (InlineLibrary(cpp="c", cuda="a", functions=("f",)),)


def test_a_parameter_is_bound_by_its_name_though_sizes_of_one_differ() -> None:
    model = torch.nn.Module()
    model.bias, model.scale = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3, 2))
    held = [{"argument": f"its_{name}", "path": name, "dtype": "float32"} for name in ("bias", "scale")]
    found = bind(model, [held[0] | {"shape": [3, 1, 1]}, held[1] | {"shape": [3, 2]}])
    assert found["its_bias"] is model.bias and found["its_scale"] is model.scale
    with pytest.raises(DoesNotFitError, match=r"scale float32.2, 3. has no counterpart"):
        bind(model, [held[1] | {"shape": [2, 3]}])


# --- steps of torch --------------------------------------------------------------------------------------------------


def test_the_operators_that_the_light_headers_declare_are_those_that_are_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "kw_confined", confined)
    monkeypatch.setitem(sys.modules, "kw_confined.refusal", refusal)
    outside = importlib.import_module("kernelwright.contracts.modelnew.confined.outside")
    text = (INCLUDE / "library_calls.h").read_text()
    declared = {
        *re.findall(r'ask\("(\w+)"', text),
        *re.findall(r'\? "(\w+)" : "', text),
        *re.findall(r': "(\w+)"', text),
    }
    macros = re.findall(r"\b(KW_(?:OF|CONVOLUTION|TRANSPOSED|MAXIMA)\w*)\((\w+)\)", text)
    assert {*declared, *(name for _, name in macros if name != "NAME")} == set(outside.OPERATORS)


def test_files_that_a_module_wrote_are_built_as_strings_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kw_confined", confined)
    monkeypatch.setitem(sys.modules, "kw_confined.refusal", refusal)
    inline = importlib.import_module("kernelwright.contracts.modelnew.confined.inline")
    for name in ("a.cpp", "b.cu"):
        (tmp_path / name).write_text(f"of {name}")
    refusals = refusal.Refusals()
    libraries = inline.Libraries({}, None, refusals)
    libraries.load("n", [str(tmp_path / "a.cpp"), str(tmp_path / "b.cu")], verbose=True)
    (wanted,) = libraries.wanted.values()
    assert wanted == {"cpp": "of a.cpp", "cuda": "of b.cu", "functions": []}
    with pytest.raises(refusal.HostCodeRefused, match=r"builds from c\.cu, a file that is not there"):
        libraries.load("n", sources=["c.cu"])


def view(block: int, size: int = 64) -> TensorView:
    return TensorView(block, 0, "float32", (size,), (1,))


def own(*blocks: int) -> ProgramStep:
    argument = Argument("00" * 8, tuple(Pointer(0, block, 0) for block in blocks))
    return ProgramStep(0, "own", (1, 1, 1), (32, 1, 1), (argument,))


def torchs(read: int, made: int) -> LibraryStep:
    return LibraryStep("relu", "{}", (view(read),), (), (view(made),))


INPUT, OUT, SCRATCH = 0, 1, 2


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        ((torchs(INPUT, SCRATCH), own(SCRATCH, OUT)), 1),
        ((own(INPUT, SCRATCH), torchs(SCRATCH, OUT)), 1),
        ((own(INPUT, SCRATCH), torchs(INPUT, OUT)), 0),
        ((own(INPUT, OUT), torchs(INPUT, OUT)), 0),
        ((own(INPUT, SCRATCH), torchs(INPUT, SCRATCH), torchs(SCRATCH, OUT)), 0),
        ((own(INPUT, OUT), Memset(OUT, 0, 256)), 0),
        ((own(INPUT, OUT), Memset(OUT, 0, 128)), 1),
        ((own(INPUT, SCRATCH), Copy(OUT, 0, SCRATCH, 0, 256)), 1),
        ((torchs(INPUT, OUT), own(INPUT, OUT)), 1),
    ],
)
def test_a_launch_counts_where_a_result_depends_on_it(steps: Any, count: int) -> None:
    fills = ("received", "output", "poison")
    blocks = tuple(Block(str(n), n << 21, 1 << 21, 0, 256, n != INPUT, fill) for n, fill in enumerate(fills))
    program = Program(0, 0, blocks, steps)
    assert launches_that_count(program, lambda step: step.function == "own") == count
    assert Program.from_json(json.loads(json.dumps(program.to_json()))) == program


def test_a_step_of_torch_is_closed_and_names_its_operator() -> None:
    call = {"kind": "call", "op": "aten.relu.default", "args": [{"node": 0}], "kwargs": {}}
    tensor = {"address": 0x4000_0000_0000, "dtype": "float32", "sizes": (4,), "strides": (1,)}
    step = {"op": "library", "call": json.dumps(call), "tensors": (tensor,), "written": (), "results": (tensor,)}
    assert RecordedLibrary.model_validate(step).operator == "relu"
    for wrong in (
        {"tensors": ()},
        {"written": (1,)},
        {"call": "{}"},
        {"call": json.dumps({**call, "op": "os.system"})},
    ):
        with pytest.raises(ValidationError):
            RecordedLibrary.model_validate({**step, **wrong})


# --- recorded and checked --------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_both
def test_a_step_of_torch_is_in_the_program_and_named() -> None:
    made = built((KERNELS / "epilogue.py").read_text())
    assert isinstance(made, GpuBuild), made
    program = made.built[0].program
    assert program.library == ("addmm",) and len(program.launches) == 1
    (step,) = (step for step in program.steps if isinstance(step, LibraryStep))
    assert {program.blocks[one.block].name for one in step.tensors} == {"x", "linear_weight", "linear_bias"}


@pytest.mark.slow
@needs_both
@pytest.mark.parametrize("name", HONEST)
def test_honest_modules_are_right(name: str) -> None:
    with Checker(small=1, most_elements=10_000) as checker:
        result = checker.check(PROBLEM, read_source(KERNELS / name))
    assert result.outcome is CheckOutcome.right, result
    assert list(result.library) == HONEST[name]


@pytest.mark.slow
@needs_both
@pytest.mark.parametrize("name", [name for name, about in TRICKS.items() if about["ends"] == "record"])
def test_what_no_record_can_have_is_refused_in_one_line(name: str) -> None:
    made = built((EXPLOITS / f"{name}.py").read_text())
    assert isinstance(made, BuildFailure), made
    assert TRICKS[name]["said"] in made.lines[0] and "\n" not in made.lines[0]


@pytest.mark.slow
@needs_both
@pytest.mark.parametrize("name", [name for name, about in TRICKS.items() if about["ends"] == "check"])
def test_what_the_emulator_tells(name: str) -> None:
    with Checker(small=1, most_elements=10_000) as checker:
        result = checker.check(PROBLEM, read_source(EXPLOITS / f"{name}.py"))
    assert result.outcome is CheckOutcome.faulty and result.reason is Reason(TRICKS[name]["reason"]), result


@pytest.mark.slow
@needs_both
@pytest.mark.parametrize("name", [name for name, about in TRICKS.items() if about["ends"] == "harmless"])
def test_a_cache_is_recorded_as_a_first_call(name: str) -> None:
    made, honest = (built((EXPLOITS / f"{one}.py").read_text()) for one in (name, "epilogue.twin"))
    assert isinstance(made, GpuBuild) and isinstance(honest, GpuBuild)
    assert made.built[0].program == honest.built[0].program


def test_every_trick_has_its_file() -> None:
    files = {path.name for path in EXPLOITS.glob("*.py")}
    assert files == {f"{name}.py" for name in TRICKS} | {"epilogue.twin.py", "copies_result.twin.py"}
