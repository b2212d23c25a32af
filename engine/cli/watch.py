"""Progress on a terminal's standard error; silent anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


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
