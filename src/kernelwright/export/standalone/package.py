"""Opens the kernel of an installed package: `opened(__file__)` in its `__init__.py`."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from .kernel import Kernel
from .manifest import parsed

ALLOW = "KERNELWRIGHT_ALLOW"  # what Kernel.allow takes, separated by commas


def opened(file: str, package: str) -> Kernel:
    folder = Path(file).parent
    manifest = parsed((folder / "kernel.json").read_text(encoding="utf-8"))
    reference = importlib.import_module(f"{package}.reference").reference
    allowed = [one.strip() for one in os.environ.get(ALLOW, "").split(",") if one.strip()]
    reader = None
    if any(variant.kind == "cuda" for variant in manifest.variants):
        reader = importlib.import_module(f"{__package__}.portable").PortableKernel.read
    return Kernel(manifest, folder, reference, allow=allowed, reader=reader)
