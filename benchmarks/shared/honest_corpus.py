"""The honest kernels that must never be rejected: written by hand, and proposed by `templates`, for small tasks.

A kernel lies in a folder with the name of its task (`NAME_backward` is `NAME:backward`). Tasks are small, with ranges
down to one element where the operation allows it, so that a judging is short and the whole domain still has to hold.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.pairs import pairs

from kernelwright.contracts import Candidate
from kernelwright.contracts.registry import read_source
from kernelwright.devices.names import Device
from kernelwright.errors import KernelwrightError
from kernelwright.proposers.model import Operator, Request
from kernelwright.proposers.templates.proposer import make
from kernelwright.tasks.model import Task
from kernelwright.tasks.resolve import resolve

ROOT = Path(__file__).resolve().parents[2]
HONEST = ROOT / "benchmarks" / "honest"
TRITON = ROOT / "tests" / "kernels_triton"
GPU_EXPLOITS = ROOT / "tests" / "gpu" / "exploits" / "whole"
TASK_FOLDERS = (HONEST / "tasks", ROOT / "tests" / "exploits" / "wide")
TOO_LARGE = {"mean_square"}  # for judgings by the hundred
BACKWARD = "_backward"
CONTRACTS = {"cpu": "cpp", "cuda": "cuda"}
SEED = 1


@dataclass(frozen=True)
class HonestKernel:
    task: str  # what the judge resolves
    name: str  # "rmsnorm/simd.cpp", "softmax/templates 3"
    candidate: Candidate


def corpus(device: Device, variants: int) -> list[HonestKernel]:
    """All kernels for a kind of device; `variants` of each task by `templates`, wherever it can write it."""
    return [*_written(device), *_triton(device), *_twins(device), *_proposed(device, variants)]


def kept_corpus(path: Path, device: Device, variants: int) -> list[HonestKernel]:
    """The corpus that a file keeps; written first where there is none, which takes no GPU but a while."""
    if not path.exists():
        kernels = [
            [str(Path(one.task).relative_to(ROOT)), one.name, one.candidate.contract, one.candidate.source]
            for one in corpus(device, variants)
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kernels, indent=0), encoding="utf-8")
    return [
        HonestKernel(str(ROOT / task), name, Candidate(contract, source, name))
        for task, name, contract, source in json.loads(path.read_text(encoding="utf-8"))
    ]


def tasks() -> dict[str, Path]:
    """The files of the small tasks, by name."""
    found = {path.stem: path for folder in reversed(TASK_FOLDERS) for path in sorted(folder.glob("*.py"))}
    return {name: path for name, path in found.items() if name not in TOO_LARGE}


def _ref(folder: str) -> str | None:
    """The task of a folder of kernels, if there is a small one."""
    found = tasks().get(folder.removesuffix(BACKWARD))
    return None if found is None else f"{found}:backward" if folder.endswith(BACKWARD) else str(found)


def _written(device: Device) -> Iterator[HonestKernel]:
    if device.kind == "cpu":
        places = [*(ROOT / "tests" / "kernels").glob("*/*.cpp"), *(HONEST / "kernels").glob("*/*.cpp")]
    else:
        places = [*(ROOT / "tests" / "kernels_cuda").glob("*_*/"), *(HONEST / "kernels").glob("*/*.cu")]
    for path in sorted(places):
        folder = path.name.partition("_")[0] if path.is_dir() else path.parent.name
        ref = _ref(folder)
        if ref is not None:
            yield HonestKernel(ref, f"{folder}/{path.name}", read_source(path))


def _triton(device: Device) -> Iterator[HonestKernel]:
    """Modules for built-in tasks; a task of their own is too large here."""
    about = tomllib.loads((TRITON / "kernels.toml").read_text(encoding="utf-8"))
    for name, served in sorted(about.items() if device.kind == "cuda" else ()):
        for task in served:
            ref = _ref(task.replace(":backward", BACKWARD))
            if ref is not None:
                yield HonestKernel(ref, f"triton {name}", read_source(TRITON / name, "triton"))


def _twins(device: Device) -> Iterator[HonestKernel]:
    """The twins of exploits that are judged over the whole domain."""
    found = {pair.twin: pair.task for pair in pairs() if pair.domain and device.kind == "cpu"}
    if device.kind == "cuda":
        about = tomllib.loads((GPU_EXPLOITS / "exploits.toml").read_text(encoding="utf-8"))
        found = {path: about[path.name.partition(".")[0]]["task"] for path in GPU_EXPLOITS.glob("*.twin.cu")}
    for path, task in sorted(found.items()):
        ref = _ref(task.replace(":backward", BACKWARD))
        if ref is not None:
            yield HonestKernel(ref, f"{task}/{path.name}", read_source(path))


def _proposed(device: Device, variants: int) -> Iterator[HonestKernel]:
    for name, path in sorted(tasks().items()):
        for folder, ref in ((name, str(path)), (f"{name}{BACKWARD}", f"{path}:backward")):
            try:
                task: Task = resolve(ref).on(device.kind)
                proposer = make(task, CONTRACTS[device.kind])
            except KernelwrightError:  # not differentiable, or not a pattern of the templates
                continue
            wanted = Request(Operator.fresh, (variants + 1) // 2, SEED)
            other = Request(Operator.sample, variants // 2, SEED)
            sources = {one.candidate.id: one.candidate for ask in (wanted, other) for one in proposer.propose(ask)}
            for number, candidate in enumerate(sources.values(), 1):
                yield HonestKernel(ref, f"{folder}/templates {number}", candidate)
