"""Host of the chains without Spark: the same chains, one after another in this process.

For tests, tiny traces and machines without Java; the answers equal those of ``engine.spark``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from engine.chain import Chain, ChainSettings
from engine.frame import Frame
from engine.log.arrival_log import LogReader
from engine.results.ledger import END
from engine.results.run_writer import RunWriter, last_parts, parts_of
from engine.results.sole_use import sole_use

_ROWS_PER_BATCH: Final = 1 << 18


def run_in_process(
    log: Path,
    settings: ChainSettings,
    out: Path,
    advanced: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Any]:
    """Run the chains of every site over the log and write their output into ``out``.

    Args:
        log: an arrival log.
        settings: of every site's chain.
        out: folder of this pass (see ``engine.results.run_writer``).
        advanced: told the number of records after each batch, for progress.

    Returns:
        the counters, as in ``counters.json``. Of a log that grows meanwhile they are, as the
        results, of the files that it had at the start.

    Raises:
        UserError: a damaged log, or another run is at work in ``out``.
    """
    with sole_use(out):
        return _run(log, settings, RunWriter(out), advanced)


def _run(
    log: Path, settings: ChainSettings, writer: RunWriter, advanced: Callable[[int], None]
) -> dict[str, Any]:
    started = time.perf_counter()
    writer.clear()  # this host always begins anew
    chains: dict[str, Chain] = {}
    waiting: dict[str, list[Frame]] = {}
    rows = total = batch = 0
    for frame in LogReader(log):
        waiting.setdefault(frame.site, []).append(frame)
        rows += frame.rows
        if rows >= _ROWS_PER_BATCH:
            _batch(writer, batch, settings, chains, waiting)
            advanced(rows)
            total, rows, batch = total + rows, 0, batch + 1
    _batch(writer, batch, settings, chains, waiting)
    advanced(rows)
    writer.write(END, [part for site in sorted(chains) for part in last_parts(chains[site])])
    return writer.finish(
        host="in-process", events=total + rows, seconds=time.perf_counter() - started
    )


def _batch(
    writer: RunWriter,
    number: int,
    settings: ChainSettings,
    chains: dict[str, Chain],
    waiting: dict[str, list[Frame]],
) -> None:
    parts = []
    for site in sorted(waiting):
        if site not in chains:
            chains[site] = Chain(settings, site)
        parts.extend(parts_of(site, chains[site].process(waiting[site])))
    waiting.clear()
    writer.write(number, parts)
