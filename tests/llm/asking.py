"""Short ways to an ensemble whose members are scripted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kernelwright.llm.config import EnsembleConfig, Member, Price
from kernelwright.llm.ensemble import Ensemble, open_ensemble
from kernelwright.llm.model import ModelCall, Prompt

PRICE = Price(input=1.0, output=10.0)


class Review(BaseModel):
    cheats: bool
    why: str


def scripted_member(url: str, **given: Any) -> Member:
    given = {"name": "scripted", "provider": "compatible", "model": "m", "price": PRICE, "timeout": 5.0} | given
    return Member(base_url=url, **given)


def opened(*members: Member, record: Path | None = None, limit_usd: float | None = None) -> Ensemble:
    return open_ensemble(EnsembleConfig(members=members), limit_usd=limit_usd, record=record)


def asking(user: str = "hello", seed: int = 1, **given: Any) -> ModelCall:
    return ModelCall(**{"stage": "evolve", "prompt": Prompt("You write kernels.", user), "seed": seed, **given})
