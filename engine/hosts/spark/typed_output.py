"""Results as rows with typed columns: the fields of docs/reference/results.md.

Matches, windows and alerts are rows of one DataFrame; what a kind has not is null in its
rows. Attributes are typed where their types are known before any data, else they are a map of
texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Result
from slackwater.engine.output.schema import ALERTS, ITEMS, SO_FAR, as_json
from slackwater.engine.query.fields import FIELDS, ValueKind, own_attribute
from slackwater.engine.query.plan import (
    DOUBTFUL,
    Aggregate,
    Attribute,
    Drift,
    Expression,
    Plan,
    asked_plan,
    checks_of,
)
from slackwater.engine.query.results_as_events import DerivedTypes

_TYPES: Final[dict[str, DataType]] = {
    "int": LongType(), "float": DoubleType(), "bool": BooleanType(), "str": StringType(),
}  # fmt: skip
_TEXTS: Final = MapType(StringType(), StringType())
_EXACT: Final = {"sum", "min", "max"}
_OF_ONE_EVENT: Final = {"first", "last", "min_by", "max_by"}
"""Aggregates that are of the type of what they take; ``count`` is a whole number."""
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
"""Fields of monitored patterns; rows have them where a query monitors one."""
_OF_SO_FAR: Final = {"type": "str", "source": "str", "seq": "int", "ts": "int"}
"""Of each event in their ``so_far``."""
_OF_ITEM: Final = {"source": "str", "seq": "int", "ts": "int", "item": "str"}
"""Likewise of dataflows; ``item`` as JSON."""
_COUNTS: Final = {"certain": "int", "ambiguous": "int", "missing": "int"}
_TIMES: Final = frozenset({"at", "known_at", "ts", "te", "ref", "start", "end"})


class TypedOutput:
    """The schema of the results of some queries, and results as rows of it.

    Args:
        plans: of the queries.
        attributes: types (``int float bool str``) by name; None: not known.
        unit_ns: of the times in the rows, rounded down.
        shown: the attributes that events show; None: all.

    Raises:
        UserError: two queries give a value of one name different types.
    """

    def __init__(
        self,
        plans: Iterable[Plan],
        attributes: Mapping[str, str] | None,
        unit_ns: int,
        shown: frozenset[str] | None = None,
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
            plan, known = asked_plan(each), types.read_by(each)
            if plan is not each:
                for name, of in (known or {}).items():
                    _put(read, name, _TYPES[of])
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
            for name, of in _typed(attributes, shown).items():
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
        """Each result as a row; ``first``: its ``number`` in the site."""
        for number, result in enumerate(results, first):
            yield self._shaped({**result, "number": number}, self.schema)

    def _shaped(self, value: Any, kind: DataType, name: str = "") -> Any:
        """``value`` as pyspark wants it for ``kind``."""
        if value is None:
            return None
        if isinstance(kind, StructType):
            own = name == "attrs"  # an attribute may have the name of a time
            fields = {
                f.name: self._shaped(value.get(f.name), f.dataType, "" if own else f.name)
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
    return [StructField(name, _TYPES[kind]) for name, kind in types.items()]


def _typed(types: Mapping[str, str], shown: frozenset[str] | None) -> dict[str, DataType]:
    return {name: _TYPES[types[name]] for name in sorted(types if shown is None else shown)}


def _struct(types: Mapping[str, DataType]) -> StructType | None:
    """None without fields: few formats can keep such a struct."""
    return StructType([StructField(n, kind) for n, kind in types.items()]) if types else None


def _name(kind: DataType) -> str:
    return next(name for name, of in _TYPES.items() if of == kind)


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
    own = own_attribute(attribute.name)
    if own is None:
        return StringType() if FIELDS[attribute.name] is ValueKind.TEXT else LongType()
    return StringType() if known is None else _TYPES[known[own]]


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
    """Of a value that RETURN computes; truth values are 0 and 1 there."""
    if not isinstance(expression, Attribute):
        return DoubleType()
    kind = _of_attribute(expression, known)
    return LongType() if isinstance(kind, BooleanType) else kind
