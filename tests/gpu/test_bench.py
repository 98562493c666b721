"""The oracle's bench on a GPU: what it loads is what a launcher sees, and what is wrong it names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

WORD = 0x7FF37FF9


@dataclass
class Item:
    inputs: dict[str, Any]
    expectations: dict[str, Any]

    def tensor(self, name: str) -> Any:
        return self.inputs[name]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["rmsnorm", "argmax", "adamw", "rmsnorm:backward"])
def test_what_is_wrong_is_named(name: str) -> None:
    import torch

    from kernelwright.judge.oracle.gpu_arena import GpuArena
    from kernelwright.judge.oracle.right.tolerance import expectations
    from kernelwright.judge.oracle.workload_arena import OutsideWrite
    from kernelwright.tasks.drawing import draw_inputs, signature
    from kernelwright.tasks.model import Workload
    from kernelwright.tasks.resolve import resolve

    task = resolve(name)
    sizes = {size: 33 if number else 70 for number, size in enumerate(task.hidden)}
    workload = Workload(tuple(sizes.items()))
    generator = torch.Generator(device="cuda").manual_seed(1)
    inputs = draw_inputs(task, workload, task.families[0], generator)
    item: Any = Item(dict(inputs), expectations(task, inputs, workload))
    pool: Any = None
    bench = GpuArena(task, workload, signature(task, workload), pool)
    try:
        bench.load(item, WORD)
        found = bench.check()
        assert isinstance(found, tuple) and found[1].kind in ("unwritten", "wrong")
        arguments: list[Any] = [
            value.clone() if isinstance(value, torch.Tensor) else value for value in inputs.values()
        ]
        made = task.reference(*arguments)
        values = [made] if isinstance(made, torch.Tensor) else list(made or ())
        changed = dict(zip(inputs, arguments, strict=True))
        results = bench.results()
        for result in task.inout:
            results[result].copy_(changed[result])
        for result, value in zip(task.outputs, values, strict=True):
            results[result].copy_(value)
        assert bench.check() is None
        bench.remember()
        assert bench.matches_remembered()
        last = results[task.result_names[-1]].untyped_storage()
        whole = torch.empty(0, dtype=torch.uint8, device="cuda").set_(last)
        whole[-1] = 7 if int(whole[-1]) != 7 else 8
        outside_write = bench.check()
        assert outside_write is not None
        if isinstance(outside_write, OutsideWrite):
            assert outside_write.side == "behind its end"
    finally:
        bench.close()
