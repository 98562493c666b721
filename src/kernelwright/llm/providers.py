"""From a member to a model of `pydantic-ai`. Each provider's package is imported only when a member needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model

from kernelwright.llm.config import EnsembleError, Member

SDK_VARIABLES = ("ANTHROPIC_", "GEMINI_", "GOOGLE_", "OLLAMA_", "OPENAI_", "OPENROUTER_")
NO_KEY = "none"  # for servers that want none; an SDK would otherwise look for one in the environment


def connect_model(member: Member) -> Model[Any]:
    """Its key is read here and stays in the SDK's client."""
    key = member.key() or NO_KEY
    connect = {"anthropic": _anthropic, "google": _google}.get(member.provider, _openai)
    try:
        with _without_variables(member):
            model = connect(member, key)
    except UserError as error:
        raise EnsembleError(f"{member.name}: {error}") from None
    if member.provider != "google" and model.provider is not None:  # Google's SDK does not retry
        # Not by a request's settings: those make the client anew each time, with the variables hidden here.
        model.provider.client.max_retries = 0
    return model


@contextmanager
def _without_variables(member: Member) -> Iterator[None]:
    """SDKs take headers, organisations and tokens from variables, and would send them to any server they are given.

    A provider at its own address may have its own.
    """
    own = f"{member.provider.partition('-')[0].upper()}_" if member.base_url is None else None
    hidden = {
        name: os.environ.pop(name)
        for name in list(os.environ)
        if name.startswith(SDK_VARIABLES) and not (own and name.startswith(own))
    }
    try:
        yield
    finally:
        os.environ.update(hidden)


def _openai(member: Member, key: str) -> Model[Any]:
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.models.openrouter import OpenRouterModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.ollama import OllamaProvider
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
    from pydantic_ai.providers.openrouter import OpenRouterProvider

    address = member.address
    older = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)  # every server knows `max_tokens`
    match member.provider:
        case "openai":
            return OpenAIResponsesModel(member.model, provider=OpenAIProvider(base_url=address, api_key=key))
        case "openai-chat":
            return OpenAIChatModel(member.model, provider=OpenAIProvider(base_url=address, api_key=key))
        case "openrouter":
            router = OpenRouterProvider(api_key=key)
            router.client.base_url = address
            return OpenRouterModel(member.model, provider=router)
        case "ollama":
            local = OllamaProvider(base_url=address, api_key=key)
            return OllamaModel(member.model, provider=local, profile=older)
        case _:
            provider = OpenAICompatibleProvider("compatible", base_url=address, api_key=key)
            return OpenAIChatModel(member.model, provider=provider, profile=older)


def _anthropic(member: Member, key: str) -> Model[Any]:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return AnthropicModel(member.model, provider=AnthropicProvider(base_url=member.address, api_key=key))


def _google(member: Member, key: str) -> Model[Any]:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel(member.model, provider=GoogleProvider(base_url=member.address, api_key=key))
