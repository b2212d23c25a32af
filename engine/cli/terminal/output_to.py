"""Where answers and events go: a file, a pipe, or a person's eyes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from edge_agent.standard_streams import writing_output
from engine.passes.output import Answers, Events, write, writing
from engine.passes.pipeline import Host


def output_to(
    out: Path | None, output: Answers | Events, shown: Path, host: Host
) -> AbstractContextManager[Callable[[], object]]:
    """What writes ``output`` once it is there; some is written while it comes.

    Args:
        out: the file; None: standard output.
        output: of a pass within the block.
        shown: a file for the while that a person is shown it.
        host: of the pass.
    """
    if out is None:
        return nullcontext(partial(_show, output, shown))
    return nullcontext(partial(write, output, out)) if host.master else writing(output, out)


def _show(output: Answers | Events, shown: Path) -> None:
    if not sys.stdout.isatty():  # a pipe gets JSON lines
        with writing_output():
            output.lines(sys.stdout)
        return
    from engine.cli.terminal.result_table import show_results  # noqa: PLC0415 - only for people

    output.lines(shown)
    show_results(shown)
    shown.unlink()
