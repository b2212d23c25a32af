"""``chain``: the chain of a site as a step of any Spark job, streaming or batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from slackwater.edge_agent import records as r
from slackwater.engine.cache_home import cache_home
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.core.operator import Result
from slackwater.engine.core.units import unit_ns
from slackwater.engine.hosts.chain import Chain, ChainOutput, ChainSettings
from slackwater.engine.hosts.options import QueryOptions, read_tables
from slackwater.engine.hosts.spark.chain_state import Due, NumberState, SiteProcessor
from slackwater.engine.hosts.spark.row_input import RowPlan, frame_of, frames_of, plan_rows
from slackwater.engine.log.input.numbering import read_seq_bits
from slackwater.engine.order.base import Guards
from slackwater.engine.order.query_defaults import check_order_attributes
from slackwater.engine.output.schema import ALERTS, ITEMS, SO_FAR, as_json
from slackwater.engine.query import check_attributes, needed_attributes
from slackwater.engine.query import query as parse_query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.fields import FIELDS, ValueKind, own_attribute
from slackwater.engine.query.language.statements import is_cascade
from slackwater.engine.query.plan import (
    DOUBTFUL,
    Aggregate,
    Attribute,
    Drift,
    Expression,
    Plan,
    checks_of,
    statement_plan,
)
from slackwater.engine.query.reference_tables import NO_TABLES, Tables
from slackwater.engine.query.results_as_events import DerivedTypes

_PAYLOAD: Final = "payload"
_FIRST: Final = "first_arrival"
_OF_FRAMES: Final = {r.SITE: StringType, _PAYLOAD: BinaryType, _FIRST: LongType}
_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def chain(
    order: str = "sequence", queries: str | Sequence[Any] | Any = (), barrier: str | None = None,
    certainty: str = "pairwise", guard_ns: int | None = 1_000_000_000,
    clock: str | Sequence[str] = (), time_unit: str = "ns", spill: str | None = None,
    window: str | None = None, monitor: str | None = None,
    attributes: Mapping[str, str] | None = None, seq_bits: int | Mapping[str, int] | None = None,
    tables: Mapping[str, Any] = NO_TABLES,
) -> Callable[[DataFrame], DataFrame]:  # fmt: skip
    """Return a step that answers ``queries`` over a DataFrame of plain rows or of frames.

    Rows: columns ``source ts arrival`` (and ``seq`` behind order ``sequence``), by choice ``site
    stream incarnation seq type te``; every other column is an attribute. Times are whole numbers
    of ``time_unit``, or timestamps or dates (without a zone: of the session's). Frames: columns
    ``site``, ``payload`` and ``first_arrival`` (those of an arrival log).

    The rows of a micro-batch are put in the order of ``arrival``; none may be earlier than the last
    of the micro-batch before it. A batch DataFrame is answered to its end; a stream has none, so
    its buffers wait for what comes next.

    Args:
        order: short form, e.g. ``sequence:latency=1s`` or ``none``.
        queries: one text or several, each a query or statements with ``;`` between them, which may
            read one another's results (``CREATE STREAM``); named q1, q2, ... in results. Plans that
            Python code built, as of a dataflow (``slackwater.grouping``), have their own names.
        barrier: when matches are let go and windows close, e.g. ``bounded:1s``; None: as REALTIME
            says, or at once.
        certainty: ``pairwise``, ``max-delay`` or ``max-delay-r19`` (SPEC 4.3).
        guard_ns: future guard; None = off.
        clock: of clocks without a sync: ``exact``, offsets as ``badge=-3.2s±0.1s``, or a TOML file
            of these; else they are unknown.
        time_unit: of times that are whole numbers, of durations without a unit in the texts, and
            of the times in the results.
        spill: old events of patterns go to the state store in chunks, e.g. ``state,pending=100``
            (``--spill`` of ``slackwater query``); None: they stay in the chain.
        window: how long windows are corrected, e.g. ``horizon=10m`` (``--window``).
        monitor: how traces under a constraint are followed, e.g. ``horizon=10s`` (``--monitor``).
        attributes: of frames, the types (``int float bool str``) of the attributes that they have:
            queries are checked against them, and results typed. None: both are left to the data,
            and attributes of events are a map of texts.
        seq_bits: of rows: ``seq`` counts in 8, 16 or 32 bits and wraps around; or these by stream.
            Wrap-arounds that are not declared, restarts and numbers that are used again are found
            as in a file (docs/reference/inputs.md), copies among the newest 8,192 numbers.
        tables: those that LOOKUP names, read now: paths, or tables as ``slackwater.read`` takes.

    Returns:
        DataFrame -> DataFrame of results, with the fields of docs/reference/results.md as typed
        columns. Sets the session to keep state in RocksDB, which the step needs.

    Raises:
        UserError: bad order, query, spill or window, an order that cannot serve the queries, or
            (when applied) a column is missing or of a wrong type, or a query names an attribute
            that is none. When the job runs: a row without a time or a source, or a frame that
            breaks a rule, named.
    """
    several = isinstance(queries, Sequence) and not isinstance(queries, str)
    plans = _plans(list(queries) if several else [queries], time_unit, read_tables(tables))
    options = QueryOptions(
        order=order, barrier=barrier, certainty=certainty, clock=clock, spill=spill, window=window,
        monitor=monitor,
    )  # fmt: skip
    settings = options.answering(plans, time_unit, on_spark=True)
    settings = replace(settings, guards=Guards(guard_ns))
    _check_types(attributes)
    return partial(
        _applied, settings=settings, time_unit=time_unit, attributes=attributes,
        bits=read_seq_bits(seq_bits),
    )  # fmt: skip


def _plans(queries: Sequence[Any], time_unit: str, tables: Tables) -> tuple[Plan, ...]:
    """Return the plans of texts and plans; statements that read others must all be texts.

    Raises:
        UserError: a text is invalid, asks for its plan, or is a cascade combined with plans.
    """
    texts = [item for item in queries if isinstance(item, str)]
    if not any(map(is_cascade, texts)):
        return tuple(
            parse_query(item, time_unit, f"q{number}", tables) if isinstance(item, str) else item
            for number, item in enumerate(queries, 1)
        )
    if len(texts) < len(queries):
        raise UserError(
            "statements that read others cannot run beside a plan built in Python: give that one a "
            "step of its own"
        )
    plans, explained = read_statements(texts, time_unit, tables=tables)
    if explained:
        raise UserError("EXPLAIN answers nothing; slackwater.explain tells the plan of a text")
    return plans


def _applied(
    df: DataFrame,
    settings: ChainSettings,
    time_unit: str,
    attributes: Mapping[str, str] | None,
    bits: Mapping[str, int],
) -> DataFrame:
    """Return the results of the step for ``df``."""
    _use_rocksdb(df.sparkSession)
    plans = settings.plans
    rows: RowPlan | None = None
    if _PAYLOAD in df.columns:
        if bits:
            raise UserError("seq_bits is for rows; numbers in frames have 64 bits: leave it out")
        df, known = _frames(df), attributes
    else:
        numbered = settings.order.asks_numbers
        df, rows = plan_rows(
            df, _attributes_read(settings), time_unit, numbered=numbered, bits=bits
        )
        known = rows.attributes
    if known is not None:
        check_order_attributes(settings.looked_at, known)
        for plan in plans:
            check_attributes(plan, known)
    output = TypedOutput(plans, known, unit_ns(time_unit), None if rows is None else rows.taken)
    return df.groupBy(r.SITE).transformWithState(
        statefulProcessor=SiteProcessor(
            settings,
            _RowSource(rows, known, lasts=df.isStreaming),
            partial(_TypedAnswers, output=output),
            cache_home(),
        ),
        outputStructType=output.schema,
        outputMode="Append",
        timeMode="None",
    )


def _check_types(attributes: Mapping[str, str] | None) -> None:
    for name, kind in (attributes or {}).items():
        if kind not in _SPARK_TYPES:
            raise UserError(
                f"attributes: {name!r} is {kind!r}; use one of {', '.join(_SPARK_TYPES)}"
            )


def _attributes_read(settings: ChainSettings) -> set[str] | None:
    """Return the attributes that the step reads; None: all."""
    names = set(settings.looked_at)
    for plan in settings.plans:
        needed = needed_attributes(plan)
        if needed is None:
            return None
        names |= needed
    return names


def _use_rocksdb(session: SparkSession) -> None:
    """Set the state store: ``transformWithState`` requires RocksDB."""
    session.conf.set(_PROVIDER, _ROCKSDB)


def _frames(df: DataFrame) -> DataFrame:
    """Select the columns of frames, and their places if Spark has them: arrivals may be equal.

    Raises:
        UserError: a column is missing or has a wrong type.
    """
    types = {field.name: field.dataType for field in df.schema}
    missing = [name for name in _OF_FRAMES if name not in types]
    if missing:
        raise UserError(
            f"the DataFrame has a column payload, so it is one of frames, but no column "
            f"{', '.join(missing)}; it has {', '.join(types)}"
        )
    for name, expected in _OF_FRAMES.items():
        if not isinstance(types[name], expected):
            what = f"{types[name].simpleString()}, not {expected().simpleString()}"
            raise UserError(f"column {name} of a DataFrame of frames is {what}")
    columns = [F.col(name) for name in _OF_FRAMES]
    try:
        placed = df.select(
            *columns,
            F.col("_metadata.file_name").alias("file"),
            F.col("_metadata.row_index").alias("place"),
        )
        placed.schema  # noqa: B018 - evaluated so that an error is raised here
    except AnalysisException:  # not from files: the content orders frames of equal arrival
        nowhere = (F.lit("").alias("file"), F.lit(0).cast("long").alias("place"))
        return df.select(*columns, *nowhere)
    return placed


class _RowSource:
    """Interprets plain rows or frames; ``lasts``: a later micro-batch may continue the input.

    ``rows``: roles of the columns of plain rows; None: the rows are frames. ``attributes``: the
    known types of attributes.
    """

    def __init__(
        self, rows: RowPlan | None, attributes: Mapping[str, str] | None, *, lasts: bool
    ) -> None:
        self._rows = rows
        self._attributes = attributes
        self._lasts = lasts

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._numbers = NumberState(handle)

    def due(self, site: str | None, rows: Iterator[Row]) -> Due:
        if site is None:
            raise UserError(f"a row has no site: {next(rows)}; give it one, or leave it out")
        frames = self._frames(site, list(rows))
        return Due(iter([frames]), 0, not self._lasts, self._lasts)

    def _frames(self, site: str, rows: list[Row]) -> list[Frame]:
        if self._rows is None:
            return frames_of(site, rows, self._attributes)
        numbering = self._rows.numbering()
        self._numbers.restore(site, numbering)
        frames = [frame_of(site, rows, self._rows, numbering)] if rows else []
        if self._lasts and numbering.some:
            self._numbers.keep(numbering)
        return frames


class _TypedAnswers:
    """Output as rows of ``output``'s schema."""

    def __init__(self, _site: str, _batch: int, results: int, *, output: TypedOutput) -> None:
        self._output = output
        self.results = results
        self.rows: list[Row] = []

    def add(self, chain: Chain, frames: list[Frame]) -> None:
        for output in chain.in_pieces(frames):
            self._add(output)

    def end(self, chain: Chain) -> None:
        self._add(chain.finish())

    def _add(self, output: ChainOutput) -> None:
        for of_query in output.results:
            rows = list(self._output.rows(of_query, self.results))
            self.results += len(rows)
            self.rows += rows


# Results as rows with typed columns: the fields of docs/reference/results.md.
#
# Matches, windows and alerts are rows of one DataFrame; fields of other kinds are null. Attributes
# are typed if their types are known before any data; otherwise they are a map of texts.


_SPARK_TYPES: Final[dict[str, DataType]] = {
    "int": LongType(), "float": DoubleType(), "bool": BooleanType(), "str": StringType(),
}  # fmt: skip
_TEXTS: Final = MapType(StringType(), StringType())
_EXACT: Final = {"sum", "min", "max"}
_OF_ONE_EVENT: Final = {"first", "last", "min_by", "max_by"}
"""Aggregates with the type of their argument; ``count`` is an integer."""
_OF_EVENT: Final = {
    "site": "str", "stream": "str", "source": "str", "seq": "int", "type": "str", "ts": "int",
    "te": "int", "ref": "int",
}  # fmt: skip
_BEFORE: Final = {"query": "str", "site": "str", "number": "int", "op": "str", "at": "int"}
_OF_MATCH: Final = {
    "known_at": "int", "certainty": "str", "probability": "float", "clock_status": "str",
}  # fmt: skip
_OF_ALERT: Final = {
    "alert": "str", "trace": "str", "constraint": "str", "type": "str", "source": "str",
    "seq": "int", "ts": "int", "allowed": "str",
}  # fmt: skip
"""Fields of monitored patterns, if a query monitors one."""
_OF_SO_FAR: Final = {"type": "str", "source": "str", "seq": "int", "ts": "int"}
"""Fields of each event in ``so_far``."""
_OF_ITEM: Final = {"source": "str", "seq": "int", "ts": "int", "item": "str"}
"""Fields of dataflows; ``item`` is JSON."""
_COUNTS: Final = {"certain": "int", "ambiguous": "int", "missing": "int"}
_TIMES: Final = frozenset({"at", "known_at", "ts", "te", "ref", "start", "end"})


class TypedOutput:
    """The schema of the results of queries, and the conversion of results to rows.

    Args:
        plans: plans of the queries.
        attributes: types (``int float bool str``) by name; None: unknown.
        unit_ns: unit of times in the rows [ns]; they are rounded down.
        event_attributes: attributes that events show; None: all.

    Raises:
        UserError: two queries have values with one name and different types.
    """

    def __init__(
        self,
        plans: Iterable[Plan],
        attributes: Mapping[str, str] | None,
        unit_ns: int,
        event_attributes: frozenset[str] | None = None,
    ) -> None:
        self._unit = unit_ns
        values: dict[str, DataType] = {}
        aggregates: dict[str, DataType] = {}
        keys: dict[str, DataType] = {}
        read: dict[str, DataType] = {}
        monitored = derived = checked = False
        types = DerivedTypes(
            attributes,
            lambda _window, one, known: _name(_of_aggregate(one, known)),
            lambda one, known: _name(_of_value(one, known)),
        )
        for each in plans:
            monitored |= each.result_kind == ALERTS
            derived |= each.result_kind == ITEMS
            checked |= checks_of(each) is not None
            plan, known = statement_plan(each), types.read_by(each)
            if plan is not each:
                for name, of in (known or {}).items():
                    _put(read, name, _SPARK_TYPES[of])
            for window in plan.windows:
                mean = window.drift is Drift.TOGETHER
                for one in window.aggregates:
                    kind = _of_aggregate(one, known)
                    _put(aggregates, one.label, kind)
                    _put(values, one.label, DoubleType() if mean else kind)
                for key in window.group_by:
                    _put(keys, key.name, _of_attribute(key, known))
            for branch in plan.branches:
                for computed in branch.computed:
                    _put(values, computed.label, _of_value(computed.expression, known))
        attrs: DataType | None = _TEXTS
        if attributes is not None:
            for name, of in _typed(attributes, event_attributes).items():
                _put(read, name, of)
            attrs = _struct({name: read[name] for name in sorted(read)})
        event = [*_fields(_OF_EVENT), *([StructField("attrs", attrs)] if attrs is not None else [])]
        either = {name: ArrayType(kind) for name, kind in aggregates.items()}
        wide = {
            "window": StructType(_fields({"start": "int", "end": "int"})), "key": _struct(keys),
            "value": _struct(values), "low": _struct(aggregates), "middle": _struct(aggregates),
            "high": _struct(aggregates), "bounds": _struct(either),
        }  # fmt: skip
        so_far = ArrayType(StructType(_fields(_OF_SO_FAR)))
        self.schema = StructType([
            *_fields({**_BEFORE, **_OF_MATCH}), StructField("events", ArrayType(StructType(event))),
            *(StructField(name, kind) for name, kind in wide.items() if kind is not None),
            *_fields({"drift": "str", **_COUNTS}),  # R19's flag
            *_fields((_OF_ALERT if monitored else {}) | (_OF_ITEM if derived else {})),
            *([StructField(SO_FAR, so_far)] if monitored else []),
            *([StructField(DOUBTFUL, ArrayType(StringType()))] if checked else []),
        ])  # fmt: skip

    def rows(self, results: Iterable[Result], first: int) -> Iterator[Row]:
        """Yield each result as a row; ``first``: the ``number`` of the first one in the site."""
        for number, result in enumerate(results, first):
            yield self._shaped({**result, "number": number}, self.schema)

    def _shaped(self, value: Any, kind: DataType, name: str = "") -> Any:
        """Convert ``value`` for pyspark to ``kind``."""
        if value is None:
            return None
        if isinstance(kind, StructType):
            is_attrs = name == "attrs"  # an attribute may have the name of a time
            fields = {
                f.name: self._shaped(value.get(f.name), f.dataType, "" if is_attrs else f.name)
                for f in kind
            }
            return Row(*fields)(*fields.values())
        if isinstance(kind, ArrayType):
            return [self._shaped(each, kind.elementType, name) for each in value]
        if isinstance(kind, MapType):
            return {key: _text(each) for key, each in value.items()}
        if isinstance(kind, StringType):
            return _text(value)
        if isinstance(kind, DoubleType):
            return float(value)
        if isinstance(kind, LongType):
            return int(value) // self._unit if name in _TIMES else int(value)
        return value


def _fields(types: Mapping[str, str]) -> list[StructField]:
    return [StructField(name, _SPARK_TYPES[kind]) for name, kind in types.items()]


def _typed(types: Mapping[str, str], names: frozenset[str] | None) -> dict[str, DataType]:
    return {name: _SPARK_TYPES[types[name]] for name in sorted(types if names is None else names)}


def _struct(types: Mapping[str, DataType]) -> StructType | None:
    """Return a struct; None without fields, as few formats support empty structs."""
    return StructType([StructField(n, kind) for n, kind in types.items()]) if types else None


def _name(kind: DataType) -> str:
    return next(name for name, of in _SPARK_TYPES.items() if of == kind)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return as_json(value)
    return str(value)


def _put(types: dict[str, DataType], label: str, kind: DataType) -> None:
    before = types.setdefault(label, kind)
    if before == kind:
        return
    if not {type(before), type(kind)} <= {LongType, DoubleType}:
        raise UserError(
            f"two queries give {label!r} as {before.simpleString()} and as {kind.simpleString()}: "
            "name one of them otherwise with AS"
        )
    types[label] = DoubleType()


def _of_attribute(attribute: Attribute, known: Mapping[str, str] | None) -> DataType:
    name = own_attribute(attribute.name)
    if name is None:
        return StringType() if FIELDS[attribute.name] is ValueKind.TEXT else LongType()
    return StringType() if known is None else _SPARK_TYPES[known[name]]


def _of_aggregate(one: Aggregate, known: Mapping[str, str] | None) -> DataType:
    if one.function in ("count", "count_distinct"):
        return LongType()
    if one.function in _OF_ONE_EVENT and one.argument is not None:
        return _of_value(one.argument, known)
    if one.function in _EXACT and isinstance(one.argument, Attribute):
        kind = _of_attribute(one.argument, known)
        return LongType() if isinstance(kind, LongType | BooleanType) else DoubleType()
    return DoubleType()


def _of_value(expression: Expression, known: Mapping[str, str] | None) -> DataType:
    """Return the type of a value computed by RETURN; truth values are 0 and 1."""
    if not isinstance(expression, Attribute):
        return DoubleType()
    kind = _of_attribute(expression, known)
    return LongType() if isinstance(kind, BooleanType) else kind
