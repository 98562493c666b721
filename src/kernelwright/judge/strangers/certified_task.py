"""The task of a certificate that is replayed: which reference is opened, and all that is looked at before it is.

To open a task is to run its file. A certificate of another judge names files and sizes; neither is followed: a file
is the user's own choice (`--task`) and is compared by its hash before it is imported, and sizes must be such that
this machine can hold and compute them.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

from kernelwright.devices.names import Kind, device_named
from kernelwright.judge.certificate import Certificate, CertificateError
from kernelwright.judge.strangers.trusted import SignedBy, Signer
from kernelwright.tasks.declarations import TensorInput
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.hidden import require_within
from kernelwright.tasks.imported.forms import main_file
from kernelwright.tasks.loading import digest, hash_of
from kernelwright.tasks.model import Task, Workload
from kernelwright.tasks.resolve import BUILTIN, TaskName, builtin_names, declared, narrowed, parse

MEMORY_PARTS = 16  # a judging holds several draws, each with references in float64, beside the baselines' own
MOST_BYTES: dict[Kind, int] = {"cpu": 16 << 30, "cuda": 32 << 30}  # of one workload's tensors
MOST_OPERATIONS: dict[Kind, float] = {"cpu": 1e12, "cuda": 1e15}  # of one call
ITEM_BYTES = 8  # of the widest dtype


def reference_for(issued: Certificate, given: str | None, signed: SignedBy) -> str:
    """The task to open: the one that the user gives, or the certificate's own where it is ours or built in. Direction
    and sizes are the certificate's where the user gives a file alone."""
    named = _parsed(issued)
    if given is None:
        if signed.signer is not Signer.here and named.name not in builtin_names():
            raise CertificateError(
                f"the certificate was signed by another judge and names {issued.task.reference}; give the file that "
                "you trust with --task"
            )
        return issued.task.reference
    chosen = parse(given)
    if not chosen.backward and not chosen.sizes:
        return str(replace(named, name=chosen.name))
    if (chosen.backward, dict(chosen.sizes)) != (named.backward, dict(named.sizes)):
        raise CertificateError(f"{given}: the certificate is about {issued.task.name}; give the file with --task")
    return given


def _parsed(issued: Certificate) -> TaskName:
    try:
        return parse(issued.task.reference)
    except TaskError as error:
        raise CertificateError(f"the certificate's task cannot be understood: {error}") from None


def require_same_file(reference: str, issued: Certificate, signed: SignedBy) -> None:
    """Compares the task's own file with the certificate's hashes, before it is imported. The files that it imports are
    compared once it is open."""
    name = parse(reference).name
    path = BUILTIN / f"{name}.py" if name in builtin_names() else main_file(Path(name))
    try:
        found = hash_of(path)
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}; --task FILE says where the task is now") from None
    if found in issued.task.files or digest(((str(path), found),)) == issued.task.digest:
        return
    if not issued.task.files and signed.signer is Signer.here:
        return  # of several files, from before their hashes were kept
    raise CertificateError(
        f"{reference}: is not the task of the certificate any more; give the file as it was with --task FILE"
    )


def require_affordable(reference: str, issued: Certificate) -> None:
    """Refuses sizes that this machine cannot hold or compute. Only shapes are looked at, and nothing is allocated."""
    kind = device_named(issued.settings.device).kind
    named = parse(reference)
    try:
        task = narrowed(declared(str(replace(named, sizes={}))).on(kind), named.sizes)
        hidden = (*issued.hidden_workloads, *issued.lighter_workloads)
        _require_public(task, issued)
        for workload in hidden:
            require_within(task, workload)
        for workload in (*task.public_workloads(), *hidden):
            _require_fits(task, workload, kind)
    except TaskError as error:
        raise CertificateError(f"the certificate's workloads are not those of its task: {error}") from None
    except (RuntimeError, OverflowError, ArithmeticError) as error:  # of torch, on sizes that it cannot express
        raise CertificateError(f"the certificate's sizes are too large ({type(error).__name__})") from None
    families = {str(family) for family in task.families}
    if issued.failure is not None and issued.failure.family not in families:
        raise CertificateError("the certificate's failing values are of a family that its task does not have")


def _require_public(task: Task, issued: Certificate) -> None:
    """A speed that is claimed on a workload which the task does not have would be compared with nothing."""
    known = {(one.label, one.dtype) for one in task.public_workloads()}
    if not {(one.label, one.dtype) for one in issued.verdict.workloads if not one.hidden} <= known:
        raise CertificateError("the certificate's verdict is on public workloads that its task does not have")


def require_same_name(opened: str, reference: str, issued: Certificate, given: str | None) -> None:
    """A certificate is shown under its task's name, and judged on what its reference says. A file of the user's may be
    called otherwise than it was; direction and sizes are those of the name."""
    said, judged = parse(issued.task.name), parse(reference)
    if opened == issued.task.name:
        return
    if given is None or (said.backward, dict(said.sizes)) != (judged.backward, dict(judged.sizes)):
        raise CertificateError(
            f"the certificate says that it is about {issued.task.name!r:.80}, and its task is {opened}"
        )


def _require_fits(task: Task, workload: Workload, kind: Kind) -> None:
    tensors = (one for one in task.inputs.values() if isinstance(one, TensorInput))
    _require_bytes(sum(math.prod(one.shape(workload.size_map)) for one in tensors) * ITEM_BYTES // 2, kind)
    from kernelwright.tasks.cost import cost  # imports torch, which takes seconds

    found = cost(task, workload)
    _require_bytes(found.moved, kind)
    if found.operations > MOST_OPERATIONS[kind]:
        raise CertificateError(
            f"the certificate's sizes need {found.operations:.2g} operations for one call, and at most "
            f"{MOST_OPERATIONS[kind]:.2g} are spent on a stranger's"
        )


def _require_bytes(needed: int, kind: Kind) -> None:
    most = MOST_BYTES[kind]
    if kind == "cpu":
        most = min(most, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MEMORY_PARTS)
    if needed > most:
        raise CertificateError(
            f"the certificate's sizes need {needed / (1 << 30):.3g} GiB for one workload, and at most "
            f"{most / (1 << 30):.3g} GiB are taken here"
        )
