"""`kernelwright.load`: a proved kernel as a function, from runs of this installation or from an exported folder."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernelwright.contracts.portable import PortableKernel
from kernelwright.export import elf
from kernelwright.export.describe import ExportError
from kernelwright.export.portable import MANIFEST, REFERENCE, write_portable
from kernelwright.export.proof import Proved, proved_in
from kernelwright.export.public import verified
from kernelwright.export.reference_text import compiled_reference
from kernelwright.export.standalone.kernel import LoadedKernel
from kernelwright.export.standalone.manifest import Manifest, ManifestError, ProvedVariant, parsed, proved_digest
from kernelwright.judge.certificate import CertificateError
from kernelwright.judge.strangers.trusted import own_key, trusted_keys
from kernelwright.paths import cache_dir, printable
from kernelwright.search.config import DEFAULT_ROOT
from kernelwright.search.session import find

MAX_MANIFEST, MAX_REFERENCE, MAX_LIBRARY = 1 << 20, 4 << 20, 64 << 20
PREFIX = "kernelwright_loaded"
_number = itertools.count()  # of operators' namespaces: torch has each only once in a process


def load(
    *given: str | Path,
    allow: Sequence[str] = (),
    reference: Callable[..., Any] | None = None,
    runs: str | Path = DEFAULT_ROOT,
) -> LoadedKernel:
    """A function that uses the kernel where it is proved right and faster, and the reference elsewhere.

    `given` are runs of one task (further kernels for other sizes, its backward), or one exported folder. `reference` is
    called in place of the task's own where the kernel does not hold. `allow`: see `Kernel.allow`.
    """
    if not given:
        raise ExportError("name a run, or an exported folder, to load")
    folders = [find(str(one), Path(runs)) for one in given]
    exported = [one for one in (_manifest_in(folder) for folder in folders) if one is not None]
    if exported and len(folders) > 1:
        raise ExportError("an exported folder is complete; load it alone")
    if exported:
        return open_exported(exported[0], allow=allow, reference=reference)
    return load_proved([proved_in(folder) for folder in folders], allow=allow, reference=reference)


def load_proved(
    proved: Sequence[Proved], *, allow: Sequence[str] = (), reference: Callable[..., Any] | None = None
) -> LoadedKernel:
    task = next((one.task for one in proved if not one.backward), proved[0].task)
    folder = Path(tempfile.mkdtemp(prefix="load-", dir=cache_dir("loaded")))
    try:
        manifest = write_portable(proved, folder, PREFIX)
        kept = (
            cache_dir("loaded") / f"{manifest.namespace}-{hashlib.sha256(manifest.to_json().encode()).hexdigest()[:12]}"
        )
        if not kept.exists():
            folder.rename(kept)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    namespace = f"{manifest.namespace}_{next(_number)}"
    return LoadedKernel(
        manifest, kept, task.reference, namespace=namespace, allow=allow, outer=reference, reader=PortableKernel.read
    )


def open_exported(
    path: Path, *, allow: Sequence[str] = (), reference: Callable[..., Any] | None = None
) -> LoadedKernel:
    """An exported kernel, perhaps a stranger's: nothing of it is run before a trusted judge is known to have signed for
    exactly this."""
    folder = path.parent
    try:
        manifest = parsed(_read(path, MAX_MANIFEST).decode())
    except (ManifestError, UnicodeDecodeError) as error:
        raise ExportError(f"{_shown(path)}: {error}") from None
    text = _read(folder / REFERENCE, MAX_REFERENCE)
    found = hashlib.sha256(text).hexdigest()
    for direction, variants in (("forward", manifest.forward), ("backward", manifest.backward)):
        for variant in variants:
            _require_signed(folder, manifest, direction, variant, found)
    if not manifest.forward:
        raise ExportError(f"{_shown(path)}: has no kernel")
    namespace = f"{PREFIX}_{next(_number)}"
    plain = compiled_reference(text.decode())
    return LoadedKernel(
        manifest, folder, plain, namespace=namespace, allow=allow, outer=reference, reader=PortableKernel.read
    )


def _require_signed(folder: Path, manifest: Manifest, direction: str, variant: ProvedVariant, reference: str) -> None:
    certificate = _inside(folder, variant.certificate)
    issued = verified(_read(certificate, MAX_REFERENCE), _shown(certificate))
    if issued.judge != own_key() and issued.judge not in {one.key for one in trusted_keys()}:
        raise CertificateError(
            f"{_shown(certificate)}: signed by an unknown key ({issued.judge[:16]}…); `kernelwright trust add KEY` if "
            "you know whose it is"
        )
    if issued.digests.proved != proved_digest(manifest.operation, direction, variant):
        raise CertificateError(f"{folder / MANIFEST}: is not what the judge signed for (altered, or of another kernel)")
    if issued.digests.reference != reference:
        raise CertificateError(f"{folder / REFERENCE}: is not the reference that the judge signed for")
    library = _inside(folder, variant.file)
    content = _read(library, MAX_LIBRARY)
    if hashlib.sha256(content).hexdigest() != issued.digests.binary or variant.sha256 != issued.digests.binary:
        raise CertificateError(f"{_shown(library)}: is not the library that the judge signed for")
    if variant.kind == "cuda":  # what is launched is data, and cubins are looked up by their hash when they are loaded
        return
    try:
        elf.inspect(content)
    except elf.UnsafeObjectError as error:
        raise elf.UnsafeObjectError(f"{_shown(library)}: is not loaded: {error}") from None


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ExportError(f"{folder / MANIFEST}: names a file outside of its folder ({name!r:.80})")
    return path


def _manifest_in(folder: Path) -> Path | None:
    found = [path for path in (folder / MANIFEST, *folder.glob(f"*/{MANIFEST}")) if path.is_file()]
    return found[0] if found else None


def _read(path: Path, most: int) -> bytes:
    """A plain file, whole: what a pipe or a device gives has no end."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ExportError(f"{_shown(path)}: is not a file")
            content = file.read(most + 1)
    except OSError as error:
        raise ExportError(f"{_shown(path)}: {error.strerror}") from error
    if len(content) > most:
        raise ExportError(f"{_shown(path)}: has more than {most:,} bytes")
    return content


def _shown(path: Path) -> str:
    """Names in a folder are its author's."""
    return printable(str(path))
