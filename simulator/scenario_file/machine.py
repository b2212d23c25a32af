"""Things that go from place to place and are seen by the sources there: a state machine for each.

A book on a shelf, then at the counter, then at the exit; a patient, a pallet, a player. Every thing
has a number, which its events carry as the attribute ``key``. It enters at random instants in the
state ``start``, stays there for a time, and goes on to the next state by chance until there is none
(chances that sum to less than 1 leave the rest to go).

The whole history of a machine is drawn at once, in rounds over all things that are under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slackwater.edge_agent.messages import NAME_MAX, StreamSchema
from slackwater.edge_agent.packing import Codes
from slackwater.engine.core.errors import UserError
from slackwater.simulator.delays import DELAY_MODELS, DelayModel
from slackwater.simulator.scenario_file.attributes import AttributeLaw, parse_attributes
from slackwater.simulator.scenario_file.generated import taken
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.settings import (
    check,
    parse,
    parse_model,
    parse_share,
    parsed_by,
    value_text,
)
from slackwater.simulator.workload import ROWS_MAX, Batch, Span

ROUNDS_MAX: Final = 1_000
"""A thing passes at most so many states; one that goes in circles for longer is removed."""
THINGS_MAX: Final = 2_000_000


def parse_law(value: object, place: str) -> DelayModel:
    """A law of durations: a table with ``model``, or a bare duration.

    Raises:
        UserError: neither.
    """
    if isinstance(value, int | str) and not isinstance(value, bool):
        value = {"model": "constant", "delay": value}
    law: DelayModel = parse_model(DELAY_MODELS, value, place)
    return law


def _parse_next(table: object, place: str) -> dict[str, float]:
    if not isinstance(table, Mapping):
        raise UserError(
            f"{place}: expected a table of states with their chances, found {value_text(table)}"
        )
    chances = {name: parse_share(chance, f"{place}.{name}") for name, chance in table.items()}
    check(sum(chances.values()) <= 1 + 1e-9, place, "chances sum to more than 1")
    return chances


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One place.

    Attributes:
        source: the source that sees it, or a group of ``[[sources]]``; one of them is drawn.
        type: of its events; None: the state's name.
        stay: how long a thing stays.
        lasts: True: the event is an interval, from coming to leaving; else a point, on coming.
        seen: chance that the source sees it at all.
        next: where it goes from here, with chances.
        attrs: more attributes of its events.
    """

    source: str
    type: str | None = None
    stay: DelayModel = field(metadata=parsed_by(parse_law))
    lasts: bool = False
    seen: float = field(default=1.0, metadata=parsed_by(parse_share))
    next: dict[str, float] = field(default_factory=dict, metadata=parsed_by(_parse_next))
    attrs: dict[str, AttributeLaw] = field(
        default_factory=dict, metadata=parsed_by(parse_attributes)
    )

    def __post_init__(self) -> None:
        check(0 <= self.seen <= 1, "seen", "must lie in 0..1")
        named = self.type is None or 1 <= len(self.type) <= NAME_MAX
        check(named, "type", f"must have 1 to {NAME_MAX} characters")


def _parse_states(tables: object, place: str) -> dict[str, State]:
    if not isinstance(tables, Mapping) or not tables:
        raise UserError(f"{place}: expected a table for each state, found {value_text(tables)}")
    for name in tables:
        named = 1 <= len(name) <= NAME_MAX
        check(named, place, f"{value_text(name)} is not a name of 1 to {NAME_MAX} characters")
    return {name: parse(State, each, f"{place}.{name}") for name, each in tables.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One kind of thing.

    Attributes:
        name: of the machine, and of the stream that its events are in.
        every_ns: mean distance of things that enter.
        start: the state in which they do.
        states: by name.
        key: attribute with the thing's number.
    """

    name: str
    every_ns: int
    start: str
    states: dict[str, State] = field(metadata=parsed_by(_parse_states))
    key: str = "key"

    def __post_init__(self) -> None:
        check(1 <= len(self.name) <= NAME_MAX, "name", f"must have 1 to {NAME_MAX} characters")
        check(1 <= len(self.key) <= NAME_MAX, "key", f"must have 1 to {NAME_MAX} characters")
        check(self.every_ns > 0, "every", "must be positive")
        known = ", ".join(self.states)
        check(self.start in self.states, "start", f"no state {self.start!r}; there are {known}")
        for name, state in self.states.items():
            for other in state.next:
                there = other in self.states
                check(there, f"states.{name}.next", f"no state {other!r}; there are {known}")
            check(self.key not in state.attrs, f"states.{name}.attrs", f"{self.key} is the key")

        kinds: dict[str, tuple[str, str]] = {}
        for name, state in self.states.items():
            for attr, law in state.attrs.items():
                kind, where = kinds.setdefault(attr, (law.kind, name))
                how = f"{law.kind}, and {kind} in the state {where}; give both one kind"
                check(law.kind == kind, f"states.{name}.attrs.{attr}", how)

    def schema(self) -> StreamSchema:
        """Of the stream that any of its sources announces."""
        attrs = {self.key: "int"}
        for state in self.states.values():
            attrs |= {name: law.kind for name, law in state.attrs.items()}
        return StreamSchema(self.name, attrs)


@dataclass(frozen=True, slots=True)
class Visits:
    """Things in one state, as equally long columns: who, from when to when [ns], seen by whom."""

    state: State
    name: str
    thing: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    place: np.ndarray
    """Number of the source among those that the state may be seen by."""


def history(
    machine: Machine, places: Mapping[str, int], span: Span, generator: np.random.Generator
) -> list[Visits]:
    """The visits of a machine's things within ``span``, round by round.

    Args:
        machine: what they are like.
        places: how many sources may see each state.
        span: when.
        generator: the machine's own.

    Raises:
        UserError: more things than memory is for.
    """
    things = int(span.length_ns // machine.every_ns)
    if things > THINGS_MAX:
        raise UserError(f"machine {machine.name!r}: {things} things; at most {THINGS_MAX}: raise "
                        "every, or shorten the duration")  # fmt: skip
    gaps = np.rint(generator.standard_exponential(things + 1) * machine.every_ns)
    entered = span.start_ns + np.cumsum(gaps.astype(np.int64))
    end_ns = span.start_ns + span.length_ns
    entered = entered[entered < end_ns]
    under_way = {machine.start: (np.arange(entered.size), entered)}
    found: list[Visits] = []
    for _ in range(ROUNDS_MAX):
        arriving: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        for name, (thing, start_ns) in under_way.items():
            state = machine.states[name]
            stay = np.rint(state.stay.bend(generator.standard_normal(thing.size)))
            left = start_ns + np.maximum(stay, 0).astype(np.int64)
            place = generator.integers(0, places[name], thing.size)
            seen = generator.random(thing.size) < state.seen
            found.append(Visits(state, name, thing[seen], start_ns[seen], left[seen], place[seen]))
            goes = np.searchsorted(
                np.cumsum(list(state.next.values())), generator.random(thing.size), side="right"
            )
            for number, other in enumerate(state.next):
                on = (goes == number) & (left < end_ns)
                if on.any():
                    arriving.setdefault(other, []).append((thing[on], left[on]))
        if not arriving:
            break
        under_way = {
            name: (np.concatenate([t for t, _ in parts]), np.concatenate([s for _, s in parts]))
            for name, parts in arriving.items()
        }
    return found


@dataclass(slots=True)
class Histories:
    """Draws the history of each machine once, for all sources that see it."""

    places: Mapping[str, Mapping[str, int]]
    """Machine -> state -> how many sources may see it."""
    _drawn: dict[tuple[str, Span], list[Visits]] = field(default_factory=dict)

    def of(self, machine: Machine, span: Span, seeds: Seeds) -> list[Visits]:
        """The visits of its things within ``span``."""
        key = (machine.name, span)
        if key not in self._drawn:
            generator = seeds.generator(f"machine/{machine.name}")
            self._drawn[key] = history(machine, self.places[machine.name], span, generator)
        return self._drawn[key]


@dataclass(frozen=True, slots=True)
class MachineView:
    """The part of a machine that one source sees: the workload of its stream.

    Attributes:
        machine: whose things.
        states: the states that this source may see, each with its number among their sources.
        histories: shared by all sources.
    """

    machine: Machine
    states: Mapping[str, int]
    histories: Histories = field(repr=False, compare=False)

    def streams(self) -> Sequence[StreamSchema]:
        """The machine's stream."""
        return (self.machine.schema(),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        """As ``simulator.workload.Workload``."""
        machine = self.machine
        visits = self.histories.of(machine, span, seeds)
        generator = seeds.generator(f"workload/{source}/{machine.name}")
        last_ns = span.start_ns + span.length_ns
        parts: list[tuple[Visits, np.ndarray]] = []
        for each in visits:
            if each.name in self.states:
                known = each.end_ns if each.state.lasts else each.start_ns
                rows = np.flatnonzero((each.place == self.states[each.name]) & (known < last_ns))
                if rows.size:
                    parts.append((each, rows))
        if not parts:
            return
        yield from _batches(machine, parts, generator)


def _batches(
    machine: Machine, parts: Sequence[tuple[Visits, np.ndarray]], generator: np.random.Generator
) -> Iterator[Batch]:
    """The visits in ``parts`` in the order in which the source knows them."""
    start_ns = np.concatenate([each.start_ns[rows] for each, rows in parts])
    end_ns = np.concatenate(
        [(each.end_ns if each.state.lasts else each.start_ns)[rows] for each, rows in parts]
    )
    kinds = [each.state.type or each.name for each, _ in parts]
    names = list(dict.fromkeys(kinds))
    sizes = [rows.size for _, rows in parts]
    types = np.repeat(np.array([names.index(kind) for kind in kinds], np.int32), sizes)
    thing = np.concatenate([each.thing[rows] for each, rows in parts])
    order = np.lexsort((thing, end_ns))
    columns: dict[str, np.ndarray] = {machine.key: thing[order]}
    for name in machine.schema().attrs:
        if name != machine.key:
            drawn = [
                each.state.attrs[name].take(rows.size, generator).astype(object)
                if name in each.state.attrs
                else np.full(rows.size, None, object)
                for each, rows in parts
            ]
            columns[name] = np.concatenate(drawn)[order]
    start_ns, end_ns, types = start_ns[order], end_ns[order], types[order]
    lasts = any(each.state.lasts for each, _ in parts)
    schema = machine.schema().attrs
    for low in range(0, start_ns.size, ROWS_MAX):
        cut = slice(low, low + ROWS_MAX)
        yield Batch(
            machine.name,
            start_ns[cut],
            Codes(names, types[cut].data),
            {name: taken(column[cut], schema[name]) for name, column in columns.items()},
            end_ns=end_ns[cut] if lasts else None,
            truth={name: column[cut] for name, column in columns.items()},
        )
