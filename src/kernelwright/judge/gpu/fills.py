"""What the judge does itself where initcheck does not end: the same call with two fills of all memory that nothing has
written. A result that depends on the fill was computed from such memory.

It sees less than the tool: a value that is read and changes no result is not found, and shared memory is not filled.
The fills are far above and far below every usual number in each floating-point format; every trial has a NaN besides.
"""

from __future__ import annotations

from kernelwright.isolation.channel import Message
from kernelwright.judge.gpu.client import LauncherProcess
from kernelwright.judge.oracle_client import OracleClient

HIGH, LOW = 0x7B7B7B7B, 0xFBFBFBFB  # 1.3e36 in float32 and bfloat16, 61280 in float16; and the same below zero
AGAIN = (HIGH, HIGH, LOW, LOW, HIGH)  # a result that varies by itself, by turns perhaps, does not follow these fills
FOUND = (
    "the result depends on memory that nothing has written (initcheck did not end; scratch and outputs were filled in "
    "two ways before the same call)",
)


def reads_unwritten(
    oracle: OracleClient, launcher: LauncherProcess, deadline: float
) -> tuple[Message | None, tuple[str, ...]]:
    """What is wrong with a result, and what two fills showed. The oracle has loaded a trial's values."""

    def same(word: int) -> bool:
        oracle.repeat()
        launcher.run(word, deadline, filled=True)
        return oracle.repeated()

    launcher.run(HIGH, deadline, filled=True)
    if answer := oracle.check(remember=True):
        return answer, ()
    if same(LOW):
        return None, ()
    if answer := oracle.check():
        return answer, ()
    follows = all(same(word) == (word == HIGH) for word in AGAIN)
    return None, FOUND if follows else ()
