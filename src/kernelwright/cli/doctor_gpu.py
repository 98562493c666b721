"""What `doctor` says of GPUs: the device and its state, the compiler, the headers, sanitizer, sandbox and profiler."""

from __future__ import annotations

from pydantic import BaseModel

from kernelwright.contracts import nvrtc
from kernelwright.contracts.registry import gpu_contracts
from kernelwright.contracts.target import architecture
from kernelwright.devices import nvidia
from kernelwright.devices.nvidia import Gpu
from kernelwright.devices.peaks_nvidia import cached_peaks
from kernelwright.errors import CannotDecide
from kernelwright.isolation.levels import Level
from kernelwright.judge.gpu.client import Faulted
from kernelwright.judge.gpu.health import (
    helper_kernels,
    launcher_isolation,
    tool_isolation,
    torch_launcher_isolation,
)
from kernelwright.judge.gpu.ncu import NOT_INSTALLED, NOT_PERMITTED, ncu
from kernelwright.judge.gpu.profiler import why_not
from kernelwright.judge.gpu.sanitize import SUMMARY, Tool, sanitizer, sanitizing

TOOLKIT = "install the CUDA toolkit, or name its folder in CUDA_HOME"


class DoctorFinding(BaseModel):
    """One thing that `doctor` looked at. `fix` says how to get it where it is missing. What is `absent` is not there
    and not needed, which is ok, too."""

    what: str
    found: str
    ok: bool
    fix: str = ""
    absent: bool = False


def examine_gpus() -> tuple[list[DoctorFinding], bool]:
    """The findings, and whether `cuda` candidates can be judged here."""
    missing = nvidia.absence()
    if missing:
        found = f"{missing}; only CPU kernels can be judged here (CUDA kernels: `kernelwright check`)"
        return [DoctorFinding(what="GPU", found=found, ok=True, absent=True), *_building(needed=False)], False
    try:
        gpus = [nvidia.probe(index) for index in range(nvidia.count())]
    except CannotDecide as error:
        return [DoctorFinding(what="GPU", found=str(error), ok=False, fix="see `nvidia-smi`")], False
    building = _building(needed=True)
    compiles = not nvrtc.available()  # what the judge needs for its own kernels
    findings = [entry for gpu in gpus for entry in (_gpu(gpu), _state(gpu), _peaks(gpu))]
    findings += [*building, _sanitizer()]
    if compiles:
        findings += [entry for gpu in gpus[:1] for entry in (_confinement(gpu), _counters(gpu))]
    ready = compiles and all(_shares_memory(gpu) for gpu in gpus)
    return findings, ready


def _gpu(gpu: Gpu) -> DoctorFinding:
    ecc = {True: ", ECC", False: ", no ECC", None: ""}[gpu.ecc]
    found = (
        f"cuda:{gpu.index} {gpu.name}, {gpu.memory_bytes / 2**30:.0f} GiB{ecc}, {gpu.multiprocessors} multiprocessors, "
        f"capability {gpu.capability[0]}.{gpu.capability[1]}; driver {gpu.driver}, CUDA {gpu.cuda[0]}.{gpu.cuda[1]}"
    )
    fix = (
        "" if _shares_memory(gpu) else "GPU memory cannot be shared here (WSL, MIG, an old driver): use another machine"
    )
    return DoctorFinding(what="GPU", found=found, ok=not fix, fix=fix)


def _shares_memory(gpu: Gpu) -> bool:
    return gpu.virtual_memory and gpu.exports_descriptors


def _state(gpu: Gpu) -> DoctorFinding:
    state = nvidia.state(gpu)
    parts = [f"{state.sm_mhz} of {gpu.max_sm_mhz} MHz, {state.temperature} °C, {state.power_watts:.0f} W"]
    if state.disturbed:
        parts.append(f"slowed down: {', '.join(state.disturbed)}")
    others = nvidia.other_processes(gpu, frozenset())
    if others:
        parts.append(f"used by other processes: {', '.join(map(str, others))}")
    quiet = not (state.disturbed or others)
    fix = "" if quiet else "speeds may stay undecided; free the GPU for reliable times"
    return DoctorFinding(what="GPU state", found="; ".join(parts), ok=quiet, fix=fix)


def _peaks(gpu: Gpu) -> DoctorFinding:
    known = cached_peaks(gpu)
    if known is None:
        return DoctorFinding(what="GPU peaks", found="not measured yet; the first judging measures them", ok=True)
    rates = (
        f"float32 {known.float32 / 1e12:.0f}, TF32 {known.tf32 / 1e12:.0f}, bf16 {known.bfloat16 / 1e12:.0f} TFLOP/s"
    )
    found = f"copy {known.copy / 1e12:.2f} TB/s, {rates}, launch {known.launch * 1e6:.1f} µs"
    return DoctorFinding(what="GPU peaks", found=found, ok=True)


def _building(*, needed: bool) -> list[DoctorFinding]:
    """What the contracts need to build candidates, which needs no GPU: once each, also where several contracts need it.
    Those that cannot do without come first."""
    distinct = dict.fromkeys(part for contract in gpu_contracts() for part in contract.parts())
    parts = sorted(distinct, key=lambda part: not part.needed)
    return [
        DoctorFinding(
            what=part.what,
            found=part.found,
            ok=not (part.missing and needed),
            fix=part.fix if part.missing else "",
            absent=part.missing and not needed,
        )
        for part in parts
    ]


def _sanitizer() -> DoctorFinding:
    path = sanitizer()
    found = path or "missing: GPU kernels are judged without a sanitizer"
    return DoctorFinding(what="compute-sanitizer", found=found, ok=path is not None, fix="" if path else TOOLKIT)


def _confinement(gpu: Gpu) -> DoctorFinding:
    helpers, path = helper_kernels(architecture(gpu.capability)), sanitizer()
    reached = [launcher_isolation(helpers, gpu.index), torch_launcher_isolation(helpers, gpu.index)]
    if path is not None:
        reached.append(tool_isolation(helpers, gpu.index, sanitizing(path, Tool.memcheck), SUMMARY))
    found = ", ".join(f"{one.role} {one.level}" for one in reached)
    missing = "; ".join(one.missing for one in reached if one.level is not Level.full)
    return DoctorFinding(what="GPU isolation", found=found, ok=not missing, fix=missing)


def _counters(gpu: Gpu) -> DoctorFinding:
    """Profiles are advice: without them everything is judged all the same."""
    try:
        missing = why_not(helper_kernels(architecture(gpu.capability)), gpu.index)
    except (Faulted, CannotDecide) as error:
        missing = str(error)
    if not missing:
        return DoctorFinding(what="Nsight Compute", found=f"{ncu()}; the GPU's counters may be read", ok=True)
    if missing == NOT_PERMITTED:
        missing, _, fix = NOT_PERMITTED.partition(": ")
    else:
        fix = TOOLKIT if missing == NOT_INSTALLED else ""
    return DoctorFinding(what="Nsight Compute", found=f"no profiles: {missing}", ok=False, fix=fix)
