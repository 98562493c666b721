"""`kernelwright`: the entry point, and what every command shares: one-line errors and exit codes.

0: all accepted. 1: some rejected. 2: bad usage or a bad task. 3: could not decide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from kernelwright.cli.calibrate import calibrate
from kernelwright.cli.check import check
from kernelwright.cli.contract import contract
from kernelwright.cli.doctor import doctor
from kernelwright.cli.judge import judge
from kernelwright.cli.optimize import optimize
from kernelwright.cli.oracle import oracle
from kernelwright.cli.output import complain
from kernelwright.cli.prompt import prompt
from kernelwright.cli.replay import replay
from kernelwright.cli.runs import runs
from kernelwright.cli.tasks import tasks
from kernelwright.errors import CannotDecide, KernelwrightError
from kernelwright.version import __version__

app = typer.Typer(
    name="kernelwright",
    help="Takes a PyTorch operation and returns a faster kernel, with proof that it is right and how fast it is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _stoppable(command: Callable[..., None]) -> Callable[..., None]:
    """Ctrl-C ends a command like any other reason why there is no verdict: one line, exit code 3."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            raise CannotDecide("interrupted; nothing is left running, and finished builds stay cached") from None

    return run


app.command()(_stoppable(optimize))
app.add_typer(runs, name="runs")
app.command()(_stoppable(judge))
app.command()(_stoppable(check))
app.command()(_stoppable(replay))
app.add_typer(tasks, name="tasks")
app.command()(_stoppable(contract))
app.command()(_stoppable(prompt))
app.add_typer(calibrate, name="calibrate")
app.add_typer(oracle, name="oracle")
app.command()(_stoppable(doctor))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"kernelwright {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options that every command has."""


def main() -> None:
    if sys.platform != "linux":
        complain(f"Kernelwright runs on Linux; this is {sys.platform}. A Linux machine or container will do.")
        raise SystemExit(2)
    try:
        app()
    except KernelwrightError as error:
        complain(str(error))
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:  # the reader of a pipe went away
        sys.stderr.close()
        raise SystemExit(3) from None


if __name__ == "__main__":
    main()
