"""A folder with everything that a kernel needs to be called: kernel.json, libraries, reference, certificates."""

from __future__ import annotations

import hashlib
import keyword
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernelwright.contracts.host_build import Built, build
from kernelwright.contracts.model import BuildFailure, HostContract, PortableRequest
from kernelwright.contracts.registry import contract_named
from kernelwright.contracts.target import HOPPER, Target, target_of
from kernelwright.export import elf
from kernelwright.export.describe import ExportError, operation_of
from kernelwright.export.proof import Proved, sorted_by_direction
from kernelwright.export.public import deterministic, publish
from kernelwright.export.reference_text import reference_text
from kernelwright.export.region import claimed, regions_of, whole_domain
from kernelwright.export.standalone import machine
from kernelwright.export.standalone.manifest import Manifest, OperationSpec, ProvedVariant, digest
from kernelwright.tasks.declarations import Saved
from kernelwright.tasks.model import Workload

MANIFEST, REFERENCE, KERNELS, CERTIFICATES = "kernel.json", "reference.py", "kernels", "certificates"
RESERVED = ("reference", "selftest", "benchmark", "kernels", "certificates")
# In bytes. On a CPU: what torch's allocator gives, and the widest that an instruction of x86-64 asks for. On a GPU:
# what a judging gives, which is less than what torch's allocator does.
ALIGNMENT = {"cpu": 64, "cuda": 256}
# What a compiler may use of a processor, by the names that Linux gives it.
FEATURES = (
    *("ssse3", "sse4", "popcnt", "avx", "fma", "f16c", "bmi", "abm", "lzcnt", "movbe", "adx", "aes", "pclmulqdq"),
    *("sha_ni", "gfni", "vaes", "vpclmulqdq", "amx", "rdrand", "rdseed", "fsgsbase", "xsave", "clflushopt", "clwb"),
)


def write_portable(
    proved: Sequence[Proved], folder: Path, namespace: str, architectures: Sequence[str] = ()
) -> Manifest:
    """Fills an empty folder. Every library is built in the sandbox, compared with what was judged, and looked into."""
    forward, backward = sorted_by_direction(proved)
    operation, traced = operation_of(forward[0].task, _name(forward[0]))
    text = reference_text(forward[0].task, traced)
    for part in (KERNELS, CERTIFICATES):
        (folder / part).mkdir(parents=True)
    (folder / REFERENCE).write_text(text, encoding="utf-8")
    writer = _Writer(folder, operation, hashlib.sha256(text.encode()).hexdigest(), architectures)
    usable = [one for one in backward if not _saved(one)]
    manifest = Manifest(
        operation,
        namespace,
        writer.reference,
        tuple(variant for one in forward for variant in writer.variants(one, "forward")),
        tuple(variant for one in usable for variant in writer.variants(one, "backward")),
    )
    short = digest([one.proved_part for one in manifest.variants])[:8]
    manifest = replace(manifest, namespace=f"{namespace}_{short}", notes=tuple(writer.notes))
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


@dataclass(frozen=True)
class _Binary:
    """What is called: the file's content and, for a GPU, modules beside it. `needs` is what a device must have."""

    suffix: str
    content: bytes
    needs: tuple[str, ...]
    modules: Mapping[str, bytes] = field(default_factory=dict)
    openmp: bool = False
    stateless: bool = True
    listed_only: bool = False  # whether it can be called at public sizes alone
    note: str = ""


class _Writer:
    def __init__(self, folder: Path, operation: OperationSpec, reference: str, architectures: Sequence[str]) -> None:
        self._folder, self._operation, self.reference = folder, operation, reference
        self._architectures = architectures
        self.notes: dict[str, None] = {}

    def variants(self, one: Proved, direction: str) -> list[ProvedVariant]:
        contract = contract_named(one.candidate.contract)
        if any(one.task.constant):
            raise ExportError(f"{one.task.name}: has constant inputs, which cannot be exported yet")
        for file, text in contract.split(one.candidate.source):
            (self._folder / KERNELS / f"{one.candidate.id}-{file}").write_text(text, encoding="utf-8")
        found = []
        for dtype in one.task.dtypes:
            if isinstance(contract, HostContract):
                binaries = [_library(one, dtype)]
            else:
                binaries = [_modules(one, dtype, target) for target in targets(self._architectures)]
            found += [self._variant(one, direction, dtype, contract.device, binary) for binary in binaries]
        return found

    def _variant(self, one: Proved, direction: str, dtype: str, kind: str, binary: _Binary) -> ProvedVariant:
        needed = f"-{binary.needs[0]}" if kind == "cuda" else ""
        stem = f"{one.candidate.id}-{direction}-{dtype}{needed}"
        regions = regions_of(one.task, one.verdict, dtype)
        if binary.note:
            self.notes[f"{direction} {dtype}, {one.candidate.id}: {binary.note}"] = None
        environment = one.certificates[-1].environment
        variant = ProvedVariant(
            id=one.candidate.id,
            contract=one.candidate.contract,
            kind=kind,
            dtype=dtype,
            file=f"{KERNELS}/{stem}{binary.suffix}",
            sha256=hashlib.sha256(binary.content).hexdigest(),
            certificate=f"{CERTIFICATES}/{stem}.json",
            device=environment.cpu if kind == "cpu" else (environment.device or "unknown").removeprefix("cuda: "),
            features=binary.needs,
            threads=one.verdict.conditions.threads,
            deterministic=deterministic(one.verdict) is True,
            stateless=binary.stateless,
            openmp=binary.openmp,
            alignment=ALIGNMENT[kind],
            domain=dict(one.task.hidden) if whole_domain(one.verdict) else None,
            regions=tuple(region for region in regions if region.exactly or not binary.listed_only),
            speedup=claimed(one.verdict, dtype),
        )
        (self._folder / variant.file).write_bytes(binary.content)
        for name, content in binary.modules.items():
            (self._folder / KERNELS / f"{name}.cubin").write_bytes(content)
        public = publish(one, self._operation, direction, variant, self.reference)
        (self._folder / variant.certificate).write_text(public.model_dump_json(indent=1) + "\n", encoding="utf-8")
        return variant


def _library(one: Proved, dtype: str) -> _Binary:
    """Built in the sandbox, compared with what was judged, and looked into."""
    from kernelwright.tasks.drawing import signature

    workload = next(w for w in one.task.public_workloads() if w.dtype == dtype)
    built = build(one.candidate, signature(one.task, workload))
    if isinstance(built, BuildFailure):
        raise ExportError(f"{one.task.name}: the kernel does not build here: {built.lines[0]:.200}")
    _require_judged(one, built, workload)
    content = built.library.read_bytes()
    try:
        inspected = elf.inspect(content)
    except elf.UnsafeObjectError as error:
        raise elf.UnsafeObjectError(f"{one.candidate.id}: its library is not loaded: {error}") from None
    return _Binary(".so", content, _features(), openmp=inspected.openmp, stateless=inspected.stateless)


def _modules(one: Proved, dtype: str, target: Target) -> _Binary:
    """A launch formula and its cubins. The plan's Python is evaluated here, in the sandbox, and never again."""
    from kernelwright.contracts.symbolic import symbolic_signature
    from kernelwright.tasks.drawing import signature

    listed = tuple((w.size_map, signature(one.task, w)) for w in one.task.public_workloads() if w.dtype == dtype)
    everywhere = whole_domain(one.verdict)
    symbolic = symbolic_signature(one.task, dtype)
    request = PortableRequest(one.task.name, symbolic, listed, target, listed_only=not everywhere)
    made = contract_named(one.candidate.contract).portable(one.candidate, request)
    if isinstance(made, BuildFailure):
        raise ExportError(f"{one.task.name}: the kernel does not build for {target.architecture}: {made.lines[0]:.200}")
    return _Binary(
        ".formula.json",
        made.kernel.text().encode(),
        (target.architecture,),
        made.binaries,
        listed_only=not made.kernel.all_sizes,
        note=made.note if everywhere else "",
    )


def targets(architectures: Sequence[str]) -> tuple[Target, ...]:
    """The kinds of GPU that were asked for: this machine's, and those that can be built for without one."""
    known = {HOPPER.architecture: HOPPER, **_local_targets()}
    unknown = [one for one in architectures if one not in known]
    if unknown:
        raise ExportError(f"--arch {unknown[0]}: is not known here; choose from {', '.join(known)}")
    if architectures:
        return tuple(known[one] for one in dict.fromkeys(architectures))
    return tuple(_local_targets().values()) or (HOPPER,)


def _local_targets() -> dict[str, Target]:
    from kernelwright.devices import nvidia

    if nvidia.absence():
        return {}
    found = [target_of(nvidia.probe(index)) for index in range(nvidia.count())]
    return {one.architecture: one for one in found}


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
