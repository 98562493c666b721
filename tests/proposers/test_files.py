"""The proposer `files`: numbered requests, answers beside them, and one line for an answer that is none."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from kernelwright.judge.verdict import author_view
from kernelwright.proposers.files import Files, read_answer
from kernelwright.proposers.model import Operator, Parent, Proposal, Refusal, Request
from tests.search import toy

PLAN = "/* plan.py\nimport kw\n*/\n"


def proposer(folder: Path, limit: float = 0.0, contract: str = "cpp") -> Files:
    return Files(folder, contract, "# toy under the cpp contract\n", limit)


def asked(operator: Operator = Operator.fresh, seed: int = 1, *parents: Parent) -> Request:
    return Request(operator, 4, seed, parents)


def put(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (time.time() - 5, time.time() - 5))


def test_a_request_is_written_and_its_answer_taken(tmp_path: Path) -> None:
    put(tmp_path / "0001.answer.cpp", "// sums rows in two passes\nvoid kernel() {}\n")
    (proposal,) = proposer(tmp_path).propose(asked())
    assert proposal.candidate.source.endswith("void kernel() {}\n") and proposal.origin == "files 0001"
    assert proposal.note == "sums rows in two passes" and proposal.prompt.startswith("# toy under the cpp contract")
    page = (tmp_path / "0001.md").read_text()
    assert page.startswith(proposal.prompt) and "`0001.answer.cpp`" in page and "`0001.answer.md`" in page


def test_parents_are_shown_with_what_an_author_may_know(tmp_path: Path) -> None:
    candidate = toy.candidate_of((5,) * 8)
    verdict = toy.verdict_of(candidate, [("public one", 2.0, False), ("secret one", 3.0, True)])
    parent = Parent(Proposal(candidate, "toy", note="a note"), author_view(verdict), 2.0)
    with pytest.raises(Refusal, match=r"0001\.md: no answer within 0 s"):
        proposer(tmp_path).propose(asked(Operator.mutate, 1, parent))
    page = (tmp_path / "0001.md").read_text()
    assert candidate.source.strip() in page and "public one" in page and "a note" in page
    assert "secret one" not in page and "faster variation" in page


def test_an_answer_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    waiting = threading.Timer(0.2, put, [tmp_path / "0001.answer.cpp", "int a;\n"])
    waiting.start()
    (proposal,) = proposer(tmp_path, limit=20.0).propose(asked())
    assert proposal.candidate.source == "int a;\n"


def test_the_same_request_after_a_crash_is_the_same_file(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(Refusal):
            proposer(tmp_path).propose(asked(seed=1))
    with pytest.raises(Refusal):
        proposer(tmp_path).propose(asked(seed=2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001.md", "0002.md"]


def test_the_longest_block_of_a_chat_is_the_source(tmp_path: Path) -> None:
    put(tmp_path / "a.md", "Try this:\n```cpp\nint a;\n```\nor rather\n~~~\nint a; int b;\n~~~\nGood luck!\n")
    assert read_answer(tmp_path / "a.md", "cpp").source == "int a; int b;\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.md", b"no code here", "has no block of code"),
        ("a.md", b"```cpp\nnever closed", "has no block of code"),
        ("a.md", b"```\n\n```\n", "block of code is empty"),
        ("a.cpp", b"\xff\xfe\x00", "is not UTF-8"),
        ("a.cpp", b"int a;\0", "has NUL bytes"),
        ("a.cpp", b"   \n", "is empty"),
        ("a.cpp", b"x" * ((1 << 20) + 1), "a source has at most"),
    ],
)
def test_one_line_for_an_answer_that_is_none(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Refusal) as caught:
        read_answer(tmp_path / name, "cpp")
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_cuda_answer_needs_its_plan(tmp_path: Path) -> None:
    put(tmp_path / "a.cu", f"__global__ void k() {{}}\n{PLAN}")
    assert read_answer(tmp_path / "a.cu", "cuda").contract == "cuda"
    put(tmp_path / "b.cu", "__global__ void k() {}\n")
    with pytest.raises(Refusal, match=r"b\.cu: the source has no plan"):
        read_answer(tmp_path / "b.cu", "cuda")
