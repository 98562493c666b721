"""A caller's side of the server: find it, or start it, and ask."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from kernelwright.contracts import Candidate
from kernelwright.contracts.candidate import MAX_BYTES
from kernelwright.errors import CannotDecide, DeadlineExceeded, KernelwrightError
from kernelwright.isolation.channel import Channel, ChannelClosed
from kernelwright.judge.keys import code_stamp
from kernelwright.judge.server import address, protocol
from kernelwright.judge.server.protocol import (
    ControlRequest,
    Greeting,
    OpenRequest,
    RequestedSettings,
    ServerReply,
    ServerRequest,
    ServerStatus,
)
from kernelwright.judge.settings import MOST_UPCOMING, ProgressCallback, Settings, ignore_progress
from kernelwright.judge.verdict import Verdict
from kernelwright.judge.wording import counted
from kernelwright.tasks.resolve import absolute_reference

STOP_SECONDS = 60.0
ANSWER_SECONDS = 120.0  # for what no judging delays
SILENCE_SECONDS = 900.0  # for who waits for others: longer than any step of an evaluation takes
REMEDY = "end its process, or use --no-server"


class ServerJudge:
    """Judges like `Judge`, in a process that was there before and will be there after, or in one of its own."""

    def __init__(self, settings: Settings, *, own: bool = False, leave_at: float | None = None) -> None:
        """`leave_at`, of the monotonic clock: who still waits for others then gives up, as at a deadline."""
        self._leave_at = leave_at
        self._wanted = RequestedSettings.of(settings)
        self._where = address.private_address(settings.device) if own else address.address(settings.device)
        self._own = own
        self._channel = _find_or_start(self._where)
        self._expected: tuple[str, tuple[Candidate, ...]] = "", ()

    def __enter__(self) -> ServerJudge:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._channel.close()
        if self._own:
            _end(self._where)

    def open(self, task: str, progress: ProgressCallback = ignore_progress, deadline: float | None = None) -> None:
        self._ask(OpenRequest(task=absolute_reference(task), wanted=self._wanted), progress, deadline)

    def expect(self, task: str, candidates: Sequence[Candidate], settings: Settings | None = None) -> None:
        """What will be judged after the next candidate, with the same settings: its request takes word of them along,
        and a server builds them meanwhile if that disturbs no measurement."""
        total = itertools.accumulate(len(candidate.source) for candidate in candidates)
        fitting = itertools.takewhile(lambda pair: pair[1] <= MAX_BYTES, zip(candidates, total, strict=True))
        self._expected = absolute_reference(task), tuple(one for one, _ in fitting)[:MOST_UPCOMING]

    def judge(
        self,
        task: str,
        candidate: Candidate,
        progress: ProgressCallback = ignore_progress,
        settings: Settings | None = None,
        deadline: float | None = None,
    ) -> Verdict:
        """The verdict, or DeadlineExceeded after so many seconds of judging; waiting for others is not counted, but it
        ends at `leave_at`."""
        reference, (of, upcoming) = absolute_reference(task), self._expected
        self._expected = "", ()
        request = protocol.JudgeRequest(
            task=reference,
            candidate=candidate,
            wanted=self._wanted if settings is None else RequestedSettings.of(settings),
            upcoming=upcoming if of == reference else (),
        )
        verdict = self._ask(request, progress, deadline).verdict
        assert verdict is not None
        return verdict

    def _ask(self, request: ServerRequest, progress: ProgressCallback, deadline: float | None = None) -> ServerReply:
        """Asks once more if the server is lost on the way: it may have been stopped, or killed."""
        if self._channel.fd < 0:
            self._again()
        try:
            try:
                return _ask(self._channel, request, progress, deadline, self._leave_at)
            except ChannelClosed:
                progress("the server is gone; starting another")
                self._again()
            return _ask(self._channel, request, progress, deadline, self._leave_at)
        except DeadlineExceeded:  # a server stops the judging within seconds, one of our own is ended
            self._replace()
            raise
        except ChannelClosed:
            raise CannotDecide(f"the server crashed twice while judging; see {self._where.log}") from None

    def _replace(self) -> None:
        """Leaves a server. One of our own is ended, and so is one that does not even greet.

        If no other can be had now, the next request says so: what the caller has to learn now is another thing.
        """
        was = address.started(self._where)
        if self._own:
            _end(self._where)
        try:
            self._again()
        except CannotDecide:
            if was is not None and was == address.started(self._where):  # else another caller has replaced it
                _kill(was)
            with contextlib.suppress(CannotDecide):
                self._again()

    def _again(self) -> None:
        self._channel.close()
        self._channel = _find_or_start(self._where)


def _ask(
    channel: Channel,
    request: ServerRequest,
    progress: ProgressCallback,
    deadline: float | None = None,
    leave_at: float | None = None,
) -> ServerReply:
    """A deadline counts from when the server begins with the request. Until then silence takes too long, and a caller
    may have a time at which it leaves."""
    channel.limit(None)
    channel.send(request.model_dump(mode="json"))
    silence = ANSWER_SECONDS if isinstance(request, ControlRequest) else SILENCE_SECONDS
    ahead, until = None, 0.0
    while True:
        left = None if deadline is None else max(0.001, until - time.monotonic())
        patience = silence if leave_at is None else min(silence, max(0.001, leave_at - time.monotonic()))
        channel.limit(left if ahead == 0 else patience)
        try:
            message, _ = channel.receive()
        except TimeoutError:
            if ahead != 0 and leave_at is not None and time.monotonic() >= leave_at:
                raise DeadlineExceeded("its turn at the judge did not come in time") from None
            if ahead == 0:
                raise DeadlineExceeded(f"the evaluation did not end within {deadline:g} s") from None
            raise CannotDecide(f"the server was silent for {silence:g} s; {REMEDY}") from None
        reply = ServerReply.model_validate(message)
        if reply.error is not None:
            error = KernelwrightError(reply.error)
            error.exit_code = reply.exit_code
            raise error
        if reply.done:
            return reply
        if reply.progress is not None:
            progress(reply.progress)
        if reply.ahead == 0:
            until = time.monotonic() + (deadline or 0.0)
        elif reply.ahead is not None and reply.ahead != ahead:
            progress(f"waiting for {counted(reply.ahead, 'other evaluation')}")
        ahead = ahead if reply.ahead is None else reply.ahead


def _greeted(path: Path) -> tuple[Channel, Greeting] | None:
    connection = address.connect(path)
    if connection is None:
        return None
    if not address.same_user(connection):
        connection.close()
        raise CannotDecide(f"{path}: another user listens there")
    channel = Channel(connection)
    channel.limit(ANSWER_SECONDS)
    try:
        return channel, Greeting.model_validate(channel.receive()[0])
    except ChannelClosed:
        channel.close()
        return None
    except TimeoutError:
        channel.close()
        raise CannotDecide(f"{path}: the server there does not answer; {REMEDY}") from None


def _find_or_start(where: address.Address) -> Channel:
    with address.starting(where):
        found = _greeted(where.socket)
        if found is not None:
            channel, hello = found
            if hello.code == code_stamp():
                return channel
            _ask(
                channel, ControlRequest(request="stop"), ignore_progress
            )  # it finishes what it does for others, and goes
            channel.close()
        _start(where)
        found = _greeted(where.socket)
    if found is None:
        raise CannotDecide(f"the server did not start: {_last_line(where.log)}")
    return found[0]


def _start(where: address.Address) -> None:
    """The listening socket is made here and handed over, so that a caller can connect at once."""
    listener = address.listen(where.socket)
    with listener, where.log.open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "kernelwright.judge.server.server"),
                *(str(listener.fileno()), where.name, str(where.device)),
            ],
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)},
            start_new_session=True,
        )
    where.lock.write_text(str(process.pid), encoding="ascii")


def _end(where: address.Address) -> None:
    """Kills a server of our own, with everything that it started. It is not asked: it may not answer any more."""
    pid = address.started(where)
    if pid is not None:
        _kill(pid)
    for path in (where.socket, where.log, where.lock):
        path.unlink(missing_ok=True)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "its log is empty"


def statuses() -> list[ServerStatus]:
    """Of every server of this user."""
    return [status for where in address.addresses() if (status := _asked(where, "status")) is not None]


def stop_all(tell: Callable[[str], None] = ignore_progress) -> int:
    """Stops every server of this user once its evaluation under way is done; says how many there were."""
    stopped = [status for where in address.addresses() if (status := _asked(where, "stop")) is not None]
    until = time.monotonic() + STOP_SECONDS
    for status in stopped:
        tell(f"stopping {status.pid}")
        while _exists(status.pid) and time.monotonic() < until:
            time.sleep(0.05)
        if _exists(status.pid):
            raise CannotDecide(f"the server (process {status.pid}) is still judging; it stops when that is done")
    return len(stopped)


def _asked(where: address.Address, what: str) -> ServerStatus | None:
    found = _greeted(where.socket)
    if found is None:
        return None
    channel, _ = found
    try:
        return _ask(channel, ControlRequest.model_validate({"request": what}), ignore_progress).status
    except ChannelClosed:
        return None
    finally:
        channel.close()


def _exists(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
