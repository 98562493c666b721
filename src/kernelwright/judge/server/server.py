"""The server's process: one judge, many callers, one evaluation at a time.

Each caller has a thread that only reads, queues, and says how many evaluations come first. The main thread judges. A
caller waits for its verdict before it sends the next candidate, so a plain queue serves callers in turn, however many
candidates each of them has. An evaluation whose caller has left is interrupted: others may wait for it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from kernelwright.devices.names import device_named
from kernelwright.errors import NO_SPACE, CannotDecide, KernelwrightError
from kernelwright.isolation.channel import Channel, ChannelClosed
from kernelwright.judge import controller
from kernelwright.judge.keys import code_hash, code_stamp
from kernelwright.judge.server import address
from kernelwright.judge.server.protocol import (
    ControlRequest,
    Greeting,
    JudgeRequest,
    OpenRequest,
    ServerReply,
    ServerStatus,
    request_of,
)
from kernelwright.judge.settings import MOST_UPCOMING, Settings
from kernelwright.version import __version__

IDLE_SECONDS = 900.0
IDLE_VARIABLE = "KERNELWRIGHT_SERVER_IDLE"
TICK = 0.5
ANNOUNCE_SECONDS = 30.0  # between words to those who wait
LEFT_SECONDS = 3.0  # in which an evaluation without a caller may come to its next step and end there, all kept warm
INTERRUPT = signal.SIGUSR1


class CallerLeft(BaseException):
    """Raised in the evaluation under way, wherever it is: an event, which it must not take for a fault of its own."""


@dataclass
class CallerConnection:
    channel: Channel
    sending: threading.RLock = field(default_factory=threading.RLock)

    def send(self, reply: ServerReply) -> None:
        with self.sending:
            self.channel.send(reply.model_dump(mode="json"))


@dataclass
class QueuedRequest:
    """A request in the queue, its place there, and the sign that it was dealt with."""

    caller: CallerConnection
    request: OpenRequest | JudgeRequest
    number: int
    begun: bool = False
    served: threading.Event = field(default_factory=threading.Event)

    def wait(self, interrupt: Callable[[QueuedRequest], None]) -> None:
        """Until it was dealt with. A caller sends nothing meanwhile, unless it leaves."""
        poll = select.poll()
        poll.register(self.caller.channel.fd, select.POLLIN | select.POLLRDHUP)
        left = poll.poll()[0][1] & (select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        if left and not self.served.wait(LEFT_SECONDS):
            interrupt(self)
        self.served.wait()

    def announce(self, ahead: int) -> None:
        """How many come first, but not once it was begun: two threads say so, and one may be late."""
        with self.caller.sending:
            if not self.begun:
                self.begun = ahead == 0
                self.caller.send(ServerReply(ahead=ahead))


class Server:
    def __init__(self, where: address.Address, listener: socket.socket, idle_limit: float) -> None:
        self._where, self._listener, self._idle_limit = where, listener, idle_limit
        self._inode = where.socket.stat().st_ino
        self._queue: queue.Queue[QueuedRequest] = queue.Queue()
        self._judges: dict[int, controller.Judge] = {}
        self._begin = self._last = time.monotonic()
        self._callers = self._judged = self._queued = self._served = 0
        self._progress_count = 0  # signs of life of the evaluations so far
        self._stopping = threading.Event()
        self._counting = threading.Lock()
        self._under_way: QueuedRequest | None = None
        self._without_caller: QueuedRequest | None = None
        self._interruptible = False

    def interruptible(self) -> None:
        """For the main thread, the only one that runs Python's signal handlers; `run` is called there, too."""
        signal.signal(INTERRUPT, self._interrupted)
        self._interruptible = True

    def run(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            while not self._over():
                try:
                    queued = self._queue.get(timeout=TICK)
                except queue.Empty:
                    continue
                try:
                    self._serve(queued)
                except CallerLeft:
                    self._start_afresh()
                self._served += 1
                queued.served.set()
                self._last = time.monotonic()
        finally:
            self._close()

    def stop(self) -> None:
        """No new callers; those who are connected are served to the end."""
        self._stopping.set()
        self._unlink()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def _over(self) -> bool:
        if not self._queue.empty():
            return False
        if self._stopping.is_set():
            return True
        idle = time.monotonic() - self._last
        return self._callers == 0 and idle > self._idle_limit

    def _close(self) -> None:
        self._unlink()
        for judge in self._judges.values():
            judge.close()

    def _unlink(self) -> None:
        """Only our own socket: another server may listen there by now."""
        try:
            if self._where.socket.stat().st_ino == self._inode:
                self._where.socket.unlink()
        except FileNotFoundError:
            pass

    # --- callers --------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if address.same_user(connection):
                threading.Thread(target=self._serve_caller, args=[connection], daemon=True).start()
            else:
                connection.close()

    def _serve_caller(self, connection: socket.socket) -> None:
        with self._counting:
            self._callers += 1
        caller = CallerConnection(Channel(connection))
        try:
            caller.channel.send(Greeting(code=code_stamp(), version=__version__).model_dump())
            while True:
                message, _ = caller.channel.receive()
                self._take(caller, message)
        except (ChannelClosed, OSError):
            pass
        finally:
            caller.channel.close()
            with self._counting:
                self._callers -= 1

    def _take(self, caller: CallerConnection, message: object) -> None:
        try:
            request = request_of.validate_python(message)
        except ValidationError as error:
            caller.send(
                ServerReply(error=f"the server cannot read this request: {error.errors()[0]['msg']}", exit_code=3)
            )
            return
        if isinstance(request, ControlRequest):
            if request.request == "stop":
                self.stop()
            caller.send(ServerReply(status=self.status(), done=True))
            return
        with self._counting:
            queued = QueuedRequest(caller, request, self._queued)
            self._queued += 1
            self._queue.put(queued)
        try:
            self._announce_position(queued)
        finally:  # a caller that left is still in the queue, until its turn comes
            queued.wait(self._interrupt)

    def _announce_position(self, queued: QueuedRequest) -> None:
        """Only as long as they get on, so that a caller can tell from silence that the judge hangs."""
        told: tuple[int, int] | None = None
        while (ahead := queued.number - self._served) > 0:
            if (ahead, self._progress_count) != told:
                told = ahead, self._progress_count
                queued.announce(ahead)
            queued.served.wait(ANNOUNCE_SECONDS)

    def _interrupt(self, queued: QueuedRequest) -> None:
        self._without_caller = queued
        if self._interruptible:
            signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT)

    def _interrupted(self, *_: object) -> None:
        if self._under_way is not None and self._under_way is self._without_caller:
            self._under_way = None
            raise CallerLeft

    def _start_afresh(self) -> None:
        """Oracles and baselines may be in the middle of an answer."""
        with contextlib.suppress(OSError):
            print("a caller left; its evaluation was interrupted", file=sys.stderr, flush=True)
        for judge in self._judges.values():
            judge.restart()

    def status(self) -> ServerStatus:
        now = time.monotonic()
        return ServerStatus(
            pid=os.getpid(),
            device=str(self._where.device),
            version=__version__,
            code=code_hash(),
            up_seconds=now - self._begin,
            idle_limit_seconds=self._idle_limit,
            idle_seconds=now - self._last,
            callers=self._callers,
            waiting=self._queue.qsize(),
            judged=self._judged,
            restarts=sum(judge.restarts for judge in self._judges.values()),
            tasks=tuple(sorted({task for judge in self._judges.values() for task in judge.tasks})),
            memory_bytes=memory_of_tree(os.getpid()),
        )

    # --- judging --------------------------------------------------------------------------------------------------

    def _serve(self, queued: QueuedRequest) -> None:
        caller, request = queued.caller, queued.request

        def progress(text: str) -> None:
            self._progress_count += 1
            caller.send(ServerReply(progress=text))

        self._under_way = queued
        try:
            queued.announce(0)
            caller.send(self._answer(request, progress))
        except ChannelClosed:
            with contextlib.suppress(OSError):
                print("a caller left before its verdict", file=sys.stderr, flush=True)
        except KernelwrightError as error:
            _send_error(caller, str(error), error.exit_code)
        except Exception as error:  # one caller's bad luck must not cost the others their server
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                _send_error(
                    caller, f"{error.filename or 'the judge'}: {error.strerror}; free some space and judge again", 3
                )
                return
            with contextlib.suppress(OSError):  # the log's own disk may be full
                traceback.print_exc()
            _send_error(caller, f"the judge failed: {type(error).__name__}: {error} (see {self._where.log})", 3)
        finally:
            self._under_way = None

    def _answer(self, request: OpenRequest | JudgeRequest, progress: Callable[[str], None]) -> ServerReply:
        settings = request.wanted.settings()
        if settings.device != self._where.device:
            raise CannotDecide(f"this server is on {self._where.device}, not on {settings.device}")
        judge = self._judge(settings)
        judge.demand(settings)
        if isinstance(request, OpenRequest):
            judge.open(request.task)
            return ServerReply(done=True)
        judge.expect(request.task, request.upcoming, settings)
        for waiting in self._waiting(settings.threads):
            judge.expect(waiting.task, (waiting.candidate, *waiting.upcoming), waiting.wanted.settings())
        verdict = judge.judge(request.task, request.candidate, progress, settings)
        self._judged += 1
        return ServerReply(verdict=verdict, done=True)

    def _waiting(self, threads: int) -> list[JudgeRequest]:
        """What other callers want of the same judge, in the order in which they get it."""
        with self._queue.mutex:
            requests = [queued.request for queued in itertools.islice(self._queue.queue, MOST_UPCOMING)]
        judgings = [one for one in requests if isinstance(one, JudgeRequest)]
        wanted = (self._where.device, threads)
        return [one for one in judgings if (one.wanted.device, one.wanted.threads) == wanted]

    def _judge(self, settings: Settings) -> controller.Judge:
        """One judge for each number of threads; a third number takes the place of the first."""
        if settings.threads not in self._judges:
            while len(self._judges) >= 2:
                self._judges.pop(next(iter(self._judges))).close()
            self._judges[settings.threads] = controller.Judge(settings)
        return self._judges[settings.threads]


def _send_error(caller: CallerConnection, error: str, exit_code: int) -> None:
    with contextlib.suppress(ChannelClosed):
        caller.send(ServerReply(error=error, exit_code=exit_code))


def memory_of_tree(root: int) -> int:
    """Resident memory of a process and its descendants; memory that they share is counted more than once."""
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for thread in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
        except (OSError, ValueError):
            continue
    return total


def main() -> None:
    """Arguments: the listening socket's descriptor, its name, and the device."""
    code_hash(), code_stamp()  # of the code that this process has loaded, whatever becomes of the files
    listener = socket.socket(fileno=int(sys.argv[1]))
    where = address.Address(address.folder(), sys.argv[2], device_named(sys.argv[3]))
    server = Server(where, listener, float(os.environ.get(IDLE_VARIABLE) or IDLE_SECONDS))
    server.interruptible()
    signal.signal(signal.SIGTERM, lambda *_: server.stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server.run()


if __name__ == "__main__":
    main()
