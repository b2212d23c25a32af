"""From the tables of a scenario file to a ``Scenario`` that the simulator runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from slackwater.edge_agent.errors import near_miss
from slackwater.engine.core.errors import UserError
from slackwater.simulator.abstracting import DeviceAbstraction
from slackwater.simulator.scenario import SECOND, Scenario, SourceSettings
from slackwater.simulator.scenario_file.joined import MergedWorkloads
from slackwater.simulator.scenario_file.machine import Histories, Machine, MachineView
from slackwater.simulator.scenario_file.recording import OnAround, RecordedEvents, RecordedStream
from slackwater.simulator.scenario_file.settings import (
    COUNT_MAX,
    FILES,
    QUERIES,
    AnswerSettings,
    GroupClock,
    clocks_of,
    merged,
    parse_links,
    parse_texts,
    parse_texts_by_name,
    parse_workload,
)
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.settings import (
    check,
    parse,
    parse_many,
    parse_plain,
    units_needed,
    value_text,
)
from slackwater.simulator.workload import Workload, expected_events

Recording = Mapping[str, tuple[RecordedStream, ...]]
ReadRecording = Callable[[Mapping[str, Any], str], Recording]
"""Given the table ``recording`` and its place, gives the streams of each of its sources."""
TOP: Final = (
    "title", "seed", "duration", "warm_up", "drain", "clock", "link", "sources", "machines",
    "gateway", "queries", "tables", "engine", "thresholds",
)  # fmt: skip
GROUP: Final = ("name", "count", "workload", "recording", "clock", "link")
"""Keys of ``[[sources]]`` that are not those of ``simulator.scenario.SourceSettings``."""
_CONNECT_TIMEOUT: Final = "10 s"
"""As the agent's driver; a handshake over a slow link takes its time."""
_OF_LINK: Final = ("up", "down")
_OF_SOURCE: Final = tuple(
    each.name.removesuffix("_ns")
    for each in fields(SourceSettings)
    if each.name not in (*GROUP, *_OF_LINK)
)
MAX_EVENTS: Final = 10**9
"""Of a whole run; some hours of simulation."""
MAX_TICKS: Final = 10**9
"""Heartbeats and ticks, each a message of its own: the same."""
_SPOKEN: Final = {"int": "a number", "float": "a number", "str": "a text", "bool": "true or false"}


@dataclass(frozen=True, slots=True)
class FileScenario:
    """Content of a scenario file.

    Attributes:
        title: of the report.
        simulated: who is there.
        queries: by name.
        tables: files of those that queries look up, by name.
        answering: how they are answered.
        thresholds: as they are written.
    """

    title: str
    simulated: Scenario
    queries: Mapping[str, str]
    tables: Mapping[str, str]
    answering: AnswerSettings
    thresholds: tuple[str, ...]

    @property
    def attributes(self) -> dict[str, str]:
        """Types of its events' attributes, whether or not an event comes."""
        found: dict[str, str] = {}
        for source in self.simulated.sources:
            streams = source.workload.streams()
            made = DeviceAbstraction(source.abstract, streams).streams.values()
            for stream in (*streams, *made):
                found |= stream.attrs
        return found


def build(
    name: str, tables: Mapping[str, Any], read_recording: ReadRecording | None, place: str,
    worlds: Mapping[str, type[Any]] | None = None,
) -> FileScenario:  # fmt: skip
    """The scenario that the ``tables`` of a file describe.

    Args:
        name: of the scenario.
        tables: of the file.
        read_recording: reads recordings; None: there is none.
        place: of the file, for messages.
        worlds: models of workloads in addition to the built-in ones, by name.

    Raises:
        UserError: names the setting by its place.
    """
    with units_needed():
        return _build(name, tables, read_recording, place, worlds or {})


def _build(
    name: str, tables: Mapping[str, Any], read_recording: ReadRecording | None, place: str,
    worlds: Mapping[str, type[Any]],
) -> FileScenario:  # fmt: skip
    for key in tables:
        known = ", ".join(TOP)
        how = near_miss(key, TOP)
        check(key in TOP, f"{place}.{key}", f"unknown setting; known are {known}{how}")
    if "sources" not in tables:
        raise UserError(f"{place}: no sources; add [[sources]]")
    machines = parse_many(Machine, tables.get("machines", []), f"{place}.machines")
    _once([machine.name for machine in machines], f"{place}.machines", "machines")
    seed = parse_plain(int, tables.get("seed", 1), f"{place}.seed")
    check(seed >= 0, f"{place}.seed", f"{seed} is negative; give a whole number")
    seeds = Seeds(seed)
    groups = _groups(tables, read_recording, worlds, place)
    members = {group.name: [each.name for each in group.sources] for group in groups}
    clocks = clocks_of({each.name: group.clock for group in groups for each in group.sources},
                       seeds)  # fmt: skip
    sources = _with_machines(
        [replace(each, clock=clocks[each.name]) for group in groups for each in group.sources],
        machines, members, place,
    )  # fmt: skip
    _check_attributes(sources, place)
    recorded = [group.recorded_ns for group in groups if group.recorded_ns is not None]
    settings = {
        key: tables[key] for key in ("duration", "warm_up", "drain", "gateway") if key in tables
    }
    if "duration" not in settings:
        if not recorded:
            raise UserError(f"{place}: duration is missing")
        settings["duration_ns"] = max(recorded) + 1
    if "warm_up" not in settings:
        settings["warm_up_ns"] = 5 * SECOND
    scenario = parse(Scenario, {"name": name, "seed": seed, "sources": sources, **settings}, place)
    around = {
        each.name: group.on_around_ns
        for group in groups
        for each in group.sources
        if group.on_around_ns is not None
    }
    scenario = _when_recorded(scenario, around, place)
    _check_events(scenario, place)
    return FileScenario(
        parse_plain(str, tables.get("title", name), f"{place}.title"),
        scenario,
        parse_texts_by_name(tables.get("queries", {}), QUERIES, f"{place}.queries"),
        parse_texts_by_name(tables.get("tables", {}), FILES, f"{place}.tables"),
        parse(AnswerSettings, tables.get("engine", {}), f"{place}.engine"),
        parse_texts(tables.get("thresholds", []), f"{place}.thresholds"),
    )


@dataclass(frozen=True, slots=True)
class _Nothing:
    """The workload of a source that only sees machines."""

    def streams(self) -> Sequence[Any]:
        return ()

    def batches(self, *_: object) -> Any:
        return iter(())


@dataclass(frozen=True, slots=True)
class _Group:
    name: str
    sources: tuple[SourceSettings, ...]
    clock: GroupClock
    recorded_ns: int | None
    """Of a recording: when its last event is."""
    on_around_ns: int | None
    """Of a recording; None: its sources are on as they say themselves."""


def _when_recorded(scenario: Scenario, around: Mapping[str, int], place: str) -> Scenario:
    """Sources that have nothing but what was recorded of them are on so long around it.

    For a device whose events lie within minutes of a recording of weeks, an agent that lives for
    weeks would send millions of heartbeats. Those without any event until the end are left out.
    """
    found = []
    for source in scenario.sources:
        around_ns, work = around.get(source.name), source.workload
        if around_ns is None or not isinstance(work, RecordedEvents):
            found.append(source)
        elif work.first_ns() < scenario.duration_ns:
            on_ns = max(work.first_ns() - around_ns, 0)
            off_ns = scenario.warm_up_ns + work.last_ns() + around_ns
            found.append(replace(source, on_ns=on_ns, off_ns=off_ns))
    if not found:
        raise UserError(f"{place}.duration: nothing was recorded of its sources by its end")
    return replace(scenario, sources=tuple(found))


def _check_events(scenario: Scenario, place: str) -> None:
    """Refuses what would be simulated for hours, which is a slip with a unit."""
    each_has = (expected_events(each.workload, scenario.duration_ns) for each in scenario.sources)
    events = sum(each_has)
    check(
        events <= MAX_EVENTS, f"{place}.sources",
        f"would make {events:,} events; at most {MAX_EVENTS:,} are simulated. "
        "Let events be further apart, or the duration be shorter",
    )  # fmt: skip
    # Promises and ticks come while nothing happens: of a recording with one time in 1970, too.
    length_ns = scenario.warm_up_ns + scenario.duration_ns + scenario.drain_ns
    records = length_ns // scenario.gateway.tick_every_ns if scenario.gateway.tick_every_ns else 0
    for each in scenario.sources:
        if each.heartbeat_ns:
            records += (scenario.life(each).length_ns + scenario.drain_ns) // each.heartbeat_ns
    check(
        records <= MAX_TICKS, f"{place}.duration",
        f"in {length_ns // SECOND:,} s there would be {records:,} heartbeats and ticks of "
        f"the gateway; at most {MAX_TICKS:,} are simulated. Let the duration be shorter (without "
        "one it is that of the recording, from its first time to its last), or them further apart",
    )  # fmt: skip


def _check_attributes(sources: Sequence[SourceSettings], place: str) -> None:
    """Refuses an attribute that is a number here and a text there: a column has one type."""
    kinds: dict[str, tuple[str, str]] = {}
    for source in sources:
        for stream in source.workload.streams():
            for name, kind in stream.attrs.items():
                plain = _SPOKEN[kind]
                place_text = f"of source {source.name!r} in stream {stream.name!r}"
                first, other = kinds.setdefault(name, (plain, place_text))
                check(
                    plain == first, f"{place}.sources",
                    f"attribute {name!r} is {plain} {place_text}, and {first} {other}; give one of "
                    "them another name",
                )  # fmt: skip


def _groups(
    tables: Mapping[str, Any], read_recording: ReadRecording | None,
    worlds: Mapping[str, type[Any]], place: str,
) -> list[_Group]:  # fmt: skip
    group_tables = tables["sources"]
    if isinstance(group_tables, str | Mapping) or not isinstance(group_tables, Sequence):
        raise UserError(
            f"{place}.sources: write tables, [[sources]], not {value_text(group_tables)}"
        )
    check(bool(group_tables), f"{place}.sources", "there must be at least one")
    general = {key: _table(tables.get(key, {}), f"{place}.{key}") for key in ("clock", "link")}
    # By themselves first, so that a mistake is reported at its own place.
    parse(GroupClock, general["clock"], f"{place}.clock")
    parse_links(general["link"], f"{place}.link")
    groups = []
    for number, each in enumerate(group_tables):
        spot = f"{place}.sources[{number}]"
        groups.append(_group(_table(each, spot), general, read_recording, worlds, spot))
    _once([group.name for group in groups], f"{place}.sources", "groups of sources")
    return groups


def _group(
    table: Mapping[str, Any], general: Mapping[str, Mapping[str, Any]],
    read_recording: ReadRecording | None, worlds: Mapping[str, type[Any]], place: str,
) -> _Group:  # fmt: skip
    for key in _OF_LINK:
        check(key not in table, f"{place}.{key}", f"write [sources.link.{key}]")
    for key in table:
        known = (*GROUP, *_OF_SOURCE)
        how = f"known are {', '.join(known)}{near_miss(key, known)}"
        check(key.removesuffix("_ns") in known, f"{place}.{key}", f"unknown setting; {how}")
    if "workload" in table and "recording" in table:
        raise UserError(f"{place}.recording: give a workload or a recording, not both")
    recorded: Recording = {}
    around_ns = None
    if "recording" in table:
        if read_recording is None:
            raise UserError(f"{place}.recording: no recordings are read here")
        settings = _table(table["recording"], f"{place}.recording")
        recorded = read_recording(settings, place)
        if not {"on", "off"}.intersection(table):
            some = {key: settings[key] for key in ("on_around",) if key in settings}
            around_ns = parse(OnAround, some, f"{place}.recording").on_around_ns
        name = parse_plain(str, table.get("name", "recording"), f"{place}.name")
        check("count" not in table, f"{place}.count", "a recording says how many sources it has")
        work: dict[str, Workload] = {of: RecordedEvents(each) for of, each in recorded.items()}
    else:
        if "name" not in table:
            raise UserError(f"{place}: name is missing")
        name = parse_plain(str, table["name"], f"{place}.name")
        count = parse_plain(int, table.get("count", 1), f"{place}.count")
        check(1 <= count <= COUNT_MAX, f"{place}.count", f"must lie in 1..{COUNT_MAX}")
        each_workload: Workload = (
            parse_workload(table["workload"], f"{place}.workload", worlds)
            if "workload" in table
            else _Nothing()
        )
        names = [name] if count == 1 else [f"{name}-{each}" for each in range(1, count + 1)]
        work = dict.fromkeys(names, each_workload)
    clock = parse(GroupClock, merged(general["clock"], _table(table.get("clock", {}),
                  f"{place}.clock")), f"{place}.clock")  # fmt: skip
    up, down = parse_links(merged(general["link"], _table(table.get("link", {}),
                           f"{place}.link")), f"{place}.link")  # fmt: skip
    rest = {key: value for key, value in table.items() if key not in GROUP}
    sources = tuple(
        parse(
            SourceSettings,
            {"connect_timeout": _CONNECT_TIMEOUT, **rest, "name": each, "workload": workload,
             "up": up, "down": down},
            place,
        )
        for each, workload in work.items()
    )  # fmt: skip
    last = [RecordedEvents(streams).last_ns() for streams in recorded.values()]
    return _Group(name, sources, clock, max(last, default=None), around_ns)


def _with_machines(
    sources: Sequence[SourceSettings], machines: Sequence[Machine],
    members: Mapping[str, Sequence[str]], place: str,
) -> tuple[SourceSettings, ...]:  # fmt: skip
    """The sources with what they see of the machines."""
    names = [source.name for source in sources]
    seen: dict[str, dict[int, dict[str, int]]] = {}
    places: dict[str, dict[str, int]] = {machine.name: {} for machine in machines}
    for number, machine in enumerate(machines):
        for state_name, state in machine.states.items():
            who = members.get(state.source, [state.source])
            known = ", ".join(members)
            there = all(each in names for each in who)
            spot = f"{place}.machines[{number}].states.{state_name}.source"
            check(there, spot, f"no source {state.source!r}; there are {known}")
            places[machine.name][state_name] = len(who)
            for index, each in enumerate(who):
                seen.setdefault(each, {}).setdefault(number, {})[state_name] = index
    histories = Histories(places)
    found = []
    for source in sources:
        parts: list[Workload] = [] if isinstance(source.workload, _Nothing) else [source.workload]
        for number, states in seen.get(source.name, {}).items():
            parts.append(MachineView(machines[number], states, histories))
        if not parts:
            raise UserError(f"{place}.sources: {source.name} has no events: give it a workload, or "
                            "name it as the source of a machine's state")  # fmt: skip
        found.append(
            replace(source, workload=parts[0] if len(parts) == 1 else MergedWorkloads(tuple(parts)))
        )
    return tuple(found)


def _table(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{place}: expected a table of settings, found {value_text(value)}")
    return value


def _once(names: Sequence[str], place: str, what: str) -> None:
    for number, name in enumerate(names):
        first = names.index(name) == number
        check(first, f"{place}[{number}].name", f"two {what} are called {name!r}")
