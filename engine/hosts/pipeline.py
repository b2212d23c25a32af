"""From an input to answers: input -> arrival log -> chains on a host -> files.

The commands ``query``, ``order`` and ``run`` share this. Spark is imported only when it is used.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, structs

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.choice import Lane, UpcomingClocks
from slackwater.engine.core.errors import SparkFailure, UserError
from slackwater.engine.core.frame import (
    ATTR_PREFIX,
    Frame,
    by_site,
    clock_names,
    corrected,
    kinds_of,
)
from slackwater.engine.core.units import neat
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.java import need_spark
from slackwater.engine.hosts.options import SEQUENCE
from slackwater.engine.hosts.warnings import (
    numbering_warnings,
    of_clocks,
    of_numbers,
    of_refuted_clocks,
    of_tasks,
    of_windows,
    with_lane_counts,
)
from slackwater.engine.kernels.jit import for_rows, loading, may_run_uncompiled
from slackwater.engine.log.arrival_log import (
    HeldLog,
    Log,
    LogReader,
    LogWriter,
    gathered,
    held_frames,
    opened,
)
from slackwater.engine.log.describe import describe, group_rows, string_codes
from slackwater.engine.log.input.input_log import open_input
from slackwater.engine.log.input.input_read import PLAIN_FORM, InputForm
from slackwater.engine.log.input.numbering import CountedLane
from slackwater.engine.log.whole_file import parquet_files, sync_folder, whole_folder
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import is_order, parse_order
from slackwater.engine.output.part_store import HELD_BYTES, PartStore, sole_use
from slackwater.engine.output.run_writer import OutputPart, RunWriter
from slackwater.engine.query import check_attributes
from slackwater.engine.query.fields import NO_TYPE, named_attributes
from slackwater.engine.query.plan import Plan

# Host of the chains without Spark: the same chains, one after another in this process.
#
# For tests, small traces and machines without Java; results equal those of ``engine.hosts.spark``.


_ROWS_PER_BATCH: Final = 1 << 18
_RESULTS_AT_ONCE: Final = 1 << 16
_SITES_AT_ONCE: Final = 2048
"""Sites processed in one pass over the log, which bounds the memory of their chains; with more
sites the log is read several times."""
_ROWS_UNCOMPILED: Final = 1000
"""Rows of a batch while kernels may run uncompiled; after each batch the time is checked."""


def run_in_process(
    log: Path | Log,
    settings: ChainSettings,
    out: Path | PartStore,
    advanced: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Any]:
    """Run the chains of all sites over the log and write their output into ``out``.

    Args:
        log: an arrival log, or its folder.
        settings: settings of all chains.
        out: folder of this pass (see ``engine.output.run_writer``), or a store.
        advanced: called with the number of records after each batch, for progress.

    Returns:
        the counters, as in ``counters.json``. Counters and results cover the files that the log had
        at the start.

    Raises:
        UserError: the log is damaged, or another run uses ``out``.
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
            source_frames = reader.of_sites(some if len(some) < len(sites) else None)
            if slices:
                source_frames = _sliced(source_frames, _ROWS_UNCOMPILED)
            with for_rows(total):
                chains = {site: Chain(settings, site) for site in some}
                for frames in filter(None, by_site(source_frames, rows_per_batch)):
                    for parts in _parts(chains, frames):
                        writer.write(batch, parts)
                        batch += 1
                    now = sum(frame.batch.num_rows for of in frames.values() for frame in of)
                    advanced(now)
                    rows += now
                last = [part for site in some for part in chains[site].last_parts()]
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
    """Yield the same records in frames of at most ``rows``."""
    for frame in frames:
        if frame.rows <= rows:
            yield frame
        else:
            yield from (frame.slice(start, rows) for start in range(0, frame.rows, rows))


def _parts(chains: dict[str, Chain], frames: dict[str, list[Frame]]) -> Iterator[list[OutputPart]]:
    """Yield the output for the frames, combined if it is small."""
    parts: list[OutputPart] = []
    rows = 0
    for site in sorted(frames):
        for some in chains[site].next_parts(frames[site]):
            parts += some
            rows += sum(len(part.payload) for part in some)
            if rows >= _RESULTS_AT_ONCE:
                yield parts
                parts, rows = [], 0
    yield parts


# Clocks that the events of a finite input will name, found before the pass.


_FRAMES: Final = 256
"""Frames that are inspected; later clocks are known only when they come."""
_SITES: Final = 256
_CLOCKS: Final = 64
_LANES: Final = 1024


def with_upcoming_clocks(log: Path | Log, settings: ChainSettings) -> ChainSettings:
    """Return ``settings`` with the clocks of ``log``: an event of a clock that is not yet known may
    invalidate a match.

    Raises:
        UserError: not an arrival log, or a damaged one.
    """
    if settings.clock.exact or not settings.plans:
        return settings
    lanes, synced = dict[str, set[Lane]](), dict[str, set[str]]()
    for frame in islice(opened(log).one_by_one(), _FRAMES):
        mine, known = lanes.setdefault(frame.site, set()), synced.setdefault(frame.site, set())
        of_events, of_syncs = _clocks(frame)
        known |= of_syncs - {clock for clock, _ in mine}
        mine |= of_events
        if len(lanes) > _SITES:
            return settings
    upcoming = tuple(
        UpcomingClocks(site, _some(mine), tuple(sorted(synced[site])))
        for site, mine in sorted(lanes.items())
        if len({clock for clock, _ in mine}) > 1
    )
    return replace(settings, clock=replace(settings.clock, upcoming=upcoming))


def _some(lanes: set[Lane]) -> tuple[Lane, ...]:
    """Return the lanes of at most ``_CLOCKS`` clocks; without detail if there are too many."""
    clocks = sorted({clock for clock, _ in lanes})[:_CLOCKS]
    found = [lane for lane in lanes if lane[0] in clocks]
    if len(found) > _LANES:
        return tuple((clock, (None, None, None, None)) for clock in clocks)
    return tuple(sorted(found, key=repr))


def _clocks(frame: Frame) -> tuple[set[Lane], set[str]]:
    """Return the lanes of a frame's events, and the clocks with a sync before their events."""
    batch, clock = frame.batch, clock_names(frame.batch)
    nothing = pa.nulls(batch.num_rows, pa.string())
    names = [clock, *(batch.column(name) if name in batch.schema.names else nothing
                      for name in (r.SOURCE, r.STREAM, r.TYPE))]  # fmt: skip
    kind, syncs = kinds_of(batch), np.arange(0)
    events = np.flatnonzero(kind == r.Kind.EVENT)
    if r.OFFSET in batch.schema.names:
        measured = pc.is_valid(batch.column(r.OFFSET)).to_numpy(zero_copy_only=False)
        syncs = np.flatnonzero((kind == r.Kind.SYNC) & measured)
    lanes, first = set[Lane](), dict[str, int]()
    for row in _firsts(names, events):
        name, source, stream, kind_of = (column[row].as_py() for column in names)
        lanes.add((name, (name, source, stream or r.DEFAULT_STREAM, kind_of)))
        first[name] = min(row, first.get(name, row))
    of_syncs = {clock[row].as_py(): row for row in _firsts([clock], syncs)}
    return lanes, {name for name, row in of_syncs.items() if row < first.get(name, row + 1)}


def _firsts(names: Sequence[pa.Array], rows: np.ndarray) -> list[int]:
    """Return the first of ``rows`` for each combination of ``names``."""
    groups = group_rows([string_codes(column)[0][rows] for column in names])
    first: list[int] = rows[groups.first_row].tolist()
    return first


# From an input to answers.


Advanced = Callable[[int], None]


class Host(Struct, frozen=True):
    """The host of chains: this process if ``master`` is None, else a Spark master."""

    master: str | None = None

    def store(self, directory: Path, *, is_kept: bool) -> PartStore:
        """Return a store for the parts of a pass, in memory if only this process reads them.

        ``is_kept``: others read the parts, too.
        """
        return PartStore(directory, 0 if is_kept or self.master else HELD_BYTES)

    def run(
        self, log: Path | Log, settings: ChainSettings, out: PartStore, advanced: Advanced
    ) -> Any:
        """Run one pass; return the counters (see ``engine.scenario``).

        Raises:
            UserError: the order reads an attribute that is missing or not a number.
        """
        check_order(log, settings)
        if self.master is None:
            return run_in_process(log, settings, out, advanced)
        need_spark("leave the master out: the answers are the same")
        # pyspark and a JVM only on request
        from slackwater.engine.hosts.spark.host import run_on_spark  # noqa: PLC0415

        where = log if isinstance(log, Path) else _on_disk(log)
        return run_on_spark(where, settings, out.directory, self.master, advanced=advanced)


def with_log_kept(failure: SparkFailure, log: Path) -> SparkFailure:
    """Return the failure with Spark's log moved to the file ``log``."""
    failure.log.rename(log)
    return SparkFailure(failure.cause, log)


@contextmanager
def work_folder(work: Path | None) -> Iterator[Path]:
    """Yield the folder of log, checkpoint and parts.

    Args:
        work: the user's folder, created if absent; None: a temporary folder, of which only the log
            of a failure is kept.

    Raises:
        UserError: it cannot be a folder.
    """
    if work is not None:
        try:
            work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            said = f"cannot be a folder for --work: {error.strerror}"
            raise UserError(f"{work}: {said}") from error
        yield work
        return
    with tempfile.TemporaryDirectory(prefix="slackwater-") as name:
        try:
            yield Path(name)
        except SparkFailure as failure:
            raise with_log_kept(failure, Path(f"{name}.spark.log")) from failure


class Prepared(Struct, frozen=True):
    """An input as an arrival log.

    ``bad_count``: lines refused with ``on_bad="skip"``. ``counted_lanes``: findings about sequence
    numbers, unless the input is a log; ``numbered``: whether it has any, as far as is known.
    ``ends``: the input is complete. ``dated``: some times were dates, not numbers. ``nulls``: as in
    ``InputRead``.
    """

    log: Log
    bad_count: int
    counted_lanes: tuple[CountedLane, ...] = ()
    numbered: bool = True
    ends: bool = True
    dated: bool = False
    nulls: Mapping[str, int] = {}

    @property
    def directory(self) -> Path:
        """Folder of the log, for an input that is not in memory."""
        return _on_disk(self.log)

    def reopened(self) -> Prepared:
        """Return the same input; a log is opened again in its current state."""
        return structs.replace(self, log=LogReader(self.directory))


def _on_disk(log: Log) -> Path:
    assert isinstance(log, LogReader), "only who reads it in this process may hold an input"
    return log.directory


def prepare(
    source: str | Sequence[str] | pa.Table,
    work: Path,
    form: InputForm = PLAIN_FORM,
    on_bad: str = "stop",
    dead_letter: Path | None = None,
    *,
    hold: bool = False,
) -> Prepared:
    """Return ``source`` if it is a log, else a log of it under ``work``.

    Another call with the same ``work`` keeps the existing log, to which a checkpoint refers.
    ``hold``: only this process reads the log, so it may stay in memory.

    Raises:
        UserError: the input is unreadable or invalid; or ``work`` has another input's log.
    """
    reader = open_input(source, form, on_bad, dead_letter)
    if isinstance(reader, LogReader):
        return Prepared(reader, 0, ends=False)
    frames = gathered(reader)
    if hold:
        found, frames = held_frames(frames)
        if found is not None:
            memory_log = HeldLog(found, reader.arrival_given)
            return Prepared(
                memory_log, reader.bad_count, reader.counted_lanes, reader.numbered,
                dated=reader.dated, nulls=+reader.nulls,
            )  # fmt: skip
    log = work / "log"
    with whole_folder(log) as unfinished:
        with LogWriter(unfinished, called=log) as writer:
            for frame in frames:
                writer.append(frame)
            writer.arrival_given = reader.arrival_given
        if not log.exists():
            unfinished.rename(log)
            sync_folder(work)
        elif _content(log) != _content(unfinished):
            raise UserError(f"{log}: is the log of another input; choose another --work")
    return Prepared(
        LogReader(log), reader.bad_count, reader.counted_lanes, reader.numbered, dated=reader.dated,
        nulls=+reader.nulls,
    )  # fmt: skip


def with_default_order(
    prepared: Prepared, settings: ChainSettings, time_unit: str
) -> tuple[ChainSettings, str]:
    """Return the settings and the name of the default order.

    It is ``sequence``, or ``kslack`` for an input without sequence numbers whose events, corrected
    by the declared clocks, are not in order of event time. It stays ``sequence`` for intervals that
    arrive when they end, and for inputs with other records than events.
    """
    if prepared.numbered:
        return settings, SEQUENCE
    intervals = False
    offsets = {name: offset for name, offset, _ in settings.clock.declared}

    def looked_through() -> Iterator[Frame]:
        nonlocal intervals
        for frame in prepared.log.one_by_one():
            intervals = intervals or r.TE in frame.batch.schema.names
            yield corrected(frame, offsets)

    found = describe(looked_through())
    slack = f"kslack:{neat(found.lateness.largest_ns)}"
    stays = not found.out_of_order or intervals or set(found.kinds) != {"event"}
    if stays or not is_order(slack):
        return settings, SEQUENCE
    return replace(settings, order=parse_order(slack, time_unit)), slack


def run_pass(
    prepared: Prepared, settings: ChainSettings, host: Host, out: PartStore, advanced: Advanced
) -> dict[str, Any]:
    """Run one pass over an input; return its counters.

    Arrivals that are line numbers are not instants, so the future guard is off.

    Raises:
        UserError: as for ``Host.run``.
    """
    if not prepared.log.arrival_given:
        settings = replace(settings, guards=Guards(None))
    settings = with_upcoming_clocks(prepared.log, settings)
    return with_lane_counts(host.run(prepared.log, settings, out, advanced), prepared.counted_lanes)


def warnings_after(
    prepared: Prepared, counters: dict[str, Any], excluded: list[str], see: str
) -> list[str]:
    """Return warnings after a pass on clocks and numbers; events that are in no result come first.

    Args:
        prepared: the input.
        counters: counters of the pass.
        excluded: result of ``excluded_lines``.
        see: the command or function that finds another order.
    """
    return [
        *excluded,
        *of_clocks(counters),
        *numbering_warnings(prepared.counted_lanes),
        *of_numbers(counters, see, prepared.log, numbered=prepared.numbered),
        *of_refuted_clocks(counters),
        *of_windows(counters),
        *of_tasks(counters),
    ]


def _content(log: Path) -> list[tuple[str, bytes]]:
    """Return name and digest of each of the log's files; the same input gives the same bytes."""
    found = []
    for path in parquet_files(log):
        with path.open("rb") as file:
            found.append((path.name, hashlib.file_digest(file, "sha256").digest()))
    return found


def check_plans(
    log: Path | Log, plans: Iterable[Plan], declared: Mapping[str, str] | None = None
) -> None:
    """Check that every attribute in the plans is in the log, with a suitable type.

    ``declared``: types of attributes of sources, known even without events.

    Raises:
        UserError: an attribute is unknown; the message has a caret and the known ones.
    """
    plans = list(plans)
    attributes: set[str] = set()
    for plan in plans:
        attributes |= named_attributes(plan)
    known = {**(declared or {}), **attribute_types(log, attributes)}
    for plan in plans:
        check_attributes(plan, known)


def check_order(log: Path | Log, settings: ChainSettings) -> None:
    """Check that the attributes of the ordering operator are in the log, as numbers if needed.

    Raises:
        UserError: the message names the attribute and the known ones.
    """
    attributes = settings.looked_at
    if not attributes:
        return
    from slackwater.engine.order.query_defaults import check_order_attributes  # noqa: PLC0415 - of few orders

    check_order_attributes(attributes, attribute_types(log, set(attributes)))


_TYPES: Final = (
    (pa.types.is_boolean, "bool"),
    (pa.types.is_integer, "int"),
    (pa.types.is_floating, "float"),
    (pa.types.is_null, NO_TYPE),
)


def attribute_types(log: Path | Log, names: set[str]) -> dict[str, str]:
    """Return the types of attributes in the log's frames; stops when all ``names`` are known."""
    known: dict[str, str] = {}
    for frame in opened(log).one_by_one():
        for field in frame.batch.schema:
            if field.name.startswith(ATTR_PREFIX):
                name = field.name.removeprefix(ATTR_PREFIX)
                found = next((kind for of, kind in _TYPES if of(field.type)), "str")
                before = known.get(name, NO_TYPE)
                found = before if found == NO_TYPE else found
                known[name] = "float" if {before, found} == {"int", "float"} else found
        if all(known.get(name, NO_TYPE) != NO_TYPE for name in names):
            break
    return known
