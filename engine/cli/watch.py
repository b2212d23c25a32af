"""Progress on a terminal's standard error; silent anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


def tell_compiling(*, quiet: bool) -> None:
    """The first pass after an installation takes longer; a person in front of it should know."""
    from engine.jit import cache_directory  # noqa: PLC0415 - imports Numba, which takes a while

    console = Console(stderr=True)
    if not quiet and console.is_terminal and not any(cache_directory().rglob("*.nbi")):
        console.print("compiling for this machine, once: about half a minute")


@contextmanager
def watched(verb: str, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Shows ``verb``, the number of records and the time; gives the function to count with."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description} {task.completed:,.0f} records"),
        TimeElapsedColumn(),
    )
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(verb, total=None)
        yield lambda records: bar.advance(task, records)
