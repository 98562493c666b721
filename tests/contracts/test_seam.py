"""Nothing outside contracts/ asks which contract it is. Found on the syntax tree, so that no spelling escapes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import kernelwright
from kernelwright.contracts import Candidate, registry
from kernelwright.contracts.brief import brief
from kernelwright.contracts.model import Contract, HostContract
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.resolve import resolve

PACKAGE = Path(kernelwright.__file__).parent
NAMES = frozenset(registry.names())
TASKS_TOO = frozenset({".py"})  # a task is a Python file as well as a candidate may be one
SUFFIXES = frozenset(suffix for contract in registry.contracts() for suffix in contract.suffixes) - TASKS_TOO


def file_names(contract: Contract) -> Iterator[str]:
    """Of the author's files, and of those that a host compiler finds beside them."""
    task = resolve("softmax", contract.device)
    skeleton = brief(contract, task).skeleton
    yield from contract.file_names(skeleton)
    if isinstance(contract, HostContract):
        candidate, first = Candidate(contract.name, skeleton), signature(task, task.public_workloads()[0])
        yield from (name for name, _ in contract.build_plan(candidate, first, sanitized=False).files)


def one_of(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(map(re.escape, words)))})(?!\\w)"


FILES = re.compile(rf"\b{one_of({name for contract in registry.contracts() for name in file_names(contract)})}")
ENDINGS = re.compile(one_of(SUFFIXES))
DEVICES = frozenset({"cpu", "cuda"})  # "cuda" is a kind of device, too
# Each writes candidates of one contract, under whose name it is registered in templates/backends.py.
BACKENDS = tuple(PACKAGE / "proposers" / "templates" / name for name in sorted(NAMES))


def questions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines that depend on which contract it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(_names_one, sides)) and not any(map(_is_device, sides)):
                yield node.lineno, "compares a contract's name or suffix"
        elif isinstance(node, ast.Match):
            for case in node.cases:
                values = [part for part in ast.walk(case.pattern) if isinstance(part, ast.MatchValue)]
                if any(_names_one(part.value) for part in values) and not _is_device(node.subject):
                    yield case.pattern.lineno, "matches a contract's name or suffix"
        elif isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
            if keys & (NAMES | SUFFIXES) and not keys <= DEVICES:
                yield node.lineno, "has an entry for a contract"
        elif isinstance(node, ast.Subscript) and _names_one(node.slice) and not _is_annotation(node):
            yield node.lineno, "looks a contract up by its literal name"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            if node.args and _names_one(node.args[0]):
                yield node.lineno, "looks a contract up by its literal name"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for module in _imported(node):
                if _particular(module):
                    yield node.lineno, f"imports {module}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _particular(node.value):
            yield node.lineno, f"names the module {node.value}"
    yield from literals(tree)


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts and regular expressions that name a contract's files; prose may."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    expressions = {id(part) for node in ast.walk(tree) if _is_regex(node) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            plain = re.sub(r"\\|\(\?:|\(", "", node.value)  # as it reads without the marks of a regular expression
            if FILES.search(plain):
                yield node.lineno, "names a contract's file"
            elif id(node) in expressions and ENDINGS.search(plain):
                yield node.lineno, "looks for a contract's suffix"


def _is_regex(node: ast.AST) -> bool:
    """Whether it is a call of `re`."""
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "re"


def _names_one(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in NAMES | SUFFIXES if isinstance(node.value, str) else False
    return isinstance(node, ast.Tuple | ast.List | ast.Set) and any(map(_names_one, node.elts))


def _is_device(node: ast.expr) -> bool:
    """Whether it is the kind of a device: `device.kind`, `kind`, `device_kind`."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in ("kind", "device_kind")


def _is_annotation(node: ast.Subscript) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "Literal"


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]


def _particular(module: str) -> bool:
    parts = module.split(".")
    return parts[:2] == ["kernelwright", "contracts"] and len(parts) > 2 and parts[2] in NAMES


def outside() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if PACKAGE / "contracts" not in path.parents and not any(folder in path.parents for folder in BACKENDS):
            yield path


def test_nothing_outside_asks_which_contract_it_is() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {what}"
        for path in outside()
        for line, what in questions(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "ask the contract instead (contracts/model.py):\n" + "\n".join(found)


def test_prompts_do_not_ask_either() -> None:
    templates = sorted(PACKAGE.rglob("*.j2"))
    assert templates and not [path.name for path in templates if "contract ==" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize(
    "code",
    [
        'candidate.contract == "cuda"',
        'contract in ("cpp", "other")',
        '"cpp" != form',
        'path.suffix == ".cu"',
        'match contract:\n    case "cpp" | "ptx":\n        pass',
        'FILES = {"cpp": 1, "cuda": 2}',
        'CONTRACTS["cuda"]',
        'CONTRACTS.get("cpp")',
        "from kernelwright.contracts.cuda.source import split",
        "from kernelwright.contracts import cpp",
        "import kernelwright.contracts.cuda",
        'import_module("kernelwright.contracts.cpp")',
        'path = folder / "plan.py"',
        'where = f"kernel.cu:{line}"',
        r're.compile(r"\bkernel\.(?:cpp|cu)\b")',
        r're.compile(FOLDERS + r"(kernel\.cpp|glue\.cpp)(?=:)")',
        r're.sub(r"\.(cpp|cu|py)$", "", words)',
    ],
)
def test_every_spelling_of_the_question_is_found(code: str) -> None:
    assert list(questions(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        'device.kind == "cuda"',
        'kind not in ("cpu", "cuda")',
        'BANDS = {"cpu": 1, "cuda": 2}',
        'Candidate("cpp", source)',
        "contract == other",
        "from kernelwright.contracts.registry import contract_named",
        'def files():\n    """Such as kernel.cpp."""',
        'path = folder / "summary.md"',
        r're.compile(r"\.(json|md)$")',
    ],
)
def test_what_is_no_question_is_not_found(code: str) -> None:
    assert not list(questions(ast.parse(code)))
