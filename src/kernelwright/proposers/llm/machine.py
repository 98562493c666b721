"""The device as a prompt tells of it: what it is, what it has, and what it was measured to reach."""

from __future__ import annotations

from pathlib import Path

from kernelwright.contracts.target import HOPPER, Target, target_of
from kernelwright.devices import cpu, nvidia
from kernelwright.devices.cpu import cached_peaks as cached_cpu_peaks
from kernelwright.devices.names import Device
from kernelwright.devices.peaks_nvidia import GpuPeaks, cached_peaks
from kernelwright.judge.wording import counted
from kernelwright.proposers.llm.view import ShownDevice

VECTORS = ("avx512f", "avx2", "avx", "fma", "f16c", "amx_tile", "asimd", "sve")
# Per multiprocessor: threads, and bytes of shared memory together with the first cache.
MULTIPROCESSORS = {
    "sm_80": (2048, 192 << 10),
    "sm_86": (1536, 128 << 10),
    "sm_89": (1536, 128 << 10),
    "sm_90a": (2048, 256 << 10),
    "sm_100a": (2048, 256 << 10),
}
HOPPER_FACTS = (
    "Thread block clusters of up to 8 blocks (16 where allowed) with distributed shared memory; the tensor memory "
    "accelerator (TMA); asynchronous warpgroup products (wgmma); programmatic dependent launch.",
    "There is no tensor core for float32. TF32 products alone are refused in a float32 task (10 bits of mantissa); "
    "sums of several of them are allowed where the error is float32's.",
)


# An H200 (driver 580), for prompts where there is no GPU; see docs/benchmarks.md for how peaks are measured.
ELSEWHERE = GpuPeaks("an NVIDIA H200", "580", 4.23e12, 4.23e12, 0.0, 51e12, 397e12, 782e12, 782e12, None, 2.8e-6)


def shown_device(device: Device, dtype: str = "float32") -> ShownDevice:
    """Facts of this machine's device or, where there is no GPU, of an H200 that was measured elsewhere."""
    if device.kind == "cpu":
        return _cpu()
    if nvidia.absence():
        return _gpu(
            f"{ELSEWHERE.name} (not in this machine; its peaks were measured elsewhere)", HOPPER, ELSEWHERE, dtype
        )

    found = nvidia.probe(device.index)
    target = target_of(found)
    return _gpu(found.name, target, cached_peaks(found), dtype)


def _gpu(name: str, target: Target, peaks: GpuPeaks | None, dtype: str) -> ShownDevice:
    facts = [
        f"{target.architecture}, {target.multiprocessors} multiprocessors, L2 cache of {target.l2_bytes >> 20} MB, "
        f"up to {target.shared_per_block:,} bytes of shared memory for a block"
    ]
    if target.architecture in MULTIPROCESSORS:
        threads, memory = MULTIPROCESSORS[target.architecture]
        facts.append(
            f"each multiprocessor: {threads} threads, 65,536 registers (at most 255 a thread), {memory >> 10} KB of "
            "shared memory and first cache together"
        )
    if target.architecture == "sm_90a":
        facts.extend(HOPPER_FACTS)
    if peaks is None:
        return ShownDevice(name=name, kind="cuda", facts=tuple(facts))
    facts.append(
        f"measured peaks: copying {peaks.copy / 1e12:.2f} TB/s (bytes read and written), reading "
        f"{peaks.read / 1e12:.2f} TB/s; products float32 {peaks.float32 / 1e12:.0f}, TF32 {peaks.tf32 / 1e12:.0f}, "
        f"bfloat16 {peaks.bfloat16 / 1e12:.0f} TFLOP/s; an empty launch reads {peaks.launch * 1e6:.1f} µs"
    )
    return ShownDevice(
        name=name,
        kind="cuda",
        facts=tuple(facts),
        bandwidth=max(peaks.copy, peaks.read),
        operations=peaks.operations(dtype),
        launch=peaks.launch,
    )


def _cpu() -> ShownDevice:
    found = cpu.probe()
    facts = [f"{found.architecture}, {counted(len(found.cores), 'hardware thread')} to use", *_vectors(), *_caches()]
    peaks = cached_cpu_peaks(found.model)
    if peaks is None:
        return ShownDevice(name=found.model, kind="cpu", facts=tuple(facts))
    facts.append(
        f"measured peaks with {counted(peaks.threads, 'thread')}: memory {peaks.bandwidth / 1e9:.1f} GB/s, "
        f"products in float32 {peaks.float32 / 1e9:.0f} GFLOP/s"
    )
    return ShownDevice(
        name=found.model, kind="cpu", facts=tuple(facts), bandwidth=peaks.bandwidth, operations=peaks.float32
    )


def _vectors() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith(("flags", "Features"))), [])
    found = [name for name in VECTORS if name in flags]
    return [f"vector extensions: {', '.join(found)}"] if found else []


def _caches() -> list[str]:
    """Of the first core, as the kernel tells them."""
    found = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return [f"caches: {', '.join(found)}"] if found else []
