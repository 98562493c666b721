"""`kernelwright`: the entry point, and what every command shares: one-line errors and exit codes.

0: all accepted. 1: some rejected. 2: bad usage or a bad task. 3: could not decide.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kernelwright.cli.contract import contract
from kernelwright.cli.doctor import doctor
from kernelwright.cli.judge import judge
from kernelwright.cli.output import complain
from kernelwright.cli.tasks import tasks
from kernelwright.errors import KernelwrightError
from kernelwright.version import __version__

app = typer.Typer(
    name="kernelwright",
    help="Takes a PyTorch operation and returns a faster kernel, with proof that it is right and how fast it is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(judge)
app.add_typer(tasks, name="tasks")
app.command()(contract)
app.command()(doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"kernelwright {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that every command has."""


def main() -> None:
    if sys.platform != "linux":
        complain(f"Kernelwright runs on Linux; this is {sys.platform}. A Linux machine or container will do.")
        raise SystemExit(2)
    try:
        app(standalone_mode=True)
    except KernelwrightError as error:
        complain(str(error))
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        complain("interrupted; nothing is left running, and finished builds stay cached")
        raise SystemExit(3) from None
    except BrokenPipeError:  # the reader of a pipe went away
        sys.stderr.close()
        raise SystemExit(3) from None


if __name__ == "__main__":
    main()
