"""Baselines by name: which there are on a kind of device, what each needs, and which are usual there.

A baseline is a line of `REGISTRY`. Its process makes it of a task's reference (`baseline_processes/variants.py`) or,
where a library has a kernel for a built-in task, takes that (`baseline_processes/libraries.py`). A user's task names
further ones itself, as in `baselines={"flash": my_flash}`, which are chosen as `own:flash`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from kernelwright.devices.names import Kind
from kernelwright.errors import KernelwrightError

TRAINING = "compile-training"
EAGER, TF32 = "eager", "eager-tf32"
OWN = "own:"
_OWN_NAME = re.compile(r"own:[A-Za-z_]\w{0,40}")
_BOTH: tuple[Kind, ...] = ("cpu", "cuda")
_GPU: tuple[Kind, ...] = ("cuda",)


@dataclass(frozen=True)
class BaselineKind:
    """`library`: it may not be able to do a task, and is then left out of a verdict, which says so. `package` must be
    installed. Over one that is not `claimable` nothing is ever claimed: it does not compute what the reference does."""

    name: str
    what: str
    kinds: tuple[Kind, ...] = _BOTH
    usual: bool = False
    library: bool = True
    package: str = ""
    claimable: bool = True


REGISTRY: tuple[BaselineKind, ...] = (
    BaselineKind(EAGER, "PyTorch as it runs the reference, line by line", usual=True, library=False),
    BaselineKind("compile", "torch.compile; on a GPU max-autotune without CUDA graphs", usual=True, library=False),
    BaselineKind("compile-best", "the fastest of three such compiles, on hidden workloads of one", _GPU, library=False),
    BaselineKind("compile-default", "torch.compile as it is by default: quicker to prepare", _GPU, library=False),
    BaselineKind(TRAINING, "a backward whose forward comes before the timed window", _GPU, library=False),
    BaselineKind(TF32, "eager with TF32 in float32 products: shown, never claimed over", _GPU, claimable=False),
    BaselineKind("sdpa-math", "eager, with attention by PyTorch's own steps"),
    BaselineKind("sdpa-flash", "eager, with attention by FlashAttention"),
    BaselineKind("sdpa-efficient", "eager, with attention by the memory-efficient kernel", _GPU),
    BaselineKind("sdpa-cudnn", "eager, with attention by cuDNN", _GPU),
    BaselineKind("channels-last", "eager on images in channels-last order; changing the order is in its time"),
    BaselineKind("cudnn-benchmark", "eager, with convolutions that cuDNN chose by trying them", _GPU),
    BaselineKind("fused", "PyTorch's own fused variant of a built-in task: F.rms_norm, fused AdamW"),
    BaselineKind("liger", "Liger's kernel for a built-in task", _GPU, package="liger_kernel"),
    BaselineKind("cublaslt", "cuBLASLt, the fastest of its heuristics, by nvmath-python", _GPU, package="nvmath"),
)
_BY_NAME = {kind.name: kind for kind in REGISTRY}


def usual(kind: Kind) -> tuple[str, ...]:
    """What a candidate is compared with unless others are named."""
    return tuple(one.name for one in REGISTRY if one.usual and kind in one.kinds)


def known(kind: Kind) -> tuple[str, ...]:
    return tuple(one.name for one in REGISTRY if kind in one.kinds)


def chosen(names: Sequence[str], kind: Kind) -> tuple[str, ...]:
    """Those that were named, each once, or the usual ones where none was."""
    for name in names:
        _require(name, kind)
    own = tuple(dict.fromkeys(name for name in names if name.startswith(OWN)))
    return (*(name for name in known(kind) if name in names), *own) or usual(kind)


def _require(name: str, kind: Kind) -> None:
    if _OWN_NAME.fullmatch(name):
        return
    found = _BY_NAME.get(name)
    if found is None:
        raise KernelwrightError(
            f"unknown baseline {name!r}: choose from {', '.join(known(kind))}, or {OWN}NAME for one that the task names"
        )
    if kind not in found.kinds:
        raise KernelwrightError(
            f"the baseline {name} needs an NVIDIA GPU ({found.what}); leave it out, or use --device"
        )
    if found.package and find_spec(found.package) is None:
        raise KernelwrightError(f"the baseline {name} needs the package {found.package}: install it, or leave it out")


def may_be_left_out(name: str) -> bool:
    """Whether a task that this baseline cannot do is judged without it."""
    return name.startswith(OWN) or (name in _BY_NAME and _BY_NAME[name].library)


def claimable(name: str) -> bool:
    """Whether a speedup over it may be claimed."""
    return name not in _BY_NAME or _BY_NAME[name].claimable


def names_for_help() -> str:
    """All names, for the help of a command."""
    further = [name for name in known("cuda") if name not in known("cpu")]
    return f"{', '.join(known('cpu'))}; on a GPU also {', '.join(further)}; {OWN}NAME for one that the task names"
