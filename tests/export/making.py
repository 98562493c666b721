"""Proved kernels for tests: an honest source, a verdict that is made up, and a certificate that is really signed.

A search takes a minute and may find nothing on a busy machine; what is tested here is what becomes of its proof.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernelwright.contracts import Candidate
from kernelwright.contracts.host_build import Built, build
from kernelwright.contracts.registry import contract_named
from kernelwright.devices.cpu import probe
from kernelwright.export.proof import Proved
from kernelwright.judge import certificate
from kernelwright.judge.keys import judge_key
from kernelwright.judge.settings import ProgressCallback, Settings
from kernelwright.judge.verdict import BaselineTime, IntervalValue, SpeedStatus, Verdict, WorkloadResult
from kernelwright.proposers.model import Proposal
from kernelwright.search import origin
from kernelwright.tasks.drawing import signature
from kernelwright.tasks.hidden import hidden_workloads
from kernelwright.tasks.loading import digest, hash_of
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.resolve import declared
from tests import forgery
from tests.search import toy

KERNELS = Path(__file__).parents[1] / "kernels"
TASK = '''"""Root-mean-square normalisation, at sizes that tests have time for."""

import torch

from kernelwright.tasks import Task, normal, tensor


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


task = Task(
    reference=rmsnorm,
    inputs={"x": tensor("rows", "cols"), "weight": tensor("cols", draw=normal(1.0, 0.2)), "eps": 1e-6},
    public=[{"rows": 64, "cols": 256}, {"rows": 32, "cols": 512}],
    hidden={"rows": (8, 256), "cols": (64, 1024)},
)
'''
FASTER = 1.5


def source(task: str, name: str) -> Candidate:
    return Candidate("cpp", (KERNELS / task / name).read_text(encoding="utf-8"), name)


@cache
def built(candidate: Candidate, task: str) -> Built:
    made = build(candidate, signature(found := declared(task), found.public_workloads()[0]))
    assert isinstance(made, Built), made
    return made


def _placed(reference: str, candidate: Candidate) -> Task:
    return declared(reference).on(contract_named(candidate.contract).device)


def certified(
    reference: str,
    candidate: Candidate,
    *,
    public: Sequence[float] | None = None,
    hidden: Sequence[float] = (FASTER, FASTER, FASTER),
    threads: int = 1,
    **changes: Any,
) -> dict[str, Any]:
    """A certificate's content, as if it had been judged: this many times faster on each workload."""
    task = _placed(reference, candidate)
    results = [*_results(task.public_workloads(), public or [FASTER] * len(task.public_workloads()))]
    secret = hidden_workloads(task, judge_key(), len(hidden)) if hidden else ()
    results += _results(secret, hidden)
    verdict = toy.verdict_of(candidate, []).model_copy(
        update={
            "task": task.name,
            "workloads": tuple(results),
            "artefact": built(candidate, reference).code if candidate.contract == "cpp" else "code:" + "0" * 64,
            "conditions": toy.CONDITIONS.model_copy(update={"threads": threads}),
            **changes,
        }
    )
    files = [hash_of(Path(task.origin))]
    return forgery.body(
        candidate={
            "contract": candidate.contract,
            "name": candidate.name,
            "source": candidate.source,
            "id": candidate.id,
        },
        task={"reference": reference, "name": task.name, "digest": digest((("", files[0]),)), "files": files},
        terms__threads=threads,
        terms__baselines=["eager"],
        environment__cpu=probe().model,
        verdict=json.loads(verdict.model_dump_json()),
        hidden=[{"sizes": [list(pair) for pair in one.sizes], "dtype": one.dtype} for one in secret],
    )


def proved(reference: str, candidate: Candidate, **changes: Any) -> Proved:
    issued = certificate.parse(forgery.sign(certified(reference, candidate, **changes), judge_key()), candidate.name)
    return Proved(candidate, (issued,), issued.verdict, _placed(reference, candidate))


@dataclass
class CertifyingJudge:
    """Finds every candidate as fast as it is told, and keeps certificates as a judge does."""

    reference: str
    asked: int = 0

    def expect(self, *_: object) -> None:
        """There is nothing to build."""

    def judge(
        self, task: str, candidate: Candidate, settings: Settings, progress: ProgressCallback, deadline: float
    ) -> Verdict:
        self.asked += 1
        name = f"export-{candidate.id}-{self.asked}"
        content = certified(self.reference, candidate, hidden=() if settings.public_only else (FASTER,) * 3)
        forgery.keep(name, content, judge_key())
        return Verdict.model_validate({**content["verdict"], "certificate": name})


def run_of(reference: str, candidate: Candidate, root: Path) -> Path:
    """A run of this installation whose best is the candidate."""
    task = declared(reference)
    files = (("", hash_of(Path(task.origin))),)
    toy.search(
        root,
        judge=CertifyingJudge(reference),  # type: ignore[arg-type]
        starts=[Proposal(candidate, "start")],
        budget="4evals",
        plateau=1,
        task=reference,
        task_name=task.name,
        task_digest=digest(files),
    )
    (folder,) = root.glob(f"{task.name.replace(':', '-')}-*")
    origin.mark(folder)
    return folder


def _results(workloads: Sequence[Workload], factors: Sequence[float]) -> list[WorkloadResult]:
    return [
        WorkloadResult(
            label=one.label,
            sizes=one.size_map,
            dtype=one.dtype,
            hidden=one.hidden,
            trials=20,
            speed=SpeedStatus.measured,
            seconds=1e-3 / factor,
            deterministic=True,
            baselines=(
                BaselineTime(
                    baseline="eager",
                    seconds=1e-3,
                    speedup=IntervalValue(low=factor * 0.98, mid=factor, high=factor * 1.02),
                ),
            ),
        )
        for one, factor in zip(workloads, factors, strict=True)
    ]


def task_file(folder: Path, text: str = TASK, name: str = "rmsnorm") -> str:
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def rmsnorm(folder: Path, *, backward: bool = True, **changes: Any) -> list[Proved]:
    """The forward and, if wanted, the backward of a small rmsnorm."""
    reference = task_file(folder)
    found = [proved(reference, source("rmsnorm", "simd.cpp"), **changes)]
    if backward:
        found.append(proved(f"{reference}:backward", source("rmsnorm_backward", "simd.cpp"), **changes))
    return found
