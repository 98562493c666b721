"""Building: sandboxed, cached by content, and clear about what went wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.contracts import Candidate
from kernelwright.contracts import host_build as building
from kernelwright.contracts.artefact import system_call_in
from kernelwright.contracts.host_build import Built, build
from kernelwright.contracts.model import BuildFailure, BuildPlan
from kernelwright.contracts.registry import host_contract
from kernelwright.tasks.model import Signature, TensorSpec

EMPTY = Signature(())


def test_a_build_is_cached_by_content() -> None:
    candidate = Candidate("cpp", f"void kernel() {{}}  // {time.time()}")
    first, second = build(candidate, EMPTY), build(candidate, EMPTY)
    assert isinstance(first, Built) and isinstance(second, Built)
    assert (first.cached, second.cached) == (False, True)
    assert first.library == second.library


ACCIDENT = "#ifndef OTHERWISE\nint number() { return 0x0000050f; }\n#endif\n#ifdef BAD\n#error\n#endif\n"  # 0f 05


@pytest.mark.parametrize(
    ("layouts", "taken"),
    [
        ((), ()),
        ((("-DOTHERWISE",),), ("-DOTHERWISE",)),
        ((("-DUSELESS",), ("-DBAD",), ("-DOTHERWISE",), ("-DOTHERWISE", "-g")), ("-DOTHERWISE",)),
        ((("-DUSELESS",), ("-DBAD",)), ()),
    ],
)
def test_the_first_layout_without_the_bytes_of_a_system_call_is_taken(
    layouts: tuple[tuple[str, ...], ...], taken: tuple[str, ...]
) -> None:
    arguments = ("-shared", "-fPIC", "{source}/a.cpp", "-o", "{output}")
    plan = BuildPlan((("a.cpp", f"{ACCIDENT}// {time.time()}"),), arguments, layouts)
    found = building.build_as(plan)
    expected = building.build_as(replace(plan, arguments=(*arguments, *taken), layouts=()))
    assert isinstance(found, Built) and isinstance(expected, Built)
    assert found.code == expected.code
    assert (system_call_in(found.library.read_bytes()) is None) == bool(taken)


def test_what_can_be_loaded_is_laid_out_so_that_it_is() -> None:
    contract, candidate = host_contract("cpp"), Candidate("cpp", "void kernel() {}")
    assert contract.build_plan(candidate, EMPTY, sanitized=False).layouts
    assert not contract.build_plan(candidate, EMPTY, sanitized=True).layouts


def test_the_plain_and_the_sanitized_library_differ() -> None:
    candidate = Candidate("cpp", "void kernel() {}")
    plain, sanitized = building.build_both(candidate, EMPTY, sanitized=True)
    assert isinstance(plain, Built) and isinstance(sanitized, Built)
    assert plain.library != sanitized.library


def test_an_error_names_the_candidates_line() -> None:
    result = build(Candidate("cpp", "\n\nvoid kernel() { int x = undeclared; }"), EMPTY)
    assert isinstance(result, BuildFailure)
    assert any(line.startswith("kernel.cpp:3:") and "undeclared" in line for line in result.lines)
    assert not any("/source" in line or "/tmp" in line for line in result.lines)


def test_a_missing_kernel_is_said() -> None:
    result = build(Candidate("cpp", "void kernels() {}"), EMPTY)
    assert isinstance(result, BuildFailure)
    assert any("kernel" in line for line in result.lines)


def test_a_wrong_signature_does_not_build() -> None:
    signature = Signature((TensorSpec("x", "float32", (4,), (1,), "input"),))
    assert isinstance(build(Candidate("cpp", "void kernel(int) {}"), signature), BuildFailure)


@pytest.mark.parametrize("how", ['#include "{path}"', 'asm(".incbin \\"{path}\\"");'])
def test_no_file_of_the_user_can_be_compiled_in(how: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("int the_secret = 42;\n")
    secret.chmod(0o644)
    source = how.replace("{path}", str(secret)) + "\nvoid kernel() {}"
    result = build(Candidate("cpp", source), EMPTY)
    assert isinstance(result, BuildFailure)
    assert not any("42" in line for line in result.lines)


def test_an_endless_compilation_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "SECONDS", 1.5)
    source = """
    template <int N, int K> struct Bomb : Bomb<N - 1, 2 * K>, Bomb<N - 1, 2 * K + 1> {};
    template <int K> struct Bomb<0, K> {};
    Bomb<24, 1> bomb;
    void kernel() {}"""
    begin = time.monotonic()
    result = build(Candidate("cpp", source), EMPTY)
    assert isinstance(result, BuildFailure)
    assert time.monotonic() - begin < 20


BUILD = """
from kernelwright.contracts import Candidate
from kernelwright.contracts.target import HOPPER
from kernelwright.contracts.host_build import Built, build
from kernelwright.contracts.cuda.toolchain.evaluate import evaluate_plans
from kernelwright.tasks.model import Signature

made = build(Candidate("cpp", "void kernel() {}  // \\u00e9 \\u2192"), Signature(()))
assert isinstance(made, Built), made
plans = evaluate_plans("import kw  # \\u00e9\\ndef plan(): return kw.launch('f', 1, 1)", (Signature(()),), HOPPER)
assert isinstance(plans, tuple), plans
"""


def test_a_source_may_have_any_letters_where_the_user_has_no_locale() -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", BUILD], env={**os.environ, **plain}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
