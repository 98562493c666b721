"""Devices have one way to be named, and what is not there is said in one line."""

from __future__ import annotations

import pytest

from kernelwright.devices import nvidia
from kernelwright.devices.names import CPU, Device, device_named, require
from kernelwright.errors import KernelwrightError


def test_a_name_is_a_device_and_back() -> None:
    assert device_named("cpu") == CPU
    assert device_named("cuda") == Device("cuda", 0)
    for name in ("cpu", "cuda:0", "cuda:7"):
        assert str(device_named(name)) == name


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "cpu:0", "cuda:1x", "", "CUDA"])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(KernelwrightError, match="write cpu, cuda or cuda:N") as caught:
        device_named(name)
    assert caught.value.exit_code == 2


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    require(CPU)
    monkeypatch.setattr(nvidia, "absence", lambda: "no NVIDIA driver")
    monkeypatch.setattr(nvidia, "driver_absence", lambda: "no NVIDIA driver")
    with pytest.raises(KernelwrightError, match="cuda:0 cannot be used: no NVIDIA driver"):
        require(Device("cuda", 0), at_a_glance=True)
    with pytest.raises(KernelwrightError, match="cuda:0 cannot be used: no NVIDIA driver") as caught:
        require(Device("cuda", 0))
    assert caught.value.exit_code == 2
    monkeypatch.setattr(nvidia, "absence", lambda: "")
    monkeypatch.setattr(nvidia, "count", lambda: 1)
    require(Device("cuda", 0))
    with pytest.raises(KernelwrightError, match="CUDA sees 1 GPU, numbered from 0"):
        require(Device("cuda", 1))
