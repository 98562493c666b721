"""A request to stop that does not get lost: Ctrl-C, or the SIGTERM of a scheduler or a shutdown.

A signal's exception ends whatever the main thread waits for. But Python drops an exception that is raised while a
finalizer or a weak reference's callback runs: the command would then go on for minutes, a search for hours. So the
signal is sent again if that happens, and the request is also kept, for loops to look at.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

BY_HAND = "by hand"
_WORDS = {signal.SIGINT: BY_HAND, signal.SIGTERM: "by SIGTERM"}
_AGAIN_SECONDS = 0.05  # by then the finalizer is over

_requested: str | None = None
_again: threading.Timer | None = None


def listen() -> None:
    """For a command that is a process of its own. What its parent had it ignore stays ignored."""
    for number in _WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    sys.unraisablehook = _on_dropped


def raise_if_requested() -> None:
    """For loops, which need not wait until a dropped exception is raised again."""
    if _requested is not None:
        if _again is not None:
            _again.cancel()
        raise KeyboardInterrupt(_requested)


def _on_signal(number: int, frame: FrameType | None) -> None:
    global _requested
    _requested = _WORDS[signal.Signals(number)]
    raise KeyboardInterrupt(_requested)


def _on_dropped(dropped: sys.UnraisableHookArgs) -> None:
    global _again
    if _requested is None or not issubclass(dropped.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
        return
    number = next(number for number, words in _WORDS.items() if words == _requested)
    _again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
    _again.daemon = True
    _again.start()
