"""Products with producer warps on the emulator: whole and ragged tiles, operands that lie either way, two at once."""

from __future__ import annotations

from typing import Any

import pytest

from kernelwright.proposers.templates import make
from kernelwright.tasks.resolve import resolve
from tests.proposers.templates.emulated import emulated_errors, source_of


def linear(rows: int, features: int, units: int) -> dict[str, int]:
    return {"rows": rows, "features": features, "units": units}


FEED_FORWARD = {"batch": 1, "tokens": 130, "features": 66, "inner": 129}
CASES: dict[str, tuple[str, dict[str, int], dict[str, Any]]] = {
    "whole tiles": ("linear", linear(128, 64, 128), {"block": "128x128"}),
    "odd sizes": ("linear_relu", linear(129, 67, 131), {"block": "128x64", "stages": 2}),
    "odd sizes as they are": ("linear_relu", linear(129, 67, 131), {"block": "128x64", "stages": 2, "pad": 0}),
    "shared depths": ("linear", linear(130, 515, 66), {"block": "128x64", "stages": 4}),
    "two units": ("linear", linear(258, 98, 130), {"block": "256x128"}),
    "gradients": ("linear:backward", linear(130, 131, 129), {"block": "128x64"}),
    "two at once": ("llama_ffw", FEED_FORWARD, {"block": "128x128"}),
    "odd gradients as they are": ("linear:backward", linear(130, 131, 129), {"block": "128x64", "pad": 0}),
    "two odd ones at once": ("llama_ffw", FEED_FORWARD | {"features": 67}, {"block": "128x64"}),
    "odd sizes as arguments": ("linear_relu", linear(130, 71, 131), {"sizes": "dynamic"}),
    "sizes as arguments": ("linear_relu", linear(130, 70, 129), {"sizes": "dynamic"}),
}
SLOW: dict[str, tuple[str, dict[str, int], dict[str, Any]]] = {
    "gradients of two units": ("linear:backward", linear(257, 130, 260), {"block": "256x128"}),
    "two at once of two units": ("llama_ffw", FEED_FORWARD | {"tokens": 257, "features": 258}, {"block": "256x128"}),
    "shared depths as arguments": ("linear", linear(200, 515, 160), {"block": "256x128", "sizes": "dynamic"}),
}


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_product_that_producers_feed_is_right(name: str) -> None:
    ref, sizes, genes = (CASES | SLOW)[name]
    task = resolve(ref, "cuda")
    assert not emulated_errors(task, source_of(make(task, "cuda"), {"method": "producers", **genes}), sizes)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("whole tiles", "Products<Wide>::add(fresh, big[k], small_r", "Products<Wide>::add(fresh, big[k], big_r"),
        ("whole tiles", "set_barrier(full + s, 2 * Core::PRODUCERS)", "set_barrier(full + s, Core::PRODUCERS)"),
        ("odd sizes", "at < length ? source[at] : 0.0f", "at < length ? source[at] : 1.0f"),
    ],
    ids=["a part that is multiplied twice", "a stage that is read before it is filled", "a copy without zeros behind"],
)
def test_what_is_wrong_is_seen(name: str, old: str, new: str) -> None:
    ref, sizes, genes = CASES[name]
    task = resolve(ref, "cuda")
    source = source_of(make(task, "cuda"), {"method": "producers", **genes})
    assert old in source
    assert emulated_errors(task, source.replace(old, new), sizes)
