"""`kernelwright export`: an installable package and its wheel, which need torch and nothing of Kernelwright."""

from __future__ import annotations

import keyword
import platform
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from kernelwright.contracts import portable as portable_kernels
from kernelwright.export import wording
from kernelwright.export.describe import ExportError
from kernelwright.export.portable import write_portable
from kernelwright.export.proof import Proved
from kernelwright.export.public import PublicCertificate, verified
from kernelwright.export.standalone import fastbuild
from kernelwright.export.standalone.manifest import Manifest
from kernelwright.export.wheel import write_wheel

STANDALONE = Path(__file__).parent / "standalone"
FORMULAS = Path(portable_kernels.__file__).parent  # reads launch formulas, by the standard library alone
RUNTIME = "_runtime"
VERSION = "0.1.0"
LEAST_TORCH = "2.6"
LAYOUTS = ("package", "hf")


@dataclass(frozen=True)
class Exported:
    """`wheel` is None where the layout has none."""

    folder: Path
    name: str
    manifest: Manifest
    wheel: Path | None


def export(
    proved: Sequence[Proved],
    output: Path,
    name: str = "",
    layout: str = "package",
    architectures: Sequence[str] = (),
    *,
    fast_path: bool = False,
) -> Exported:
    """Writes into a new or empty folder; all or nothing. `fast_path`: with the C++ host side, built for this torch."""
    if layout not in LAYOUTS:
        raise ExportError(f"layout {layout!r} is not known: choose from {', '.join(LAYOUTS)}")
    chosen = name or _usual_name(proved)
    _check_name(chosen)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ExportError(f"{output}: already exists; name a new or an empty folder with -o")
    output.absolute().parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.absolute().parent))
    partial.chmod(0o755)
    try:
        made = _written(proved, partial, chosen, layout, architectures, fast_path)
        if output.exists():
            output.rmdir()
        partial.rename(output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    wheel = None if made.wheel is None else output / made.wheel.relative_to(partial)
    return Exported(output, chosen, made.manifest, wheel)


def _written(
    proved: Sequence[Proved], folder: Path, name: str, layout: str, architectures: Sequence[str], fast_path: bool
) -> Exported:
    place = folder / ("torch-ext" if layout == "hf" else "") / name
    place.mkdir(parents=True)
    manifest = write_portable(proved, place, name, architectures)
    if not any(variant.regions for variant in manifest.forward):
        raise ExportError(
            f"{name}: is not proved faster than the best baseline at any public workload; nothing to export"
        )
    shutil.copytree(STANDALONE, place / RUNTIME, ignore=shutil.ignore_patterns("__pycache__"))
    if any(variant.kind == "cuda" for variant in manifest.variants):
        shutil.copytree(FORMULAS, place / RUNTIME / FORMULAS.name, ignore=shutil.ignore_patterns("__pycache__"))
    if fast_path:
        _build_fast_path(place / RUNTIME / fastbuild.SHIPPED.name)
    pages = _Pages(name, manifest, _certificates(place, manifest))
    for file, template in PYTHON_FILES.items():
        (place / file).write_text(pages.page(template, module=file.removesuffix(".py")), encoding="utf-8")
    for file, template in (HF_FILES if layout == "hf" else PACKAGE_FILES).items():
        path = folder / file.format(name=name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages.page(template, module=""), encoding="utf-8")
    wheel = _wheel(folder, place, name, pages) if layout == "package" else None
    return Exported(folder, name, manifest, wheel)


PYTHON_FILES = {"__init__.py": "init", "selftest.py": "run", "benchmark.py": "run", "fastbuild.py": "run"}
PACKAGE_FILES = {"README.md": "readme", "pyproject.toml": "pyproject"}
HF_FILES = {
    "CARD.md": "readme",
    "build.toml": "hf_build",
    "tests/test_{name}.py": "hf_test",
    "benchmarks/benchmark.py": "hf_benchmark",
}


def _build_fast_path(folder: Path) -> None:
    """Into the package, by the cache: where torch, Python and processor are these, no compiler is needed."""
    try:
        built = fastbuild.build()
    except fastbuild.FastPathError as error:
        raise ExportError(f"the fast path cannot be built: {error}") from None
    folder.mkdir()
    shutil.copy(built, folder / built.name)


def _wheel(folder: Path, place: Path, name: str, pages: _Pages) -> Path:
    files = {
        f"{name}/{path.relative_to(place)}": path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()
    }
    dist = folder / "dist"
    dist.mkdir()
    return write_wheel(dist, name, VERSION, _tag(), files, pages.page("metadata", module=""))


def _tag() -> str:
    return f"py3-none-linux_{platform.machine()}"


class _Pages:
    """The texts of a package, from what its certificates say."""

    def __init__(self, name: str, manifest: Manifest, certificates: Sequence[PublicCertificate]) -> None:
        loader = PackageLoader("kernelwright.export", "templates")
        self._templates = Environment(
            loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
            autoescape=False,
        )  # fmt: skip
        self._templates.filters.update(wording.FILTERS)
        self._values = {
            "name": name,
            "version": VERSION,
            "least_torch": LEAST_TORCH,
            "operation": manifest.operation,
            "manifest": manifest,
            "call": ", ".join(one.name for one in manifest.operation.call),
            "certificates": certificates,
            "proofs": list(zip(manifest.variants, certificates, strict=True)),
            "runtime": RUNTIME,
            "gpu": any(one.kind == "cuda" for one in manifest.variants),
        }

    def page(self, template: str, **values: str) -> str:
        return self._templates.get_template(f"{template}.j2").render(**self._values, **values)


def _certificates(place: Path, manifest: Manifest) -> list[PublicCertificate]:
    return [verified((place / one.certificate).read_bytes(), one.certificate) for one in manifest.variants]


def _usual_name(proved: Sequence[Proved]) -> str:
    task = proved[0].task.name.partition("@")[0].removesuffix(":backward")
    stem = re.sub(r"\W+", "_", task, flags=re.ASCII).strip("_").lower() or "kernel"
    return f"{stem}_kernel"


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", name) or keyword.iskeyword(name) or name in ("torch", "kernelwright"):
        raise ExportError(f"{name!r:.60} cannot be a package's name: use small letters, digits and underscores")
