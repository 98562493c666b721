"""What went wrong with an attempt, from the exceptions of `pydantic-ai` to our own kinds."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_ai import exceptions as errors

from kernelwright.llm.config import Member
from kernelwright.llm.model import FailureKind


@dataclass(frozen=True)
class Failure:
    """`again`: whether the same request may fare better later. `sent`: whether it may have been answered and billed."""

    kind: FailureKind
    detail: str
    again: bool = False
    sent: bool = False
    retry_after: float | None = None


def failure_of(error: Exception, member: Member) -> Failure:
    """The most particular kind comes first, since these classes are derived from each other."""
    said = str(error)
    after = getattr(error, "retry_after", None)
    match error:
        case errors.ModelConnectionError(phase="pool" | "connect"):  # a timeout here is not one of the model's
            return Failure(FailureKind.unavailable, f"{member.address}: no connection: {said}", again=True)
        case errors.ModelQuotaExceededError():
            return Failure(FailureKind.rate_limited, f"the account's quota is used up: {said}")
        case errors.ModelRateLimitError():
            return Failure(FailureKind.rate_limited, said, again=True, retry_after=after)
        case errors.ModelTimeoutError() | errors.ModelRequestTimeout():
            return Failure(FailureKind.timed_out, f"no answer within {member.timeout:g} s", again=True, sent=True)
        case errors.ModelConnectionError():
            return Failure(FailureKind.unavailable, f"{member.address}: {said}", again=True, sent=True)
        case errors.ModelUnavailableError() | errors.ModelServerError():
            return Failure(FailureKind.unavailable, said, again=True, retry_after=after)
        case errors.ModelAuthenticationError():  # what the provider says may quote a part of the key
            key = f"the key in {member.key_name}" if member.key_name else "a request without a key; name one in key_env"
            return Failure(FailureKind.unauthorised, f"{member.address} refused {key}")
        case errors.ModelNotFoundError():
            return Failure(FailureKind.unavailable, f"{member.address} has no model {member.model!r}")
        case errors.ModelContextWindowExceededError():
            return Failure(FailureKind.refused, f"the prompt is longer than {member.model} takes: {said}")
        case errors.ModelRequestRejectedError() | errors.UserError():
            return Failure(FailureKind.refused, f"the request was rejected: {said}")
        case errors.ContentFilterError():
            return Failure(FailureKind.refused, said, sent=True)
        case errors.ModelAPIError() | errors.UnexpectedModelBehavior():
            return Failure(FailureKind.malformed, said, again=True, sent=True)
        case _:  # an SDK stumbled over what the other side sent, which may be anything
            return Failure(FailureKind.malformed, f"{type(error).__name__}: {said}", again=True, sent=True)
