"""Writes a wheel: an archive with a known layout, so that no build tool and no network is needed to make one."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from kernelwright.version import __version__

WHEN = (1980, 1, 1, 0, 0, 0)  # the same files make the same wheel


def write_wheel(folder: Path, name: str, version: str, tag: str, files: Mapping[str, bytes], metadata: str) -> Path:
    """`files` by their path below site-packages."""
    info = f"{name}-{version}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: kernelwright {__version__}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    whole = {**files, f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": wheel.encode()}
    record = "".join(f"{path},{_digest(content)},{len(content)}\n" for path, content in sorted(whole.items()))
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in sorted(whole.items()):
            _add(archive, member, content)
        _add(archive, f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode())
    return path


def _add(archive: zipfile.ZipFile, member: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(member, WHEN)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    archive.writestr(entry, content)


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
