"""A folder with everything that a kernel needs to be called: kernel.json, libraries, reference, certificates."""

from __future__ import annotations

import hashlib
import keyword
import platform
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernelwright.contracts.host_build import Built, build
from kernelwright.contracts.model import BuildFailure, HostContract
from kernelwright.contracts.registry import contract_named
from kernelwright.export import elf
from kernelwright.export.describe import ExportError, operation_of
from kernelwright.export.proof import Proved, sorted_by_direction
from kernelwright.export.public import deterministic, publish
from kernelwright.export.reference_text import reference_text
from kernelwright.export.region import claimed, regions_of
from kernelwright.export.standalone import machine
from kernelwright.export.standalone.manifest import Manifest, Operation, Variant, digest
from kernelwright.tasks.declarations import Saved
from kernelwright.tasks.model import Workload

MANIFEST, REFERENCE, KERNELS, CERTIFICATES = "kernel.json", "reference.py", "kernels", "certificates"
RESERVED = ("reference", "selftest", "benchmark", "kernels", "certificates")
ALIGNMENT = 64  # bytes: what torch's allocator gives, and the widest that an instruction of x86-64 asks for
# What a compiler may use of a processor, by the names that Linux gives it.
FEATURES = (
    *("ssse3", "sse4", "popcnt", "avx", "fma", "f16c", "bmi", "abm", "lzcnt", "movbe", "adx", "aes", "pclmulqdq"),
    *("sha_ni", "gfni", "vaes", "vpclmulqdq", "amx", "rdrand", "rdseed", "fsgsbase", "xsave", "clflushopt", "clwb"),
)


def write_portable(proved: Sequence[Proved], folder: Path, namespace: str) -> Manifest:
    """Fills an empty folder. Every library is built in the sandbox, compared with what was judged, and looked into."""
    forward, backward = sorted_by_direction(proved)
    operation, traced = operation_of(forward[0].task, _name(forward[0]))
    text = reference_text(forward[0].task, traced)
    for part in (KERNELS, CERTIFICATES):
        (folder / part).mkdir(parents=True)
    (folder / REFERENCE).write_text(text, encoding="utf-8")
    writer = _Writer(folder, operation, hashlib.sha256(text.encode()).hexdigest())
    usable = [one for one in backward if not _saved(one)]
    manifest = Manifest(
        operation,
        namespace,
        writer.reference,
        tuple(variant for one in forward for variant in writer.variants(one, "forward")),
        tuple(variant for one in usable for variant in writer.variants(one, "backward")),
    )
    short = digest([one.proved_part for one in manifest.variants])[:8]
    manifest = replace(manifest, namespace=f"{namespace}_{short}")
    (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    return manifest


def _name(one: Proved) -> str:
    """The task's, as a name in Python that is not one of the package's own."""
    kept = re.sub(r"\W+", "_", one.task.name.partition("@")[0], flags=re.ASCII)
    plain = kept.isidentifier() and not keyword.iskeyword(kept) and not kept.startswith("_")
    return kept if plain and kept not in RESERVED else f"kernel_{kept}"


def _saved(one: Proved) -> bool:
    """A backward that takes more than the forward's arguments: nothing keeps it for the kernel in a user's process."""
    return any(isinstance(given, Saved) for given in one.task.inputs.values())


class _Writer:
    def __init__(self, folder: Path, operation: Operation, reference: str) -> None:
        self._folder, self._operation, self.reference = folder, operation, reference

    def variants(self, one: Proved, direction: str) -> list[Variant]:
        contract = contract_named(one.candidate.contract)
        if not isinstance(contract, HostContract):
            raise ExportError(f"{one.task.name}: a {contract.name} kernel cannot be made portable yet")
        if any(one.task.constant):
            raise ExportError(f"{one.task.name}: has constant inputs, which would have to be prepared once")
        for file, text in contract.split(one.candidate.source):
            (self._folder / KERNELS / f"{one.candidate.id}-{file}").write_text(text, encoding="utf-8")
        return [self._variant(one, direction, dtype) for dtype in one.task.dtypes]

    def _variant(self, one: Proved, direction: str, dtype: str) -> Variant:
        content, inspected = self._library(one, dtype)
        stem = f"{one.candidate.id}-{direction}-{dtype}"
        whole = one.verdict.domain is not None and not one.verdict.partial_domain
        conditions, last = one.verdict.conditions, one.certificates[-1]
        variant = Variant(
            id=one.candidate.id,
            contract=one.candidate.contract,
            kind="cpu",
            dtype=dtype,
            file=f"{KERNELS}/{stem}.so",
            sha256=hashlib.sha256(content).hexdigest(),
            certificate=f"{CERTIFICATES}/{stem}.json",
            device=last.environment.cpu,
            features=_features(),
            threads=conditions.threads,
            deterministic=deterministic(one.verdict) is True,
            stateless=inspected.stateless,
            openmp=inspected.openmp,
            alignment=ALIGNMENT,
            domain=dict(one.task.hidden) if whole else None,
            regions=regions_of(one.task, one.verdict, dtype),
            speedup=claimed(one.verdict, dtype),
        )
        (self._folder / variant.file).write_bytes(content)
        public = publish(
            one.certificates,
            one.verdict,
            one.task,
            self._operation,
            direction,
            variant,
            variant.sha256,
            self.reference,
        )
        (self._folder / variant.certificate).write_text(public.model_dump_json(indent=1) + "\n", encoding="utf-8")
        return variant

    def _library(self, one: Proved, dtype: str) -> tuple[bytes, elf.Inspected]:
        from kernelwright.tasks.drawing import signature

        workload = next(w for w in one.task.public_workloads() if w.dtype == dtype)
        built = build(one.candidate, signature(one.task, workload))
        if isinstance(built, BuildFailure):
            raise ExportError(f"{one.task.name}: the kernel does not build here: {built.lines[0]:.200}")
        _require_judged(one, built, workload)
        content = built.library.read_bytes()
        try:
            return content, elf.inspect(content)
        except elf.UnsafeObjectError as error:
            raise elf.UnsafeObjectError(f"{one.candidate.id}: its library is not loaded: {error}") from None


def _require_judged(one: Proved, built: Built, workload: Workload) -> None:
    """The judge names what it built for its first workload. Where that is not what is built here, another compiler is
    at work, or another processor, and nothing is proved of the result."""
    if workload != one.task.public_workloads()[0]:
        return
    if one.verdict.artefact != built.code:
        raise ExportError(
            f"{one.task.name}: what is built here is not what was judged (with {one.verdict.conditions.compiler} on "
            f"{one.certificates[-1].environment.cpu}); judge it again on this machine"
        )


def _features() -> tuple[str, ...]:
    if platform.machine() != "x86_64":
        return tuple(sorted(machine.cpu_features()))
    return tuple(sorted(one for one in machine.cpu_features() if one.startswith(FEATURES)))
