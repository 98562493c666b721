"""`kernelwright`: the entry point, and what every command shares: one-line errors and exit codes.

0: all accepted. 1: some rejected. 2: bad usage or a bad task. 3: could not decide.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kernelwright import stopping
from kernelwright.cli.views.output import complain
from kernelwright.errors import NO_SPACE, NOT_WRITABLE, CannotDecide, KernelwrightError
from kernelwright.version import __version__

# In the order of help. Each is in a module of its name, here or in `results`: a function, or an app with commands.
COMMANDS = (
    *("optimize", "runs", "best", "report", "export", "judge", "check", "replay", "bench", "leaderboard"),
    *("trust", "tasks", "contract", "prompt", "calibrate", "server", "doctor"),
)
IN_RESULTS = ("bench", "best", "export", "leaderboard", "report")
ELSEWHERE = "make it writable, or set KERNELWRIGHT_HOME to a writable directory for what is kept between commands"
INTERRUPTED = "interrupted; no process of this command is left running, and finished builds stay cached"


class Stoppable(TyperGroup):
    """Ctrl-C and SIGTERM end a command like any other reason why there is no verdict: one line, exit code 3."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In our order: by default groups come after all commands, and `runs` far from `optimize`."""
        return sorted(super().list_commands(ctx), key=COMMANDS.index)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise CannotDecide(INTERRUPTED) from None


def assembled(names: Iterable[str]) -> typer.Typer:
    """The application with these commands; their modules are imported for it, and no others."""
    app = typer.Typer(
        name="kernelwright",
        cls=Stoppable,
        help="Find faster kernels for PyTorch operations, with proof that they are correct and how fast they are.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        callback=common,
    )
    for name in names:
        module = f"results.{name}" if name in IN_RESULTS else name
        command = getattr(importlib.import_module(f"kernelwright.cli.{module}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command()(command)
    return app


def needed(arguments: Sequence[str]) -> Sequence[str]:
    """The command that is called, or all of them where help or an error will list them.

    Importing them all takes longer than judging a candidate with a warm server.
    """
    return [arguments[0]] if arguments and arguments[0] in COMMANDS else COMMANDS


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"kernelwright {__version__}")
        raise typer.Exit


def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options that every command has."""


def main() -> None:
    began = time.monotonic()  # budgets of time count from here: importing a command takes a while
    if sys.platform != "linux":
        complain(f"Kernelwright runs on Linux; this is {sys.platform}. A Linux machine or container will do.")
        raise SystemExit(2)
    stopping.listen()
    try:
        assembled(needed(sys.argv[1:]))(obj=began)
    except KernelwrightError as error:
        complain(str(error))
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:  # the reader of a pipe went away
        sys.stderr.close()
        raise SystemExit(3) from None
    except MemoryError:
        complain("out of memory; stop other programs, or choose smaller sizes")
        raise SystemExit(CannotDecide.exit_code) from None
    except OSError as error:
        if error.errno in NOT_WRITABLE and error.filename:
            complain(f"{error.filename}: {error.strerror}; {ELSEWHERE}")
            raise SystemExit(2) from None
        if error.errno not in NO_SPACE:
            raise
        complain(f"{error.filename or 'a file'}: {error.strerror}; free some space, and try again")
        raise SystemExit(CannotDecide.exit_code) from None
    except KeyboardInterrupt:  # while the command was imported
        complain(INTERRUPTED)
        raise SystemExit(CannotDecide.exit_code) from None


if __name__ == "__main__":
    main()
