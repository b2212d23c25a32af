"""Progress on a terminal's standard error; silent anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from engine.errors import Interrupted
from engine.kernels.jit import when_compiling

COMPILING: Final = (
    "compiling for this machine, once for what was asked: half a minute to three minutes\n"
)


def tell_compiling(*, quiet: bool) -> None:
    """The first pass after an installation takes longer; whoever waits for it should know."""
    if not quiet and not when_compiling:
        when_compiling.append(_say)


def _say() -> None:
    sys.stderr.write(COMPILING)
    sys.stderr.flush()


@contextmanager
def if_interrupted(hint: str) -> Iterator[None]:
    """Ctrl-C within tells ``hint``: how to go on.

    Raises:
        Interrupted: instead of KeyboardInterrupt.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted; {hint}") from error


@contextmanager
def watched(
    verb: str, *, quiet: bool, unit: str = "records", total: int | None = None
) -> Iterator[Callable[[int], None]]:
    """Shows ``verb``, the number of records and the time; gives the function to count with.

    Args:
        verb: what is done.
        quiet: shows nothing.
        unit: what is counted.
        total: how many there will be; None: nobody knows.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - only for people
    from rich.progress import (  # noqa: PLC0415
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    of = "" if total is None else f" of {total:,}"
    columns = (
        SpinnerColumn(),
        TextColumn(f"{{task.description}} {{task.completed:,.0f}}{of} {unit}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(verb, total=total)
        yield lambda records: bar.advance(task, records)
