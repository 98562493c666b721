"""The `cpp` contract: what an author is told compiles, and says what it must."""

from __future__ import annotations

import pytest

from kernelwright.contracts import Candidate, CandidateError
from kernelwright.contracts.brief import brief
from kernelwright.contracts.host_build import Built, build
from kernelwright.contracts.registry import contract_named
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.model import Signature, TensorSpec
from kernelwright.tasks.resolve import builtin_names, resolve

CPP = contract_named("cpp")


@pytest.mark.parametrize("name", builtin_names())
def test_every_skeleton_compiles(name: str) -> None:
    task = resolve(name)
    spec = signature(task, task.public_workloads()[0])
    assert isinstance(build(Candidate("cpp", brief(CPP, task).skeleton), spec), Built)


def test_a_brief_has_signature_rules_sizes_and_the_reference() -> None:
    text = brief(CPP, resolve("rmsnorm")).text()
    assert "void kernel(kw::Tensor<const float, 2> x" in text
    assert "def " in text and "Rules" in text and "rows" in text


def test_the_brief_of_a_gradient_shows_the_forward_reference() -> None:
    told = brief(CPP, resolve("rmsnorm:backward"))
    assert "rsqrt" in told.reference and "grad_weight" in told.signature


def test_a_dtype_that_varies_becomes_a_template_parameter() -> None:
    def of(dtype: str) -> Signature:
        return Signature((TensorSpec("x", dtype, (4,), (1,), "input"), TensorSpec("i", "int64", (4,), (1,), "output")))

    text = CPP.signature_text((of("float32"), of("bfloat16")))
    assert text.startswith("template <class T>") and "kw::Tensor<const T, 1> x" in text
    assert "kw::Tensor<std::int64_t, 1> i" in text
    skeleton = CPP.skeleton((of("float32"), of("bfloat16")), "t")
    for dtype in ("float32", "bfloat16"):
        assert isinstance(build(Candidate("cpp", skeleton), of(dtype)), Built)


def test_constants_bring_a_preparation() -> None:
    spec = Signature(
        (
            TensorSpec("w", "float32", (4,), (1,), "constant"),
            TensorSpec("out", "float32", (4,), (1,), "output"),
        )
    )
    skeleton = CPP.skeleton((spec,), "t")
    assert "void prepare(kw::Tensor<const float, 1> w)" in skeleton
    assert isinstance(build(Candidate("cpp", skeleton), spec), Built)


def test_an_unknown_contract_is_one_line() -> None:
    with pytest.raises(CandidateError, match="unknown contract 'ptx': choose from cpp"):
        contract_named("ptx")


def test_a_candidate_is_its_content() -> None:
    assert Candidate("cpp", "a", "x.cpp").id == Candidate("cpp", "a", "y.cpp").id
    assert Candidate("cpp", "a").id != Candidate("cpp", "b").id
