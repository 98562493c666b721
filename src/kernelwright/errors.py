"""The errors that a person sees: one line, and the exit code that goes with it."""

from __future__ import annotations

import errno


class KernelwrightError(Exception):
    """An error that the user can fix. Shown as one line, without a traceback."""

    exit_code = 2


class CannotDecide(KernelwrightError):  # noqa: N818 - it names an outcome, as the exit code does
    """The judge could not do its work (no compiler, no room, no device), so there is no verdict."""

    exit_code = 3


class MemoryEnded(CannotDecide):
    """The machine's memory ended while a candidate ran, and whose fault that was is not known."""


class JudgeOutOfMemory(KernelwrightError):  # noqa: N818 - it names an outcome
    """The judge's own processes ran out of memory, or will not be begun because they would: no verdict is possible."""

    exit_code = 3


class DiskFull(CannotDecide):
    """Something could not be written for want of space. What was written before is whole."""


NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
NOT_WRITABLE = frozenset((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR))


class DeadlineExceeded(CannotDecide):
    """An evaluation that did not end in time. It has been ended, or will end."""
