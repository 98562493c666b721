"""Where Python and its packages are, for a confined process that imports torch."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path


def interpreter_folders() -> tuple[Path, ...]:
    """What Python needs of where it is installed, which may be a folder with much else in it."""
    prefix = Path(sys.base_prefix).resolve()
    return tuple(path for name in ("bin", "lib", "lib64", "include") if (path := prefix / name).is_dir())


@cache
def package_folders() -> tuple[str, ...]:
    """The folders of installed packages. The rest of sys.path, a user's own folder or even `/`, is not its business."""
    installed = {str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib")}
    names = ("site-packages", "dist-packages")
    found = [entry for entry in sys.path if Path(entry).name in names or str(Path(entry).resolve()) in installed]
    return tuple(dict.fromkeys(str(Path(entry).absolute()) for entry in found if Path(entry).is_dir()))
