"""Carries attempts to providers by `pydantic-ai`, which speaks each of their languages. Importing it needs the extra.

The SDKs are asynchronous; one thread with a loop of its own serves all callers. Their own retries are off, since ours
are counted, recorded and paid for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack
from dataclasses import dataclass

from pydantic_ai import direct, messages
from pydantic_ai import exceptions as errors
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from kernelwright.llm.attempts import AttemptRequest, AttemptResult, typed_instructions
from kernelwright.llm.config import Member
from kernelwright.llm.ledger import cost, upper_tokens
from kernelwright.llm.model import FailureKind, Usage
from kernelwright.llm.providers import connect_model

CLOSE_SECONDS = 5.0
SEED_MASK = 0x7FFF_FFFF  # the widest that every provider takes
DETAIL_CHARACTERS = 1000
STOPPED = "stopped"
SHORTEST_KEY = 8  # what is shorter protects nothing, and would be found in every text


class Client:
    def __init__(self, members: Sequence[Member]) -> None:
        self._models = {member.name: connect_model(member) for member in members}
        self._keys = [key for member in members if (key := member.key()) and len(key) >= SHORTEST_KEY]
        self._stack = AsyncExitStack()
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="llm-client", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()

    def send(self, member: Member, request: AttemptRequest) -> AttemptResult:
        if self._closed:
            return AttemptResult(failure=FailureKind.unavailable, detail=STOPPED)
        future = asyncio.run_coroutine_threadsafe(self._send(member, request), self._loop)
        try:
            return future.result()
        except CancelledError:  # by `close`, and a provider may answer all the same
            return _failed(member, request, AttemptFailure(FailureKind.unavailable, STOPPED, sent=True))
        finally:
            future.cancel()  # where the caller was interrupted

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        self._loop.close()

    async def _open(self) -> None:
        for model in self._models.values():
            await self._stack.enter_async_context(model)

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._stack.aclose()

    async def _send(self, member: Member, request: AttemptRequest) -> AttemptResult:
        model = self._models[member.name]
        parameters = _parameters(model, request)
        try:
            response = await direct.model_request(
                model,
                _messages(request, in_words=parameters.output_mode == "text"),
                model_settings=_settings(member, request),
                model_request_parameters=parameters,
            )
            brought = _answer(member, request, response)
        except Exception as error:  # a server may answer anything, and an SDK may fail on it in any way
            brought = _failed(member, request, failure_of(error, member))
        return brought.model_copy(update={"text": self._clean(brought.text), "detail": self._clean(brought.detail)})

    def _clean(self, text: str) -> str:
        """Without keys, should a server send one back."""
        for key in self._keys:
            text = text.replace(key, "***")
        return text


def _parameters(model: Model, request: AttemptRequest) -> ModelRequestParameters:
    """A schema is handed over as such where the model takes one."""
    native = bool(model.profile.get("supports_json_schema_output", False))
    if request.answer_schema is None or not (native if request.typed is None else request.typed == "native"):
        return ModelRequestParameters()
    wanted = OutputObjectDefinition(request.answer_schema, name=request.answer_schema.get("title", "Answer"))
    return ModelRequestParameters(output_mode="native", output_object=wanted)


def _messages(request: AttemptRequest, *, in_words: bool) -> list[messages.ModelMessage]:
    system = request.system
    if request.answer_schema is not None and in_words:
        system = f"{system}\n\n{typed_instructions(request.schema_text)}"
    found: list[messages.ModelMessage] = []
    for turn in request.turns:
        if turn.role == "assistant":
            found.append(messages.ModelResponse([messages.TextPart(turn.text)]))
        else:
            first: list[messages.ModelRequestPart] = [] if found else [messages.SystemPromptPart(system)]
            found.append(messages.ModelRequest([*first, messages.UserPromptPart(turn.text)]))
    return found


def _settings(member: Member, request: AttemptRequest) -> ModelSettings:
    settings = ModelSettings(
        max_tokens=request.max_output_tokens,
        timeout=member.timeout,
        request_timeout=member.timeout,
        seed=request.seed & SEED_MASK,
    )
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if request.reasoning is not None:
        settings["thinking"] = request.reasoning
    if member.provider == "openai":
        settings["openai_store"] = False  # type: ignore[typeddict-unknown-key] # their default keeps every answer
    return settings


def _answer(member: Member, request: AttemptRequest, response: messages.ModelResponse) -> AttemptResult:
    counted = response.usage
    usage = Usage(
        counted.input_tokens,
        counted.output_tokens,
        counted.cache_read_tokens,
        counted.details.get("reasoning_tokens", 0) or counted.details.get("thoughts_tokens", 0),
    ).whole
    if not usage.output_tokens and not usage.input_tokens:  # a server that does not count
        price = cost(member, upper_tokens(request))
    else:
        price = cost(member, usage)
    text = "".join(part.content for part in response.parts if isinstance(part, messages.TextPart))
    failure, detail = _finish(response, text, request)
    return AttemptResult(
        text=text,
        failure=failure,
        detail=detail[:DETAIL_CHARACTERS],
        usage=usage,
        usd=price.usd,
        prices=price.source,
        model=response.model_name or "",
    )


def _finish(response: messages.ModelResponse, text: str, request: AttemptRequest) -> tuple[FailureKind | None, str]:
    details = response.provider_details or {}
    if response.finish_reason == "content_filter":
        return FailureKind.refused, str(details.get("refusal") or details.get("finish_reason") or "content filter")
    if response.finish_reason == "length":
        return FailureKind.truncated, f"the answer was cut off at {request.max_output_tokens} tokens"
    if not text.strip():
        return FailureKind.malformed, "the answer is empty"
    return None, ""


def _failed(member: Member, request: AttemptRequest, failure: AttemptFailure) -> AttemptResult:
    """One that may have been answered is counted at its upper bound, since a provider may bill it."""
    price = cost(member, upper_tokens(request))
    return AttemptResult(
        failure=failure.kind,
        detail=failure.detail[:DETAIL_CHARACTERS],
        again=failure.again,
        retry_after=failure.retry_after,
        usd=price.usd if failure.sent else 0.0,
        prices=price.source if failure.sent else "",
    )


@dataclass(frozen=True)
class AttemptFailure:
    """`again`: whether the same request may succeed later. `sent`: whether it may have been answered and billed."""

    kind: FailureKind
    detail: str
    again: bool = False
    sent: bool = False
    retry_after: float | None = None


def failure_of(error: Exception, member: Member) -> AttemptFailure:
    """The most particular kind comes first, since these classes are derived from each other."""
    message = str(error)
    after = getattr(error, "retry_after", None)
    match error:
        case errors.ModelConnectionError(phase="pool" | "connect"):  # a timeout here is not one of the model's
            return AttemptFailure(FailureKind.unavailable, f"{member.address}: no connection: {message}", again=True)
        case errors.ModelQuotaExceededError():
            return AttemptFailure(FailureKind.rate_limited, f"the account's quota is used up: {message}")
        case errors.ModelRateLimitError():
            return AttemptFailure(FailureKind.rate_limited, message, again=True, retry_after=after)
        case errors.ModelTimeoutError() | errors.ModelRequestTimeout():
            return AttemptFailure(
                FailureKind.timed_out, f"no answer within {member.timeout:g} s", again=True, sent=True
            )
        case errors.ModelConnectionError():
            return AttemptFailure(FailureKind.unavailable, f"{member.address}: {message}", again=True, sent=True)
        case errors.ModelUnavailableError() | errors.ModelServerError():
            return AttemptFailure(FailureKind.unavailable, message, again=True, retry_after=after)
        case errors.ModelAuthenticationError():  # what the provider says may quote a part of the key
            key = f"the key in {member.key_name}" if member.key_name else "a request without a key; name one in key_env"
            return AttemptFailure(FailureKind.unauthorised, f"{member.address} refused {key}")
        case errors.ModelNotFoundError():
            return AttemptFailure(FailureKind.unavailable, f"{member.address} has no model {member.model!r}")
        case errors.ModelContextWindowExceededError():
            return AttemptFailure(FailureKind.refused, f"the prompt is longer than {member.model} takes: {message}")
        case errors.ModelRequestRejectedError() | errors.UserError():
            return AttemptFailure(FailureKind.refused, f"the request was rejected: {message}")
        case errors.ContentFilterError():
            return AttemptFailure(FailureKind.refused, message, sent=True)
        case errors.ModelAPIError() | errors.UnexpectedModelBehavior():
            return AttemptFailure(FailureKind.malformed, message, again=True, sent=True)
        case _:  # an SDK failed on what the server sent, which may be anything
            return AttemptFailure(FailureKind.malformed, f"{type(error).__name__}: {message}", again=True, sent=True)
