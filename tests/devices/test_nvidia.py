"""NVIDIA GPUs: without one there is one clear line; with one, figures that can be true."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest

from kernelwright.devices import nvidia
from kernelwright.devices.nvidia import Gpu, GpuState
from kernelwright.devices.peaks_nvidia import GpuPeaks, _kept, gpu_peaks
from kernelwright.errors import CannotDecide

H200 = Gpu(
    index=0,
    name="NVIDIA H200",
    uuid="GPU-0",
    driver="580.0",
    cuda=(13, 0),
    capability=(9, 0),
    multiprocessors=132,
    memory_bytes=150 << 30,
    l2_bytes=62914560,
    shared_per_block=232448,
    bus_bits=6144,
    max_sm_mhz=1980,
    max_memory_mhz=3201,
    ecc=True,
    pageable_memory_access=False,
    virtual_memory=True,
    exports_descriptors=True,
)


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *_: Any) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    nvidia._cuda.cache_clear()
    nvidia.probe.cache_clear()


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_there_is_one_line() -> None:
    assert nvidia.absence() == "no NVIDIA driver: libcuda.so.1 is not installed"
    with pytest.raises(CannotDecide, match="no NVIDIA driver"):
        nvidia.probe()


def test_bandwidth_follows_from_clock_and_bus() -> None:
    assert 4.9e12 < H200.theoretical_bandwidth < 4.95e12
    assert H200.device == "cuda-GPU-0"


def test_idling_does_not_disturb_a_measurement_and_heat_does() -> None:
    told = GpuState(1980, 3201, 40, 90.0, ("idle", "heat (hardware)"), 0, ())
    assert told.disturbed == ("heat (hardware)",)


def test_a_product_of_float32_may_be_made_of_three_of_tf32() -> None:
    made = GpuPeaks("NVIDIA H200", "580.0", 1e12, 1e12, 1e13, 1e13, 1e14, 1e14, 1e14, None, 3e-6)
    assert made.operations("float32") == made.operations("int32") == made.tf32 / 3 > made.float32
    slow = replace(made, tf32=2 * made.float32)
    assert slow.operations("float32") == slow.float32


def test_peaks_are_read_from_the_cache_of_this_gpu_and_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    import kernelwright.devices.peaks_nvidia as peaks

    made = GpuPeaks("NVIDIA H200", "580.0", 1e12, 1e12, 1e13, 1e13, 1e14, 1e14, 1e14, None, 3e-6)
    measured = []

    def measure(gpu: Gpu) -> GpuPeaks:
        measured.append(gpu)
        return made

    monkeypatch.setattr(peaks, "measure", measure)
    _kept(H200).unlink(missing_ok=True)
    assert gpu_peaks(H200) == made == gpu_peaks(H200)
    assert len(measured) == 1
    _kept(H200).write_text('{"version": 0}')
    assert gpu_peaks(H200) == made and len(measured) == 2
    assert made.operations("bfloat16") == made.bfloat16
    _kept(H200).unlink()
