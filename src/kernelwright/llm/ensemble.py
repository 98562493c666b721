"""The ensemble: members that are asked one at a time or together, chosen by a bandit, within a budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from kernelwright.llm.attempts import Transport
from kernelwright.llm.bandit import Bandit
from kernelwright.llm.calling import ModelCaller, RateLimiter, request_for, upper_usd
from kernelwright.llm.config import EnsembleConfig, EnsembleError, Member
from kernelwright.llm.ledger import BudgetLedger, cost, upper_tokens
from kernelwright.llm.model import (
    CallFailed,
    CallRecord,
    Estimate,
    MemberEstimate,
    ModelCall,
    ModelReply,
    RecordingFailed,
    Usage,
)
from kernelwright.llm.recordings import NearestReplayer, Recorder, Replayer

MOST_THREADS = 128  # one for a replay, whose answers may depend on the order
CallListener = Callable[[CallRecord], None]


class Ensemble:
    """`on_called` is called after every call, a failed one too, one at a time."""

    def __init__(
        self,
        config: EnsembleConfig,
        transport: Transport,
        ledger: BudgetLedger,
        *,
        keep_pauses: bool = True,
        on_called: CallListener | None = None,
    ) -> None:
        self.config = config
        self.on_called = on_called
        self._transport = transport
        self._ledger = ledger
        self._bandit = Bandit({member.name: member.weight for member in config.members}, config.evaluation_usd)
        self._lock = threading.Lock()
        self._notifying = threading.RLock()
        self._threads = MOST_THREADS if keep_pauses else 1
        self._closing = threading.Event()
        wait = self._closing.wait
        paces = {
            member.name: RateLimiter(
                member.concurrency, member.requests_per_minute if keep_pauses else None, sleep=wait
            )
            for member in config.members
        }
        self._caller = ModelCaller(transport, ledger, paces, keep_pauses, wait)

    @property
    def members(self) -> tuple[Member, ...]:
        return self.config.members

    @property
    def spent(self) -> float:
        """Dollars, with those of before. What has no known price is not in it."""
        return self._ledger.spent

    def ask(self, ask: ModelCall) -> ModelReply:
        return self._call(self._member(ask), ask)

    def ask_all(self, asks: Sequence[ModelCall]) -> list[ModelReply | CallFailed]:
        """Together, as far as the limits of the members allow; in the order asked.

        Members are chosen before anything is sent, so that the order of answers decides nothing.
        """
        members = [self._member(ask) for ask in asks]
        with ThreadPoolExecutor(max(1, min(len(asks), self._threads)), thread_name_prefix="llm") as pool:
            try:
                return list(pool.map(self._outcome, members, asks))
            except BaseException:  # an interrupt must not wait for answers
                self.close()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def reward(self, member: str, gain: float, usd: float) -> None:
        """What an answer was worth once it was measured, or 0 for one that failed."""
        self.config.member(member)
        with self._lock:
            self._bandit.reward(member, gain, usd)

    def estimate(self, asks: Sequence[ModelCall]) -> Estimate:
        """The upper bound for the calls without their retries."""
        found: dict[str, MemberEstimate] = {}
        for ask in asks:
            name, one = max(self._estimates(ask), key=lambda pair: _dearness(pair[1]))
            found[name] = _sum(found[name], one) if name in found else one
        return Estimate(found)

    def close(self) -> None:
        """Ends what is under way; calls that are waiting fail as unavailable."""
        self._closing.set()
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _member(self, ask: ModelCall) -> Member:
        if ask.member is not None:
            return self.config.member(ask.member)
        with self._lock:
            return self.config.member(self._bandit.choose(f"{ask.stage}\0{ask.prompt.sha256}\0{ask.seed}"))

    def _call(self, member: Member, ask: ModelCall) -> ModelReply:
        try:
            reply = self._caller.call(member, ask)
        except (CallFailed, RecordingFailed) as failed:
            self._notify(failed.called)
            raise
        self._notify(reply.called)
        return reply

    def _outcome(self, member: Member, ask: ModelCall) -> ModelReply | CallFailed:
        try:
            return self._call(member, ask)
        except CallFailed as failed:
            return failed

    def _notify(self, called: CallRecord | None) -> None:
        if called is not None and self.on_called is not None:
            with self._notifying:
                self.on_called(called)

    def _estimates(self, ask: ModelCall) -> list[tuple[str, MemberEstimate]]:
        members = self.members if ask.member is None else (self.config.member(ask.member),)
        found = []
        for member in members:
            request = request_for(member, ask)
            tokens = upper_tokens(request)
            one = MemberEstimate(1, tokens.input_tokens, tokens.output_tokens, upper_usd(member, request))
            found.append((member.name, one))
        return found


def open_ensemble(
    config: EnsembleConfig,
    *,
    limit_usd: float | None = None,
    record: Path | None = None,
    replay: Path | None = None,
    spent: float = 0.0,
    on_called: CallListener | None = None,
) -> Ensemble:
    """Ready to be asked: keys are there, the client library is there, and a budget can be kept."""
    if record is not None and replay is not None:
        raise EnsembleError("a replay asks no model, so there is nothing to record; leave out one of the two")
    if replay is not None:
        return Ensemble(config, Replayer(replay), BudgetLedger(None, spent), keep_pauses=False, on_called=on_called)
    transport: Transport = _client(config.members)
    if limit_usd is not None:
        _priced(config.members)
    if record is not None:
        transport = Recorder(transport, record)
    return Ensemble(config, transport, BudgetLedger(limit_usd, spent), on_called=on_called)


def replayed(config: EnsembleConfig, folder: Path, used: Iterable[str] = ()) -> Ensemble:
    """An ensemble that answers from recordings, without pauses and without cost."""
    return Ensemble(config, NearestReplayer(folder, used), BudgetLedger(None), keep_pauses=False)


def _client(members: Sequence[Member]) -> Transport:
    try:
        from kernelwright.llm.client import Client
    except ImportError as error:
        if not (error.name or "").startswith("pydantic_ai"):
            raise
        raise EnsembleError("asking models needs more packages: pip install -e '.[llm]' in the clone") from None
    return Client(members)


def _priced(members: Sequence[Member]) -> None:
    for member in members:
        if cost(member, Usage(1, 1)).usd is None:
            raise EnsembleError(
                f"{member.name}: its price is unknown, so that no budget can be kept; "
                "give it a price in the configuration, or set no limit"
            )


def _dearness(one: MemberEstimate) -> tuple[bool, float, int]:
    return (one.usd is None, one.usd or 0.0, one.output_tokens)


def _sum(one: MemberEstimate, other: MemberEstimate) -> MemberEstimate:
    usd = None if one.usd is None or other.usd is None else one.usd + other.usd
    return MemberEstimate(
        one.calls + other.calls,
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        usd,
    )
