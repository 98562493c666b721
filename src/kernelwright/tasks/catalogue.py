"""What the built-in tasks declare, without torch where it was looked up before.

Their references need torch, which takes seconds to import. What is shown of them follows from the sources of this
package alone, so that it is kept in the cache under the hash of those.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from kernelwright.paths import cache_dir, write_whole
from kernelwright.tasks.describe import TaskInfo, describe
from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.naming import BACKWARD
from kernelwright.tasks.resolve import builtin_names, declared
from kernelwright.tasks.suites import suite

PACKAGE = Path(__file__).parent
KEPT: TypeAdapter[tuple[TaskInfo, ...]] = TypeAdapter(tuple[TaskInfo, ...])


def catalogue() -> tuple[TaskInfo, ...]:
    """Each built-in, followed by its gradient where it has one."""
    kept = cache_dir("catalogue") / f"{_digest()}.json"
    try:
        return KEPT.validate_json(kept.read_bytes())
    except (OSError, ValidationError):  # not there yet, or not whole
        found = tuple(info for name in builtin_names() for info in _both_directions(name))
    write_whole(kept, KEPT.dump_json(found))
    return found


def of_suite(name: str) -> tuple[TaskInfo, ...]:
    known = {info.name: info for info in catalogue()}
    return tuple(known[ref] for ref in suite(name))


def _both_directions(name: str) -> tuple[TaskInfo, ...]:
    forward = describe(declared(name))
    try:
        return forward, describe(declared(f"{name}:{BACKWARD}"))
    except TaskError:  # argmax and in-place tasks have no gradient
        return (forward,)


def _digest() -> str:
    """Of all that decides what is shown; where the files lie is shown, too."""
    whole = hashlib.sha256(str(PACKAGE).encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        whole.update(f"{path.relative_to(PACKAGE)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:32]
