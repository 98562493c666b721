"""A wish to stop that does not get lost: Ctrl-C, or the SIGTERM of a scheduler or a shutdown.

A signal's exception ends whatever the main thread waits for. But Python drops an exception that is raised while a
finalizer or a weak reference's callback runs, and a search would then go on for hours. So the wish is also kept, for
loops to look at.
"""

from __future__ import annotations

import signal
from types import FrameType

BY_HAND = "by hand"
_WORDS = {signal.SIGINT: BY_HAND, signal.SIGTERM: "by SIGTERM"}

_wish: str | None = None


def listen() -> None:
    """For a command that is a process of its own. What its parent had it ignore stays ignored."""
    for number in _WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _asked)


def wished() -> str | None:
    """Who wants this process to stop, in words."""
    return _wish


def _asked(number: int, frame: FrameType | None) -> None:
    global _wish
    _wish = _WORDS[signal.Signals(number)]
    raise KeyboardInterrupt(_wish)
