"""What programs rely on: commands with their options, the fields of every JSON document, the built-in task files,
and what each exploit must earn. Each is compared with a stored file.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer.main
from pydantic import BaseModel

from kernelwright import cli
from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.judge.certificate import Signed
from kernelwright.tasks import builtin
from tests.golden.frozen import assert_frozen
from tests.pairs import pairs


def test_commands_and_options() -> None:
    """Not the help texts: they may be reworded at any time."""
    assert_frozen("commands", _commands(typer.main.get_command(assembled(COMMANDS))))


def test_fields_of_json_documents() -> None:
    for module in pkgutil.iter_modules(cli.__path__, "kernelwright.cli."):
        importlib.import_module(module.name)
    printed = {model for model in _models(BaseModel) if {"schema_version", "command"} <= set(model.model_fields)}
    documents = {_command(model): _fields(model.model_json_schema(mode="serialization")) for model in printed}
    assert len(documents) == len(printed)
    assert_frozen("json_fields", {**documents, "a certificate": _fields(Signed.model_json_schema())})


def test_built_in_task_files() -> None:
    """Byte for byte: a certificate holds the digest of its task's file, and a changed file makes it unreplayable."""
    files = Path(builtin.__path__[0]).glob("*.py")
    assert_frozen("builtin_tasks", {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files})


def test_what_each_exploit_must_earn() -> None:
    assert_frozen("exploits", {pair.name: _earns(asdict(pair)) for pair in pairs()})


def _commands(command: Any, path: str = "kernelwright") -> dict[str, list[str]]:
    found = {path: sorted(_parameter(parameter) for parameter in command.params)}
    for name, inner in getattr(command, "commands", {}).items():
        found |= _commands(inner, f"{path} {name}")
    return found


def _parameter(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts] if parameter.param_type_name == "option" else []
    written = "/".join(names) or str(parameter.name).upper()
    return written + (" (required)" if parameter.required else "")


def _models(base: type[BaseModel]) -> set[type[BaseModel]]:
    ours = {model for model in base.__subclasses__() if model.__module__.startswith("kernelwright.")}
    return ours.union(*(_models(model) for model in base.__subclasses__()))


def _command(model: type[BaseModel]) -> str:
    default = model.model_fields["command"].default
    return default if isinstance(default, str) else model.__name__


def _fields(schema: dict[str, Any]) -> dict[str, str]:
    """Every field by its path, with its type. Names of classes and descriptions are left out: they may change."""
    found: dict[str, set[str]] = {}
    _walk(schema, schema.get("$defs", {}), "", found)
    return {path: " or ".join(sorted(types)) for path, types in found.items() if path}


def _walk(schema: dict[str, Any], known: dict[str, Any], path: str, found: dict[str, set[str]]) -> None:
    if "$ref" in schema:
        _walk(known[schema["$ref"].removeprefix("#/$defs/")], known, path, found)
        return
    choices = schema.get("anyOf") or schema.get("oneOf") or ()
    for choice in choices:
        _walk(choice, known, path, found)
    if choices:
        return
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        found.setdefault(path, set()).update(str(value) for value in values)
    else:
        found.setdefault(path, set()).add(schema.get("type", "anything"))
    for name, field in schema.get("properties", {}).items():
        _walk(field, known, f"{path}.{name}".lstrip("."), found)
    for inner in (*schema.get("prefixItems", ()), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            _walk(inner, known, f"{path}[]", found)


def _earns(pair: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in pair.items() if key in ("task", "reasons", "threats")}
