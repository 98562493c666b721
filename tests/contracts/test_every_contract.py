"""What holds for every contract: those of the registry, and the toys that tests register."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate, CandidateError, registry
from kernelwright.contracts.brief import brief
from kernelwright.contracts.model import Contract, HostContract
from kernelwright.contracts.registry import contract_named, fingerprint, read_source
from kernelwright.contracts.target import HOPPER
from kernelwright.contracts.tunables import declared, render, variants
from kernelwright.errors import KernelwrightError
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.resolve import resolve
from tests.contracts.toy import PLAIN, TOY

TOYS: dict[str, Contract] = {TOY.name: TOY, PLAIN.name: PLAIN}


@pytest.fixture(params=(*registry.names(), *TOYS))
def contract(request: pytest.FixtureRequest) -> Iterator[Contract]:
    name = request.param
    if name in TOYS:
        registry.register(TOYS[name])
    yield contract_named(name)
    if name in TOYS:
        registry.unregister(name)


@pytest.fixture
def skeleton(contract: Contract) -> str:
    return brief(contract, resolve("softmax", contract.device)).skeleton


@pytest.fixture
def written(contract: Contract, skeleton: str, tmp_path: Path) -> Path:
    path = tmp_path / f"candidate{contract.suffixes[0]}"
    path.write_text(skeleton)
    return path


def test_it_recognises_its_own_skeleton(contract: Contract, written: Path) -> None:
    assert read_source(written).contract == contract.name
    assert read_source(written, contract.name).id == read_source(written).id


def test_a_source_with_one_of_its_suffixes_is_its_own_alone(contract: Contract, skeleton: str, tmp_path: Path) -> None:
    for suffix in contract.suffixes:
        path = tmp_path / f"a{suffix}"
        path.write_text(skeleton)
        assert [one.name for one in registry.contracts() if one.takes(path)] == [contract.name]


def test_splitting_and_joining_keep_the_identity(contract: Contract, written: Path) -> None:
    candidate = read_source(written)
    files = dict(contract.split(candidate.source))
    assert contract.source_name in files and all(files.values())
    assert Candidate(contract.name, contract.join(files)).id == candidate.id


def tunable_line(contract: Contract) -> str:
    """`WIDTH`, which is 2 and may be 4, as this contract declares it."""
    if not contract.tunable_syntax:
        pytest.skip(f"{contract.name} has no tunables, which is the default")
    return contract.tunable_syntax[0].rendered.format(name="WIDTH", value="2", values="2, 4")


def test_comments_and_layout_do_not_make_another_candidate(contract: Contract, written: Path) -> None:
    if type(contract).normalised is Contract.normalised:
        pytest.skip(f"{contract.name} has no normal form, which is the default: a comment makes another candidate")
    candidate = read_source(written)
    mark = tunable_line(contract).partition("tunable:")[0].split()[-1]
    remarked = Candidate(contract.name, f"{mark} a remark\n\n\n{candidate.source}\n")
    assert remarked.id != candidate.id and fingerprint(remarked) == fingerprint(candidate)
    other = Candidate(contract.name, candidate.source.replace("out", "other"))
    assert fingerprint(other) != fingerprint(candidate)


def test_normalising_twice_changes_nothing_more(contract: Contract, skeleton: str) -> None:
    once = contract.normalised(contract.split(skeleton)[0][1])
    assert contract.normalised(once) == once


def test_tunables_are_declared_rendered_and_rendered_again(contract: Contract, skeleton: str) -> None:
    candidate = Candidate(contract.name, f"{tunable_line(contract)}\n{skeleton}")
    (tunable,) = declared(candidate)
    assert (tunable.name, tunable.values, tunable.now) == ("WIDTH", ("2", "4"), "2")
    (other,) = variants(candidate, 8, 0)
    changed = render(candidate, other)
    assert other == {"WIDTH": "4"} and declared(changed)[0].now == "4"
    assert render(changed, {"WIDTH": "2"}) == render(candidate)
    contract.check_source(changed.source)


def test_a_brief_renders(contract: Contract) -> None:
    text = brief(contract, resolve("softmax", contract.device)).text()
    assert f"under the {contract.name} contract" in text and contract.language in text
    assert all(rule in text for rule in contract.rules())


def test_a_wrong_source_is_one_line_that_names_the_file_and_the_fix(contract: Contract, tmp_path: Path) -> None:
    path = tmp_path / f"wrong{contract.suffixes[0]}"
    path.write_bytes(b"int x;\0")
    with pytest.raises(CandidateError, match="give the source, not a binary") as caught:
        read_source(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_a_file_that_is_missing_is_named(contract: Contract, tmp_path: Path) -> None:
    with pytest.raises(CandidateError, match="no such file"):
        read_source(tmp_path / f"none{contract.suffixes[0]}")


def test_a_fault_is_told_in_the_name_of_its_own_file(contract: Contract, skeleton: str) -> None:
    if not isinstance(contract, HostContract):
        pytest.skip("the toolchain of a GPU contract names its files itself")
    task = resolve("softmax", contract.device)
    signatures = (signature(task, task.public_workloads()[0]),)
    wrong = Candidate(contract.name, f"{skeleton}out = nowhere\n")
    failure = contract.build_failure(wrong, signatures, HOPPER)
    assert failure is not None
    assert any(line.startswith(f"{contract.source_name}:") and "error:" in line for line in failure.lines)
    assert not [line for line in failure.lines if f"/{contract.source_name}" in line]


def test_prompts_have_what_a_contract_says_of_itself(contract: Contract) -> None:
    craft = contract.craft
    assert craft.role and all(hint.name and hint.text for hint in craft.hints)
    assert bool(craft.tunables) == bool(contract.tunable_syntax)


def test_names_are_not_given_twice(contract: Contract) -> None:
    with pytest.raises(KernelwrightError, match="give this one another name"):
        registry.register(contract)


def test_a_source_of_no_contract_names_them_all(contract: Contract, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("import this\n")
    with pytest.raises(CandidateError) as caught:
        read_source(path)
    said = str(caught.value)
    assert "no contract takes this source" in said and f"{contract.name} takes {contract.form}" in said
