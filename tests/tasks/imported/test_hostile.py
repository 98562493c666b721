"""A stranger's problem reaches nothing, and whatever it does or sends back costs one line."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from kernelwright.isolation.levels import Level, capabilities
from kernelwright.judge.keys import judge_key
from kernelwright.paths import cache_dir, state_dir
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.drawing import draw_inputs
from kernelwright.tasks.imported import tracer
from kernelwright.tasks.imported.operators import operator_named
from kernelwright.tasks.imported.problem import task_of
from kernelwright.tasks.imported.traced import MOST_BYTES, TracedProblem
from kernelwright.tasks.resolve import resolve
from tests.tasks.imported.problems import SCALED, named, written

needs_full = pytest.mark.skipif(capabilities().level is not Level.full, reason="this machine does not reach full")
GRAPH: dict[str, Any] = {
    "format": 1,
    "arguments": [
        {"name": "x", "dims": ["n", 4], "dtype": "float32", "draw": {"kind": "families"}, "part": "input"},
    ],
    "sizes": [{"name": "n", "value": 64, "least": 1, "most": None}],
    "nodes": [{"kind": "call", "op": "aten.relu.default", "args": [{"node": 0}]}],
    "results": [1],
}
PROBING = """
import os, socket

def tried(action):
    try:
        action()
    except BaseException as error:
        return type(error).__name__
    return "done"

def fork():
    if os.fork() == 0:
        os._exit(0)

found = {{
    "key": tried(lambda: open({key!r}, "rb").read()),
    "home": tried(lambda: os.listdir({home!r})),
    "file": tried(lambda: open({secret!r}).read()),
    "write": tried(lambda: open({written!r}, "w").write("x")),
    "root": tried(lambda: open("/written", "w")),
    "package": tried(lambda: open({package!r}, "a")),
    "fork": tried(fork),
    "connect": tried(lambda: socket.create_connection(("127.0.0.1", {port}), 2)),
    "kill": tried(lambda: os.kill({pid}, 0)),
    "secret": "A_SECRET" in os.environ,
}}
raise RuntimeError("reached: " + " ".join(name for name, got in found.items() if got in ("done", True)) + "!")
"""


def hostile(folder: Path, top: str, name: str = "problem.py") -> Path:
    """Its code runs as soon as the file is executed."""
    return written(folder, f"{top}\n{SCALED}", name)


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def refused(path: Path) -> str:
    """The one line, with which nothing is left in the cache or in the temporary folder."""
    before = set(cache_dir("imported").iterdir())
    with pytest.raises(TaskError) as caught:
        resolve(str(path))
    line = str(caught.value)
    assert len(line.splitlines()) == 1 and line.isprintable() and len(line) < 1000
    assert path.name in line
    assert set(cache_dir("imported").iterdir()) == before
    return line


@needs_full
def test_it_reaches_no_key_no_files_no_network_and_no_other_process(
    tmp_path: Path, listening: int, monkeypatch: pytest.MonkeyPatch
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
        port=listening,
        pid=os.getpid(),
    )
    assert "RuntimeError: reached: ! (line" in refused(hostile(tmp_path, top))
    assert not (tmp_path / "written").exists()


@needs_full
@pytest.mark.slow
@pytest.mark.parametrize(
    ("top", "said"),
    [
        ("import time; time.sleep(3600)", "did not finish within 30 s"),
        ("kept = bytearray(6 << 30)", "MemoryError"),
        ("import sys; [print('x' * (1 << 20)) for _ in range(64)]; raise RuntimeError('printed')", "cannot be traced"),
        ("import os; os._exit(7)", "exited with code 7"),
        ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
        ("raise SystemExit('x' * (1 << 20))", "SystemExit"),
        ("raise RuntimeError('\\x1b[31mred\\nsecond')", "RuntimeError"),
        ("import os; os.symlink('/etc/passwd', '/tmp/traced.json'); os._exit(0)", "cannot be traced"),
        ("open('/tmp/traced.json', 'w').write('[' * 100000); import os; os._exit(0)", "not"),
        ("open('/tmp/traced.json', 'w').write(' ' * (17 << 20)); import os; os._exit(0)", "more than 16 MiB"),
    ],
)
def test_whatever_it_does_costs_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: str, said: str) -> None:
    monkeypatch.setattr(tracer, "SECONDS", 30.0)
    assert said in refused(hostile(tmp_path, top))


@needs_full
def test_a_graph_that_it_forges_is_held_to_the_same_rules(tmp_path: Path) -> None:
    """The problem's code shares a process with our tracer, so that all it sends is its own word."""
    forged = {**GRAPH, "nodes": [{"kind": "call", "op": "aten.from_file.default", "args": [{"text": "/etc/passwd"}]}]}
    top = f"import os; open('/tmp/traced.json', 'w').write({json.dumps(forged)!r}); os._exit(0)"
    path = hostile(tmp_path, top)
    with pytest.raises(TaskError, match=r"problem.py: it uses the operator aten.from_file.default, which .* may not"):
        resolve(str(path))


def changed(**changes: Any) -> dict[str, Any]:
    return {**GRAPH, **changes}


def call(op: str, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    return [{"kind": "call", "op": op, "args": [{"node": 0}, *args], "kwargs": kwargs}]


def argument(**changes: Any) -> list[dict[str, Any]]:
    return [{**GRAPH["arguments"][0], **changes}]


def deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"items": [value]}
    return value


def test_the_graph_that_the_cases_change_is_taken(tmp_path: Path) -> None:
    task = task_of(TracedProblem.model_validate_json(json.dumps(GRAPH)), named(tmp_path / "problem.py"))
    assert task.public == [{"n": 64}]


@pytest.mark.parametrize(
    "data",
    [
        changed(format=2),
        changed(extra=1),
        changed(nodes=call("aten.relu.default; import os")),
        changed(nodes=call("os.system")),
        changed(nodes=call("quantized.add.out")),
        changed(nodes=[{"kind": "call", "op": "aten.relu.default", "args": [{"node": 1}]}]),
        changed(results=[7]),
        changed(results=[]),
        changed(nodes=call("aten.relu.default", {"items": [0] * 5000})),
        changed(nodes=call("aten.relu.default", {"text": "x" * 300})),
        changed(nodes=call("aten.relu.default", {"dtype": "complex64"})),
        changed(nodes=[{"kind": "drawn", "of": "uniform", "dtype": "float32", "shape": [4]}]),
        changed(arguments=argument(name="x) -> None: import os #")),
        changed(arguments=argument(name="__import__")),
        changed(arguments=argument(dims=["__import__('os')"])),
        changed(arguments=argument(dims=[1 << 60])),
        changed(arguments=argument(dtype="object")),
        changed(arguments=[*argument(), *argument()]),
        changed(sizes=[{"name": "n", "value": 0, "least": 1}]),
        changed(notes=["anything"]),
        changed(nodes=call("aten.relu.default", deep(300))),
    ],
)
def test_what_is_not_a_graph_is_refused_whole(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TracedProblem.model_validate_json(json.dumps(data))


@pytest.mark.parametrize(
    "op",
    [
        "aten.from_file.default",
        "aten.rand_like.default",
        "aten.bernoulli.default",
        "aten.set_.source_Storage",
        "aten.resize_.default",
        "aten.as_strided.default",
        "aten._foreach_add.Scalar",
        "aten.lstm.data",
        "aten.add.Nothing",
        "aten.add",
        "sym.__import__",
        "sym.eval",
    ],
)
def test_an_operator_that_is_not_listed_is_refused(op: str) -> None:
    with pytest.raises(TaskError, match="it uses the operator"):
        operator_named(op)


def test_dropout_cannot_be_brought_back(tmp_path: Path) -> None:
    data = changed(
        arguments=argument(dims=["n", 4, 8, 8]),
        nodes=call("aten.scaled_dot_product_attention.default", {"node": 0}, {"node": 0}, None, 0.5),
    )
    with pytest.raises(TaskError, match="draws random numbers"):
        task_of(TracedProblem.model_validate_json(json.dumps(data)), named(tmp_path / "problem.py"))


def test_attention_never_reads_beyond_its_values(tmp_path: Path) -> None:
    short = [
        {"kind": "call", "op": "aten.slice.Tensor", "args": [{"node": 0}, 2, 0, 1]},
        {
            "kind": "call",
            "op": "aten.scaled_dot_product_attention.default",
            "args": [{"node": 0}, {"node": 0}, {"node": 1}],
        },
    ]
    data = changed(arguments=argument(dims=["n", 4, 8, 8]), nodes=short, results=[2])
    with pytest.raises(TaskError, match="as many values as keys"):
        task_of(TracedProblem.model_validate_json(json.dumps(data)), named(tmp_path / "problem.py"))


def test_the_limit_on_what_comes_back_is_the_sandbox_s_business_too() -> None:
    assert 4 * MOST_BYTES < tracer.MEMORY


def node(place: int) -> dict[str, int]:
    return {"node": place}


def step(op: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"kind": "call", "op": op, "args": list(args), "kwargs": kwargs}


def opened(**changes: Any) -> Any:
    return task_of(TracedProblem.model_validate_json(json.dumps(changed(**changes))), named(Path("problem.py")))


TYPES = {
    "a device as text": step("aten.to.device", node(0), {"text": "cuda"}, {"dtype": "float32"}),
    "a dtype as a number": step("aten.to.dtype", node(0), 12),
    "a layout": step("aten.zeros_like.default", node(0), layout=1),
    "a format as a number": step("aten.clone.default", node(0), memory_format=77),
    "pinned memory": step("aten.zeros_like.default", node(0), pin_memory=True),
    "text for a number": step("aten.add.Tensor", node(0), {"text": "x"}),
    "a dtype in a list": step("aten.sum.dim_IntList", node(0), {"items": [{"dtype": "int8"}]}),
    "a mode that leaves memory unwritten": step("aten.grid_sampler.default", node(0), node(0), 9, 9, False),
    "an argument that is not there": step("aten.relu.default", node(0), inplace=True),
    "an out": step("aten.add.out", node(0), node(0), out=node(0)),
    "text to repeat": step("sym.mul", {"text": "x"}, 1 << 40),
    "text to format": step("sym.mod", {"text": "%1000000000d"}, 1),
    "a list to repeat": step("sym.mul", {"items": [1]}, 1 << 40),
    "running statistics": step(
        "aten.batch_norm.default", node(0), None, None, node(0), node(0), True, 0.1, 1e-5, False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_arguments_are_of_the_types_that_the_operator_declares(name: str) -> None:
    with pytest.raises(TaskError, match=r"it gives|it uses"):
        opened(nodes=[TYPES[name]])


@pytest.mark.parametrize(
    "nodes",
    [
        [step("aten.add_.Tensor", node(0), 1)],
        [step("aten.slice.Tensor", node(0), 0, 0, 1), step("aten.fill_.Scalar", node(1), 0)],
        [step("aten.t_.default", node(0))],
    ],
)
def test_a_graph_leaves_its_arguments_as_they_are(nodes: list[dict[str, Any]]) -> None:
    with pytest.raises(TaskError, match="changes the argument 'x' in place"):
        opened(nodes=nodes, results=[len(nodes)])


@pytest.mark.parametrize(
    "nodes",
    [
        [step("sym.pow", 99999, 9999999999)],
        [step("aten.sym_size.int", node(0), 0), step("sym.pow", 7, node(1))],
        [step("aten.sym_size.int", node(0), 0), *(step("sym.mul", node(n), node(n)) for n in range(1, 200))],
        [step("aten.split.Tensor", node(0), 1), step("sym.mul", node(1), 1 << 40)],
    ],
)
def test_arithmetic_on_sizes_ends(nodes: list[dict[str, Any]]) -> None:
    with pytest.raises(TaskError, match=r"more than 64 bits|a power above|numbers alone"):
        opened(nodes=[*nodes, step("aten.relu.default", node(0))], results=[len(nodes) + 1])


LSTM = (True, 1, 0.0, False, False, False)


def lstm(state: list[int], weight: list[int], bias: list[int]) -> list[dict[str, Any]]:
    zeros = [step("aten.zeros.default", {"items": size}) for size in (state, weight, bias)]
    given = ({"items": [node(1), node(1)]}, {"items": [node(2), node(2), node(3), node(3)]})
    layer = step("aten.lstm.input", node(4), *given, *LSTM)
    return [*zeros, step("aten.unsqueeze.default", node(0), 1), layer, step("sym.getitem", node(5), 0)]


@pytest.mark.parametrize(
    ("state", "weight", "bias"),
    [([1, 0, 4], [16, 4], [16]), ([1, 1, 4], [16, 1], [16]), ([1, 1, 4], [16, 4], [1]), ([1, 1, 4], [4, 4], [16])],
)
def test_a_recurrent_layer_never_reads_beyond_its_weights(state: list[int], weight: list[int], bias: list[int]) -> None:
    assert opened(nodes=lstm([1, 1, 4], [16, 4], [16]), results=[6])
    with pytest.raises(TaskError, match="of a recurrent layer do not have"):
        opened(nodes=lstm(state, weight, bias), results=[6])


DRAWN = {"kind": "distribution", "of": "uniform", "low": 0, "high": 1}


def test_opening_computes_nothing_large() -> None:
    """Small arguments and results, and 256 GiB between them: the values are not looked at."""
    large = [
        step("aten.full.default", {"items": [1 << 36]}, 1.0),
        step("aten.sum.default", node(1)),
        step("aten.add.Tensor", node(0), node(2)),
    ]
    assert opened(arguments=argument(draw={"kind": "families", "otherwise": DRAWN}), nodes=large, results=[3])


@pytest.mark.parametrize(
    "first",
    [
        {"kind": "drawn", "of": "uniform", "dtype": "float32", "shape": [1 << 36]},
        {"kind": "drawn", "of": "permutation", "high": 1 << 36, "dtype": "int64"},
        step("aten.ones.default", {"items": [1 << 36]}),
    ],
)
def test_a_recipe_draws_nothing_large(first: dict[str, Any]) -> None:
    recipe = {"kind": "recipe", "nodes": [first, step("aten.slice.Tensor", node(0), 0, 0, 4)], "result": 1}
    second = argument(name="y", dims=[4], draw=recipe)
    task = opened(
        arguments=[*argument(), *second], nodes=[step("aten.add.Tensor", node(0), node(1))], results=[2]
    )  # fmt: skip
    with pytest.raises(TaskError, match="make tensors of more than"):
        draw_inputs(task, task.public_workloads()[0], task.families[0], torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["self", "torch", "inf", "None", "lambda", "kernelwright_tasks_casting_literals"])
def test_an_argument_hides_nothing_that_a_reference_calls(name: str) -> None:
    with pytest.raises(TaskError, match="a meaning of its own"):
        opened(arguments=argument(name=name))


@pytest.mark.parametrize("line", ["task = None", "task: object = None"])
def test_one_more_line_does_not_make_it_the_user_s_own_code(tmp_path: Path, line: str) -> None:
    ran = tmp_path / "ran"
    path = hostile(tmp_path, f"open({str(ran)!r}, 'w')\n{line}")
    with pytest.raises(TaskError, match=r"problem.py: has Model.* and a task"):
        resolve(str(path))
    assert not ran.exists()
