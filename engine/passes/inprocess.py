"""Host of the chains without Spark: the same chains, one after another in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.chain import Chain, ChainSettings
from engine.chain.output_parts import last_parts, next_parts
from engine.check import HistoryFile, KnownOfSite
from engine.kernels.jit import loading, plain
from engine.log.following import Log, opened
from engine.results.part_store import PartStore, sole_use
from engine.results.run_writer import OutputPart, RunWriter
from engine.stream.frame import Frame, by_site

# The history of results that a run in this process begins with, and leaves to the next one.


_NS_PER_H = 3600 * 10**9


class RunHistory:
    """Of one run; ``path``: of the file."""

    def __init__(self, path: Path) -> None:
        self._file = HistoryFile(path)
        self._since: dict[str, int] = {}
        self._known: dict[str, KnownOfSite] = {}

    def begin(self, site: str, chain: Chain, since_ns: int) -> None:
        """``chain`` knows what was known before its log, which begins at ``since_ns``.

        Raises:
            UserError: the file cannot be used, or not with this log.
        """
        self._since[site] = since_ns
        past = self._file.before(site, since_ns)
        if chain.judging is not None:
            chain.judging.begin_with(past)

    def note(self, chains: Mapping[str, Chain]) -> None:
        """What ``chains``, which are at their end, know."""
        for site, chain in chains.items():
            if chain.judging is not None:
                until_ns = chain.counters()["last_arrival"]
                known = chain.judging.known()
                self._known[site] = KnownOfSite(self._since[site], until_ns, known)

    def keep(self) -> None:
        """Writes all of it, or, should that fail, nothing."""
        self._file.keep(self._known)


class KeyHistory(NamedTuple):
    """Results of one key: how many, when the first was known and the last [ns]."""

    site: str
    query: str
    key: str
    results: int
    first_ns: int
    last_ns: int

    @property
    def plain_key(self) -> str:
        """Its values; empty: all results of the query have one history."""
        return ", ".join(map(str, json.loads(self.key)))

    @property
    def per_hour(self) -> float | None:
        """None: there was but one, or all at once."""
        span_ns = self.last_ns - self.first_ns
        return (self.results - 1) * _NS_PER_H / span_ns if span_ns else None


def key_histories(path: Path) -> Iterator[KeyHistory]:
    """Of the file at ``path``, which is not changed.

    Raises:
        UserError: there is no such file, or it is none of a history.
    """
    return (KeyHistory(*row) for row in HistoryFile(path).rows())


# Host of the chains without Spark: the same chains, one after another in this process.
#
# For tests, tiny traces and machines without Java; the answers equal those of ``engine.spark``.


_ROWS_PER_BATCH: Final = 1 << 18
_RESULTS_AT_ONCE: Final = 1 << 16
_SITES_AT_ONCE: Final = 2048
"""Sites are independent of one another: with more of them the log is read several times, so that
memory holds the chains of so many."""
_FEW: Final = 128
"""Records of one site, the only one, that pass before kernels were loaded."""


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
        out: folder of this pass (see ``engine.results.run_writer``), or a store.
        advanced: told the number of records after each batch, for progress.

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
            writer.clear()  # this host always begins anew
        reader = opened(log)
        records = reader.rows()
        sites = list(records)
        rows = batch = 0
        history = None
        if settings.history is not None:
            history = RunHistory(settings.history)
        for first in range(0, max(len(sites), 1), _SITES_AT_ONCE):
            some = sites[first : first + _SITES_AT_ONCE]
            given = reader.of_sites(some if len(some) < len(sites) else None)
            with plain() if len(sites) == 1 and records[sites[0]] <= _FEW else nullcontext():
                # Made while the first frames are still being read.
                chains = {site: Chain(settings, site) for site in some}
                begun: set[str] = set()
                for frames in filter(None, by_site(given, _ROWS_PER_BATCH)):
                    if history is not None:
                        for site in sorted(frames.keys() - begun):
                            history.begin(site, chains[site], frames[site][0].first_arrival)
                        begun |= frames.keys()
                    for parts in _parts(chains, frames):
                        writer.write(batch, parts)
                        batch += 1
                    now = sum(frame.batch.num_rows for of in frames.values() for frame in of)
                    advanced(now)
                    rows += now
                last = [part for site in some for part in last_parts(chains[site])]
                writer.write(batch, last)
            if history is not None:
                history.note(chains)
            batch += 1
        seconds = time.perf_counter() - started
        counters = writer.finish(
            host="in-process",
            events=rows,
            seconds=seconds,
            computing=seconds - (loading.seconds - loaded),
        )
        if history is not None:
            history.keep()
        return counters


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
