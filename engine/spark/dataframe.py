"""``chain``: a site's chain as a step of any Spark job, streaming or batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import DataType, StringType

from edge_agent import records as r
from engine.barrier.registry import parse_barrier
from engine.cache_home import cache_home
from engine.chain import ChainOutput, ChainSettings
from engine.cli.spill_option import read_spill
from engine.cli.window_option import read_window
from engine.errors import UserError
from engine.frame import ATTR_PREFIX, FIXED_TYPES, Frame
from engine.order.base import Guards
from engine.order.registry import order_attributes, parse_order
from engine.pattern.purge_settings import PurgeSettings
from engine.query import query as parse_query
from engine.spark.chain_state import ChainState
from engine.spark.processor import use_cache

_PAYLOAD: Final = "payload"
_OUTPUT: Final = "query string, site string, op string, at long, result string"
_NEEDED: Final = (r.SOURCE, r.SEQ, r.TS, r.ARRIVAL)


def chain(
    order: str = "sequence",
    queries: Sequence[str] = (),
    barrier: str | None = None,
    certainty: str = "pairwise",
    guard_ns: int | None = 1_000_000_000,
    time_unit: str = "ns",
    spill: str | None = None,
    window: str | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """A step that answers ``queries`` over a DataFrame of frames or of plain rows.

    Frames: columns ``site``, ``payload`` and ``first_arrival`` (those of an arrival log). Rows:
    columns ``source seq ts arrival`` (times in ns), by choice ``site stream incarnation type te``;
    every other column is an attribute. The rows of a micro-batch are put in the order of
    ``arrival``; none may be earlier than the last of the micro-batch before it. A batch DataFrame
    is answered to its end; a stream has none, so its buffers wait for what comes next.

    Args:
        order: short form, e.g. ``sequence:latency=1s`` or ``none``.
        queries: texts; named q1, q2, ... in results.
        barrier: when matches are let go, e.g. ``bounded:1s``; None: as REALTIME says, or at once.
        certainty: ``pairwise`` or ``max-delay`` (SPEC 4.3).
        guard_ns: future guard; None = off.
        time_unit: of durations without a unit in the texts.
        spill: old events of patterns go to the state store in chunks, e.g. ``state,pending=100``
            (``--spill`` of ``slackwater query``); None: they stay in the chain.
        window: how long windows are corrected, e.g. ``horizon=10m`` (``--window``).

    Returns:
        DataFrame -> DataFrame with columns ``query site op at result``, where ``result`` is the
        JSON of DESIGN "Results".

    Raises:
        UserError: bad order, query, spill or window, or (when applied) a column is missing.
    """
    plans = tuple(
        parse_query(text, time_unit, name=f"q{number}") for number, text in enumerate(queries, 1)
    )
    settings = ChainSettings(
        parse_order(order, time_unit),
        plans,
        None if barrier is None else parse_barrier(barrier, time_unit),
        certainty,
        Guards(guard_ns),
        spill=read_spill(spill, time_unit, plans, PurgeSettings(), on_spark=True),
        window=read_window(window, time_unit, plans),
    )
    order_attributes(settings.order, plans)  # an order that cannot serve them is told here

    def apply(df: DataFrame) -> DataFrame:
        frames = _PAYLOAD in df.columns
        needed = ("site", "first_arrival") if frames else _NEEDED
        missing = [name for name in needed if name not in df.columns]
        if missing:
            raise UserError(
                f"the DataFrame has no column {', '.join(missing)}; it has {', '.join(df.columns)}"
            )
        if r.SITE not in df.columns:
            df = df.withColumn(r.SITE, F.lit(r.DEFAULT_SITE))
        texts = {field.name for field in df.schema if _is_text(field.dataType)}
        step = _Step(settings, frames, texts, df.isStreaming, cache_home())
        return df.groupBy(r.SITE).transformWithState(
            statefulProcessor=step,
            outputStructType=_OUTPUT,
            outputMode="Append",
            timeMode="None",
        )

    return apply


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


class _Step(StatefulProcessor):  # type: ignore[misc]  # pyspark is not checked here
    """One chain per site, fed with whatever the group holds."""

    def __init__(
        self, settings: ChainSettings, frames: bool, texts: set[str], streaming: bool, cache: Path
    ) -> None:
        self._settings = settings
        self._frames = frames
        self._texts = texts
        self._streaming = streaming
        self._cache = cache

    def init(self, handle: StatefulProcessorHandle) -> None:
        use_cache(self._cache)
        self._state = ChainState(handle, self._settings)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's clocks must not matter
    ) -> Iterator[Row]:
        site = key[0]
        live = self._state.chain(site)
        outputs = [live.process(self._to_frames(site, list(rows)))]
        if self._streaming:
            self._state.keep(live)
        else:
            outputs.append(live.finish())
        return iter([row for output in outputs for row in _result_rows(output)])

    def _to_frames(self, site: str, rows: list[Row]) -> list[Frame]:
        if self._frames:
            rows.sort(key=lambda row: row.first_arrival)
            return [Frame.from_bytes(site, bytes(row.payload)) for row in rows if row.payload]
        rows.sort(key=lambda row: (row.arrival, row.source, row.seq))
        return [_frame(site, rows, self._texts)] if rows else []

    def close(self) -> None:
        """Nothing to release."""


def _frame(site: str, rows: list[Row], texts: set[str]) -> Frame:
    """Plain rows as one frame."""
    names = [name for name in rows[0].__fields__ if name != r.SITE]
    columns: dict[str, pa.Array] = {}
    for name, values in zip(
        names, zip(*([row[n] for n in names] for row in rows), strict=True), strict=True
    ):
        fixed = FIXED_TYPES.get(name)
        array = pa.array(values, pa.string() if name in texts else None)
        if name in texts:
            array = array.dictionary_encode()
        elif fixed is not None:
            array = array.cast(fixed)
        columns[name if fixed is not None or name == r.ID else ATTR_PREFIX + name] = array
    return Frame(site, pa.RecordBatch.from_pydict(columns))


def _result_rows(output: ChainOutput) -> Iterator[Row]:
    for results in output.results:
        for result in results:
            yield Row(
                query=result["query"],
                site=result["site"],
                op=result["op"],
                at=result["at"],
                result=json.dumps(result),
            )
