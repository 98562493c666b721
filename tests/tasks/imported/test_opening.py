"""A problem file is a task wherever a task is taken: by its form, traced once in a sandbox, trusted by content."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.isolation.levels import Level
from kernelwright.tasks.catalogue import folder_suite
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.imported import tracer
from kernelwright.tasks.imported.form import is_problem
from kernelwright.tasks.imported.forms import bundle_of, tasks_in
from kernelwright.tasks.imported.opening import is_trusted
from kernelwright.tasks.loading import sources_of, unchanged
from kernelwright.tasks.resolve import prepare, resolve
from kernelwright.tasks.validate import smallest_workload
from tests.tasks.imported.problems import SCALED, formed, written


def test_the_form_is_known_from_the_syntax_alone(tmp_path: Path) -> None:
    path = written(tmp_path, f"raise SystemExit\n{SCALED}")
    assert is_problem(path.read_bytes())
    assert not is_problem(path.read_bytes() + b"\ntask = 1\n")  # a task file that happens to have a Model
    assert not is_problem(b"class Model: pass\n")
    assert not is_problem(b"def get_inputs(: pass")
    assert not is_problem(b"(" * 100_000)
    assert not is_problem(b"\0")


def test_a_folder_of_problems_is_a_suite_in_natural_order(tmp_path: Path) -> None:
    for name in ("10_last.py", "9_before.py", "1_first.py"):
        (tmp_path / "level1").mkdir(exist_ok=True)
        written(tmp_path / "level1", SCALED, name)
    (tmp_path / "level1" / "helper.py").write_text("x = 1\n")
    (tmp_path / "level2").mkdir()
    written(tmp_path / "level2", SCALED, "2_other.py")
    named = [Path(ref).name for ref in folder_suite(tmp_path)]
    assert named == ["1_first.py", "9_before.py", "10_last.py", "2_other.py"]
    with pytest.raises(TaskError, match="not a folder"):
        tasks_in(tmp_path / "level3")


def test_a_problem_opens_through_the_resolver_and_is_traced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, SCALED)
    task = resolve(f"{path}@batch=32")
    assert task.name == "problem@batch=32" and task.origin == str(path)
    assert task.public == [{"batch": 32}]

    def fail(source: bytes) -> bytes:
        raise AssertionError("it was traced before")

    monkeypatch.setattr(tracer, "_run", fail)
    gradient = resolve(f"{path}:backward")
    assert gradient.outputs[0] == "grad_x" and smallest_workload(gradient).size_map["batch"] <= 16
    before = sources_of(task.origin)
    path.write_text(path.read_text() + "\n# an edit\n")
    assert not unchanged(before)
    with pytest.raises(AssertionError, match="traced before"):
        resolve(str(path))


def test_a_sandbox_has_a_name_for_its_user(tmp_path: Path) -> None:
    """torch 2.11 asks for one in the middle of torch.export, and no system knows the user of a sandbox."""
    path = written(tmp_path, f"import getpass\nname = getpass.getuser()\n{SCALED}")
    assert resolve(str(path)).name == "problem"


def test_what_cannot_be_traced_is_run_only_where_its_content_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    path = formed(
        tmp_path,
        "return x.relu() if float(x.sum()) > 0 else x.relu()",
        "torch.rand(64, 8)",
        top=f"from pathlib import Path\ntry:\n    Path({str(ran)!r}).touch()\nexcept OSError:\n    pass",
    )

    def fail(source: bytes) -> bytes:
        raise tracer.CannotTrace("a branch depends on the values of a tensor")

    monkeypatch.setattr(tracer, "_run", fail)
    for attempt in (lambda: resolve(str(path)), lambda: prepare(str(path), Level.none)):
        with pytest.raises(TaskError, match=r"cannot be traced in the sandbox: a branch .*; --trust-task runs"):
            attempt()
    bundled = bundle_of(path)
    assert bundled is not None and not ran.exists() and not is_trusted(bundled)
    task = resolve(str(path), trust_task=True)
    assert ran.exists() and task.public == [{"batch": 64}]
    assert resolve(str(path)).hidden["batch"] == (16, 64)  # as the oracle does, which is told nothing
    path.write_text(path.read_text() + "\n# an edit\n")
    with pytest.raises(TaskError, match="--trust-task"):
        resolve(str(path))


def test_a_machine_without_the_sandbox_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.errors import CannotDecide
    from kernelwright.isolation import levels

    monkeypatch.setenv(levels.CEILING_VARIABLE, "seccomp")
    with pytest.raises(CannotDecide, match="isolation level full is required, and here tracer reaches seccomp"):
        prepare(str(written(tmp_path, SCALED + "\n# not traced before\n")), Level.full)
