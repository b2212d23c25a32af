"""Generated events of one source: times, types and attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from slackwater.edge_agent.messages import NAME_MAX, NAMES_MAX, StreamSchema
from slackwater.edge_agent.packing import Codes, MaskedColumn
from slackwater.edge_agent.records import DEFAULT_STREAM
from slackwater.engine.core.errors import UserError
from slackwater.simulator.scenario_file.attributes import AttributeLaw, parse_attributes
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.settings import check, parsed_by
from slackwater.simulator.workload import AttrColumn, Batch, Periodic, Poisson, Span

DEFAULT_TYPE: Final = "EVENT"


def parse_types(value: object, place: str) -> dict[str, float]:
    """Types with their chances, from a name, a list of names or a table ``{A = 3, B = 1}``.

    Raises:
        UserError: none of these, or chances that are negative or all 0.
    """
    if isinstance(value, str):
        value = [value]
    if isinstance(value, Sequence):
        value = dict.fromkeys(value, 1.0) if all(isinstance(each, str) for each in value) else None
    if not isinstance(value, Mapping) or not value:
        raise UserError(f"{place}: expected a type, a list of types, or a table {{A = 3, B = 1}}")
    check(len(value) <= NAMES_MAX, place, f"{len(value):,} types; at most {NAMES_MAX:,}")
    for name, chance in value.items():
        check(1 <= len(name) <= NAME_MAX, place, f"{name!r} is not 1 to {NAME_MAX} characters")
        number = type(chance) in (int, float) and 0 <= chance < float("inf")
        check(number, f"{place}.{name}", f"expected a chance, found {chance!r}")
    check(sum(value.values()) > 0, place, "one chance must be above 0")
    return {name: float(chance) for name, chance in value.items()}


def taken(column: np.ndarray, kind: str) -> AttrColumn:
    """A column as an agent takes it; ``None`` of an array of objects is null."""
    if column.dtype != object:
        return column
    valid = np.array([value is not None for value in column], np.bool_)
    if kind == "str":
        names, codes = np.unique(column[valid].astype(str), return_inverse=True)
        places = np.full(column.size, -1, np.int32)
        places[valid] = codes
        return Codes(names.tolist(), places.data)
    types: dict[str, Any] = {"int": np.int64, "float": np.float64, "bool": np.bool_}
    values = np.zeros(column.size, types[kind])
    values[valid] = column[valid].astype(types[kind])
    return values if valid.all() else MaskedColumn(values.data, valid.data)


def described(
    attrs: Mapping[str, AttributeLaw], rows: int, generator: np.random.Generator
) -> tuple[dict[str, AttrColumn], dict[str, np.ndarray]]:
    """Columns of the next ``rows`` events: as the agent takes them, and as the truth keeps them."""
    truth = {name: law.take(rows, generator) for name, law in attrs.items()}
    return {name: taken(column, attrs[name].kind) for name, column in truth.items()}, truth


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventSettings:
    """Settings of the events of every made-up workload.

    Attributes:
        type: one, several that are as likely, or a table of types with their chances.
        stream: of all events.
        attrs: attributes by name: a value, a list to choose from, or a table with ``model``.
    """

    type: dict[str, float] = field(
        default_factory=lambda: {DEFAULT_TYPE: 1.0}, metadata=parsed_by(parse_types)
    )
    stream: str = DEFAULT_STREAM
    attrs: dict[str, AttributeLaw] = field(
        default_factory=dict, metadata=parsed_by(parse_attributes)
    )

    def check_stream(self) -> None:
        """Refuses a stream that no agent could announce."""
        named = 1 <= len(self.stream) <= NAME_MAX
        check(named, "stream", f"must have 1 to {NAME_MAX} characters")

    def streams(self) -> Sequence[StreamSchema]:
        """The stream that the source announces."""
        return (StreamSchema(self.stream, {name: law.kind for name, law in self.attrs.items()}),)

    def _described(self, plain: Iterator[Batch], seeds: Seeds, source: str) -> Iterator[Batch]:
        generator = seeds.generator(f"workload/{source}/attributes")
        names, chances = list(self.type), np.array(list(self.type.values()))
        for batch in plain:
            rows = batch.true_ns.size
            drawn = generator.choice(len(names), rows, p=chances / chances.sum())
            attrs, truth = described(self.attrs, rows, generator)
            types = Codes(names, drawn.astype(np.int32).data)
            yield Batch(self.stream, batch.true_ns, types, attrs, truth=truth)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicEvents(_EventSettings):
    """An event every ``period_ns``, the first at ``phase_ns`` after the start."""

    period_ns: int
    phase_ns: int = 0

    def expected(self, length_ns: int) -> int:
        """As ``simulator.workload.ForeseenWorkload``."""
        return length_ns // self.period_ns

    def __post_init__(self) -> None:
        self.check_stream()
        Periodic(self.period_ns, self.phase_ns)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        """As ``simulator.workload.Workload``."""
        plain = Periodic(self.period_ns, self.phase_ns).batches(span, seeds, source)
        return self._described(plain, seeds, source)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonEvents(_EventSettings):
    """Events at random instants, ``mean_ns`` apart on average."""

    mean_ns: int

    def expected(self, length_ns: int) -> int:
        """As ``simulator.workload.ForeseenWorkload``."""
        return length_ns // self.mean_ns

    def __post_init__(self) -> None:
        self.check_stream()
        Poisson(self.mean_ns)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        """As ``simulator.workload.Workload``."""
        plain = Poisson(self.mean_ns).batches(span, seeds, source)
        return self._described(plain, seeds, source)


GENERATED: Final[dict[str, type[Any]]] = {"periodic": PeriodicEvents, "poisson": PoissonEvents}
