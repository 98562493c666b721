"""What callers and a server say to each other: JSON over a private socket, checked on arrival."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from kernelwright.contracts import Candidate
from kernelwright.devices.names import CPU, Device
from kernelwright.isolation.levels import Level
from kernelwright.judge.settings import MOST_UPCOMING, Sampling, Settings
from kernelwright.judge.verdict import Verdict


class ProtocolMessage(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Greeting(ProtocolMessage):
    """What a server sends first, before any request. A caller whose own `code` differs replaces it: they do not judge
    alike."""

    code: str
    version: str


class RequestedSettings(ProtocolMessage):
    """A caller's settings; the key and replays never travel."""

    baselines: tuple[str, ...]
    threads: int
    effort: Sampling
    public_only: bool
    safety: bool
    domain: bool = True
    certify: bool = False
    profile: bool = False
    hidden_of: str = ""
    device: Device = CPU
    isolation: Level = Level.full
    refuse_pageable: bool = False

    @classmethod
    def of(cls, settings: Settings) -> RequestedSettings:
        return cls(
            baselines=settings.baselines,
            threads=settings.threads,
            effort=settings.effort,
            public_only=settings.public_only,
            safety=settings.safety,
            domain=settings.domain,
            certify=settings.certify,
            profile=settings.profile,
            hidden_of=settings.hidden_of,
            device=settings.device,
            isolation=settings.isolation,
            refuse_pageable=settings.refuse_pageable,
        )

    def settings(self) -> Settings:
        return Settings(
            baselines=self.baselines,
            threads=self.threads,
            effort=self.effort,
            public_only=self.public_only,
            safety=self.safety,
            domain=self.domain,
            certify=self.certify,
            profile=self.profile,
            hidden_of=self.hidden_of,
            device=self.device,
            isolation=self.isolation,
            refuse_pageable=self.refuse_pageable,
        )


class OpenRequest(ProtocolMessage):
    request: Literal["open"] = "open"
    task: str
    wanted: RequestedSettings


class JudgeRequest(ProtocolMessage):
    """`upcoming`: what the caller will ask for next, about the same task and with the same settings."""

    request: Literal["judge"] = "judge"
    task: str
    candidate: Candidate
    wanted: RequestedSettings
    upcoming: tuple[Candidate, ...] = Field(default=(), max_length=MOST_UPCOMING)


class ControlRequest(ProtocolMessage):
    """`stop`: take no new callers, finish what is under way, end."""

    request: Literal["status", "stop"]


ServerRequest = OpenRequest | JudgeRequest | ControlRequest
request_of: TypeAdapter[ServerRequest] = TypeAdapter(ServerRequest)


class ServerStatus(ProtocolMessage):
    pid: int
    device: str
    version: str
    code: str
    up_seconds: float
    idle_limit_seconds: float
    idle_seconds: float
    callers: int
    waiting: int
    judged: int
    restarts: int
    tasks: tuple[str, ...]
    memory_bytes: int


class ServerReply(ProtocolMessage):
    """Any number of `ahead` and `progress`, then one of the others.

    `ahead`: so many evaluations come first, said again as long as they get on; with 0 the request is begun.
    """

    ahead: int | None = None
    progress: str | None = None
    verdict: Verdict | None = None
    status: ServerStatus | None = None
    error: str | None = None
    exit_code: int = 0
    done: bool = False
