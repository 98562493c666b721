"""What a process with one GPU sees of the machine: the nodes of that GPU, CUDA, Python and our package."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kernelwright.devices import nvidia

SHARED_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")  # of the driver, whatever the GPU
IMPORTED = ("kernelwright", "cuda.bindings", "cuda.pathfinder")
WITH_TORCH = (*IMPORTED, "torch", "numpy", "sympy", "pydantic")
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")
_MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)
_UUID = re.compile(r"^GPU UUID:\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class GpuAccess:
    """One GPU as a process sees it: its device nodes, and its name for CUDA_VISIBLE_DEVICES. Inside it is GPU 0."""

    nodes: tuple[str, ...]
    name: str

    @property
    def index(self) -> int:
        return 0


def gpu_access(index: int) -> GpuAccess:
    """Access to the GPU that CUDA programs of this process number so."""
    return access_to(nvidia.probe(index).uuid, index)


def access_to(uuid: str, index: int, root: Path = Path("/")) -> GpuAccess:
    """The nodes of the GPU with this uuid. Numbers of nodes are not CUDA's: in a container index 0 may be nvidia3.

    Where the driver does not tell the number, the node with the index is taken. A wrong one would leave CUDA without
    the GPU that is named, which the canary finds.
    """
    return GpuAccess(tuple(f"/dev/{name}" for name in (*SHARED_NODES, _own_node(uuid, index, root))), uuid)


def _own_node(uuid: str, index: int, root: Path) -> str:
    minor = _minor(uuid, root)
    if minor is not None:
        return f"nvidia{minor}"
    numbered = [path.name for path in (root / "dev").glob("nvidia[0-9]*")]
    return numbered[0] if len(numbered) == 1 else f"nvidia{index}"


def _minor(uuid: str, root: Path) -> int | None:
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        text = path.read_text(errors="replace")
        named, minor = _UUID.search(text), _MINOR.search(text)
        if named and minor and named.group(1).lower() == uuid.lower():
            return int(minor.group(1))
    return None


def gpu_variables(access: GpuAccess, packages: tuple[str, ...] = IMPORTED) -> dict[str, str]:
    """Where Python and the driver find their libraries, and nothing else of ours."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {**kept, "CUDA_VISIBLE_DEVICES": access.name, "PYTHONPATH": os.pathsep.join(imported_folders(packages))}


def cuda_files() -> list[str]:
    """The folders with Python, our package and the libraries that a launcher loads."""
    folders = {sys.prefix, sys.base_prefix, *imported_folders()}
    folders |= {entry for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry}
    return sorted(str(Path(folder).absolute()) for folder in folders)


def tool_files(tool: str) -> list[str]:
    """What a tool of the CUDA toolkit needs besides: the folder it lies in, and where Nsight Compute is installed."""
    own = str(Path(tool).resolve().parent.parent)
    return [*([] if own == "/" else [own]), "/opt/nvidia"]


@cache
def imported_folders(packages: tuple[str, ...] = IMPORTED) -> tuple[str, ...]:
    """Where the packages lie that a launcher imports. The rest of sys.path, a user's own folder or even `/`, is not its
    business."""
    found: dict[str, None] = {}
    for name in packages:
        with suppress(ModuleNotFoundError):
            spec = find_spec(name)
            for place in (spec.submodule_search_locations or ()) if spec else ():
                found[str(Path(place).resolve().parents[name.count(".")])] = None
    return tuple(found)
