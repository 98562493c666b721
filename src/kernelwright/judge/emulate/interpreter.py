"""Starts a process that interprets a candidate on the tensors of the arena, in the place of a runner."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from kernelwright.contracts.model import InterpretedPlan
from kernelwright.isolation import start
from kernelwright.isolation.roles import Role
from kernelwright.isolation.warden import WardedProcess
from kernelwright.judge.arena import layout_text, region_of
from kernelwright.tasks.model import Signature

MEMORY = 8 << 30  # of its own, beside the tensors
ADDRESS_SPACE = 64 << 30  # with the libraries of PyTorch, which are mapped and hardly read


class Interpreter:
    """A process and the folder with its files, for one candidate on one workload."""

    def __init__(self, plan: InterpretedPlan, signature: Signature, descriptors: Sequence[int]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kernelwright-interpret-")
        folder = Path(self._folder.name)
        start.make_folder(folder, dict(plan.files))
        tensors = sum(region_of(tensor).bytes for tensor in signature.tensors)
        layout = os.memfd_create("layout", os.MFD_CLOEXEC)
        try:
            os.write(layout, layout_text(signature, descriptors).encode())
            os.lseek(layout, 0, os.SEEK_SET)
            source = start.source_directory(folder)
            command = [part.replace("{source}", source).replace("{layout}", str(layout)) for part in plan.command]
            grant = start.Grant(
                visible=plan.visible,
                folder=folder,
                address_space=ADDRESS_SPACE + 4 * tensors,
                tensors=tensors + MEMORY,
                variables=plan.variables,
            )
            keep = [*descriptors, layout]
            self.process = start.timed(Role.interpreter, command, grant, keep, plan.start_seconds)
        except BaseException:
            self._folder.cleanup()
            raise
        finally:
            os.close(layout)

    def __enter__(self) -> WardedProcess:
        return self.process.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.process.__exit__(kind, error, trace)
        finally:
            self._folder.cleanup()
