"""Which configuration an autotuned kernel gets: the chosen one, or the first that fits the device.

There is nothing to time here. The configurations are tunables of the candidate (contracts/triton/configurations.py):
a search tries them, and each is judged as a candidate of its own.
"""

from __future__ import annotations

from typing import Any

from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources


def choose_by(choices: dict[str, int]) -> None:
    """`choices`: by the name of a kernel, the number of its configuration."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        number = choices.get(self.base_fn.__name__)
        try:
            if number is not None:
                if number >= len(self.configs):
                    raise ValueError(
                        f"{self.base_fn.__name__} has {len(self.configs)} configurations, not {number + 1}"
                    )
                return _with(self, self.configs[number], args, kwargs)
            last: Exception | None = None
            for config in self.prune_configs(kwargs):
                try:
                    return _with(self, config, args, kwargs)
                except (OutOfResources, CompileTimeAssertionFailure) as error:
                    last = error
            assert last is not None
            raise last
        finally:
            self.nargs = None

    Autotuner.run = run


def _with(tuner: Any, config: Any, args: Any, kwargs: Any) -> Any:
    tuner.best_config = config
    given = {**kwargs, **config.all_kwargs()}
    if config.pre_hook is not None:
        config.pre_hook({**tuner.nargs, **given})
    return tuner.fn.run(*args, **given)
