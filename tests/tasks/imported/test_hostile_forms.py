"""Hostile tasks in the forms of other benchmarks: what they try reaches nothing, and costs one line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.isolation.levels import Level, capabilities
from kernelwright.judge.keys import judge_key
from kernelwright.paths import cache_dir, state_dir
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.imported import tracer
from kernelwright.tasks.imported.confined.definition import read_definition
from kernelwright.tasks.imported.confined.tape import Untraceable
from kernelwright.tasks.resolve import resolve
from tests.tasks.imported.other_forms import config, definition, gpu_mode, robust
from tests.tasks.imported.test_hostile import GRAPH, PROBING

needs_full = pytest.mark.skipif(capabilities().level is not Level.full, reason="this machine does not reach full")


def in_definition(folder: Path, top: str) -> Path:
    return definition(folder, "return x + 1", {"x": (["n"], "float32")}, axes={"n": None}, top=top)


def in_gpu_mode(folder: Path, top: str) -> Path:
    body = "\ndef ref_kernel(data): return data\ndef generate_input(size): return torch.rand(size)"
    return gpu_mode(folder, top + body, "tests:\n  - {size: 8}\n")


def in_robust(folder: Path, top: str) -> Path:
    return robust(folder, config(), top=top)


FORMS: dict[str, Callable[[Path, str], Path]] = {
    "robust-kbench": in_robust,
    "definition": in_definition,
    "gpu-mode": in_gpu_mode,
}


def refused(path: Path) -> str:
    before = set(cache_dir("imported").iterdir())
    with pytest.raises(TaskError) as caught:
        resolve(str(path))
    line = str(caught.value)
    assert len(line.splitlines()) == 1 and line.isprintable() and len(line) < 1000 and path.name in line
    assert set(cache_dir("imported").iterdir()) == before
    return line


@needs_full
@pytest.mark.parametrize("form", FORMS)
def test_it_reaches_no_key_no_files_and_no_other_process(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_key()
    monkeypatch.setenv("A_SECRET", "of the user")
    secret = tmp_path / "secret"
    secret.write_text("of the user")
    secret.chmod(0o644)
    top = PROBING.format(
        key=str(state_dir() / "judge.key"),
        home=str(Path.home()),
        secret=str(secret),
        written=str(tmp_path / "written"),
        package=str(Path(tracer.__file__)),
        port=1,
        pid=os.getpid(),
    )
    assert "RuntimeError: reached: !" in refused(FORMS[form](tmp_path / "task", top))
    assert not (tmp_path / "written").exists()


@needs_full
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("top", "said"),
    [
        ("import time; time.sleep(3600)", "did not finish within 30 s"),
        ("kept = bytearray(6 << 30)", "MemoryError"),
        ("import os; os._exit(7)", "exited with code 7"),
        ("import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()", "cannot be traced"),
    ],
)
def test_whatever_it_does_costs_one_line(
    form: str, top: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer, "SECONDS", 30.0)
    assert said in refused(FORMS[form](tmp_path / "task", top))


@needs_full
def test_a_graph_that_it_forges_is_held_to_the_same_rules(tmp_path: Path) -> None:
    forged = {**GRAPH, "nodes": [{"kind": "call", "op": "aten.from_file.default", "args": [{"text": "/etc/passwd"}]}]}
    top = f"import os; open('/tmp/traced.json', 'w').write({json.dumps(forged)!r}); os._exit(0)"
    assert "it uses the operator aten.from_file.default" in refused_operator(in_gpu_mode(tmp_path / "task", top))


def refused_operator(path: Path) -> str:
    """Such a graph is in the cache, as what the files say: it is refused each time."""
    with pytest.raises(TaskError) as caught:
        resolve(str(path))
    return str(caught.value)


NUMBER = {"name": "k", "value": 3, "place": 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"numbers": [{**NUMBER, "name": "x"}]},
        {"numbers": [{**NUMBER, "place": 7}]},
        {"numbers": [NUMBER, {**NUMBER, "name": "j"}]},
        {"numbers": [{**NUMBER, "value": "text"}]},
        {"numbers": [{**NUMBER, "name": "k; import os"}]},
        {"outputs": ["x"]},
        {"outputs": ["a", "b"]},
        {"settings": [{"number": 1, "sizes": {"m": 3}}]},
        {"settings": [{"number": 1, "sizes": {"n": 0}}]},
        {"settings": [{"number": 1, "sizes": {"n": 1 << 50}}]},
        {"settings": [{"number": 1, "sizes": {"n": 3}}] * 600},
        {"tolerance": {"max_atol": -1.0, "max_rtol": 0.0, "required_matched_ratio": 0.5}},
        {"tolerance": {"max_atol": 1.0, "max_rtol": 0.0, "required_matched_ratio": 0.5, "text": "accepted"}},
        {"apart": ["all"]},
    ],
)
def test_claims_about_settings_and_numbers_are_checked(changes: dict[str, object]) -> None:
    with pytest.raises(tracer.CannotTrace, match="what came back is not a graph"):
        tracer._checked(json.dumps({**GRAPH, **changes}).encode())


AXES = {"n": {"type": "var"}}
X = {"x": {"shape": ["n"], "dtype": "float32"}}


@pytest.mark.parametrize(
    "said",
    [
        [],
        {"axes": [], "inputs": X, "outputs": X, "reference": ""},
        {"axes": {"n": {"type": "other"}}, "inputs": X, "outputs": X, "reference": ""},
        {"axes": {"n": {"type": "const", "value": 10**30}}, "inputs": X, "outputs": X, "reference": ""},
        {"axes": {"n": {"type": "const", "value": "9"}}, "inputs": X, "outputs": X, "reference": ""},
        {"axes": AXES, "inputs": {"x": {"shape": ["m"], "dtype": "float32"}}, "outputs": X, "reference": ""},
        {"axes": AXES, "inputs": {"x y": {"shape": ["n"], "dtype": "float32"}}, "outputs": X, "reference": ""},
        {"axes": AXES, "inputs": {"x": 3}, "outputs": X, "reference": ""},
        {"axes": AXES, "inputs": X, "outputs": X, "reference": 3},
    ],
)
def test_a_definition_that_is_not_one_is_refused(said: object) -> None:
    with pytest.raises(Untraceable):
        read_definition(said, [])


@pytest.mark.parametrize("expression", ["__import__('os')", "n ** n ** n", "n.real", "9" * 300, "n // 0", "(" * 100])
def test_an_axis_computes_nothing_but_a_small_expression(expression: str, tmp_path: Path) -> None:
    axes = {"n": {"type": "var"}, "e": {"type": "expr", "expression": expression}}
    read = read_definition({"axes": axes, "inputs": X, "outputs": X, "reference": ""}, [{"axes": {"n": 9}}])
    with pytest.raises(Untraceable, match="an axis"):
        read.sizes(read.workloads[0])
