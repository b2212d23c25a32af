"""Host of the chains without Spark: the same chains, one after another in this process.

For tests, tiny traces and machines without Java; the answers equal those of ``engine.hosts.spark``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from slackwater.engine.core.frame import Frame, by_site
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.chain.output_parts import last_parts, next_parts
from slackwater.engine.kernels.jit import for_rows, loading, may_run_uncompiled
from slackwater.engine.log.arrival_log import Log, opened
from slackwater.engine.output.part_store import PartStore, sole_use
from slackwater.engine.output.run_writer import OutputPart, RunWriter

_ROWS_PER_BATCH: Final = 1 << 18
_RESULTS_AT_ONCE: Final = 1 << 16
_SITES_AT_ONCE: Final = 2048
"""Sites are independent of one another: with more of them the log is read several times, so that
memory holds the chains of so many."""
_ROWS_UNCOMPILED: Final = 1000
"""Of a batch while kernels may run as plain Python: so often it is seen whether that takes long."""


def run_in_process(
    log: Path | Log,
    settings: ChainSettings,
    out: Path | PartStore,
    advanced: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Any]:
    """Run the chains of every site over the log and write their output into ``out``.

    Args:
        log: an arrival log, or its folder.
        settings: of every site's chain.
        out: folder of this pass (see ``engine.output.run_writer``), or a store.
        advanced: called with the number of records after each batch, for progress.

    Returns:
        the counters, as in ``counters.json``. Of a log that grows meanwhile they are, as the
        results, of the files that it had at the start.

    Raises:
        UserError: a damaged log, or another run is at work in ``out``.
    """
    store = out if isinstance(out, PartStore) else PartStore(out)
    with sole_use(store.directory) if store.is_lasting else nullcontext():
        writer = RunWriter(store)
        started, loaded = time.perf_counter(), loading.seconds
        if store.is_lasting:
            writer.clear()  # this host always starts from scratch
        reader = opened(log)
        records = reader.rows()
        sites = list(records)
        total = sum(records.values())
        slices = total > _ROWS_UNCOMPILED and may_run_uncompiled(total)
        rows_per_batch = _ROWS_UNCOMPILED if slices else _ROWS_PER_BATCH
        rows = batch = 0
        for first in range(0, max(len(sites), 1), _SITES_AT_ONCE):
            some = sites[first : first + _SITES_AT_ONCE]
            given = reader.of_sites(some if len(some) < len(sites) else None)
            if slices:
                given = _sliced(given, _ROWS_UNCOMPILED)
            with for_rows(total):
                # Made while the first frames are still being read.
                chains = {site: Chain(settings, site) for site in some}
                for frames in filter(None, by_site(given, rows_per_batch)):
                    for parts in _parts(chains, frames):
                        writer.write(batch, parts)
                        batch += 1
                    now = sum(frame.batch.num_rows for of in frames.values() for frame in of)
                    advanced(now)
                    rows += now
                last = [part for site in some for part in last_parts(chains[site])]
                writer.write(batch, last)
            batch += 1
        seconds = time.perf_counter() - started
        return writer.finish(
            host="in-process",
            events=rows,
            seconds=seconds,
            computing=seconds - (loading.seconds - loaded),
        )


def _sliced(frames: Iterable[Frame], rows: int) -> Iterator[Frame]:
    """The same records, in frames of at most ``rows``."""
    for frame in frames:
        if frame.rows <= rows:
            yield frame
        else:
            yield from (frame.slice(start, rows) for start in range(0, frame.rows, rows))


def _parts(chains: dict[str, Chain], frames: dict[str, list[Frame]]) -> Iterator[list[OutputPart]]:
    """What the frames give, together if it is little."""
    parts: list[OutputPart] = []
    rows = 0
    for site in sorted(frames):
        for some in next_parts(chains[site], frames[site]):
            parts += some
            rows += sum(len(part.payload) for part in some)
            if rows >= _RESULTS_AT_ONCE:
                yield parts
                parts, rows = [], 0
    yield parts
