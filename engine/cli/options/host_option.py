"""Where a command's chains run: in this process, or on Spark where that is asked for."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from engine.errors import UserError
from engine.passes.pipeline import Host

HERE: Final = "in process"
_LOCAL: Final = "local[*]"

OnSpark = Annotated[bool, typer.Option("--spark", help="On Spark, on all cores of this machine.")]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="On Spark with this master, as local[2].")
]
InProcess = Annotated[bool, typer.Option("--in-process", help="In this process: the default.")]


def choose_host(*, on_spark: bool, master: str | None, in_process: bool) -> Host:
    """In process unless Spark is asked for.

    Raises:
        UserError: both are asked for.
    """
    if in_process and (on_spark or master is not None):
        asked = "--spark" if on_spark else "--master"
        raise UserError(f"--in-process and {asked}: give one of them")
    return Host(master if master is not None else _LOCAL if on_spark else None)


def spoken_host(host: Host) -> str:
    """The host in the words of a summary."""
    return HERE if host.master is None else f"on Spark {host.master}"
