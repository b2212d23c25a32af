"""What a scenario file says, checked: the parts that ``simulator.scenario`` does not have.

``[clock]`` and ``[link]`` at the top are for every source; a source's own ones win, key by key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from slackwater.edge_agent.errors import near_miss
from slackwater.engine.core.errors import UserError
from slackwater.simulator.clocks import ClockSettings, Step
from slackwater.simulator.links import LinkSettings
from slackwater.simulator.scenario_file.generated import GENERATED
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.settings import (
    check,
    parse,
    parse_many,
    parse_model,
    parsed_by,
    value_text,
)
from slackwater.simulator.workload import Workload

MODEL: Final = "model"
_WAYS: Final = ("up", "down")
COUNT_MAX: Final = 10_000


def parse_texts(value: object, place: str) -> tuple[str, ...]:
    """A list of texts.

    Raises:
        UserError: it is not.
    """
    texts = isinstance(value, Sequence) and not isinstance(value, str)
    if not texts or not all(isinstance(each, str) for each in value):  # type: ignore[attr-defined]
        how = f"; write [{json.dumps(value, ensure_ascii=False)}]" if isinstance(value, str) else ""
        raise UserError(f"{place}: expected a list of texts, found {value_text(value)}{how}")
    return tuple(value)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupClock:
    """Clocks of one group of sources.

    Attributes:
        offset_ns: engine's clock minus the source's at the start; positive: the source is slow.
        offset_spread_ns: each source's own, evenly drawn up to this to either side of ``offset``.
        skew_ppm: how much slower than true time a clock runs; 20 ppm are 20 us a second.
        skew_ppm_spread: each source's own, evenly drawn up to this to either side.
        wander_ppb: standard deviation of the frequency's change in each ``wander_period``.
        wander_period_ns: how often the frequency changes.
        steps: jumps: ``{ at = "10 s", by = "1 s" }``, positive: the clock is set back.
        resolution_ns: to which readings are floored.
        generator: name of the random generator from which all sources that name it draw their
            places in the spreads, first all offsets, then all skews; None: each has its own.
        in_pairs: of a shared ``generator``: each source draws its offset and then its skew.
    """

    offset_ns: int = 0
    offset_spread_ns: int = 0
    skew_ppm: float = 0.0
    skew_ppm_spread: float = 0.0
    wander_ppb: float = 0.0
    wander_period_ns: int = 10**9
    steps: tuple[Step, ...] = field(
        default=(), metadata=parsed_by(lambda value, place: parse_many(Step, value, place))
    )
    resolution_ns: int = 1
    generator: str | None = None
    in_pairs: bool = False

    def __post_init__(self) -> None:
        check(self.offset_spread_ns >= 0, "offset_spread", "must not be negative")
        check(self.skew_ppm_spread >= 0, "skew_ppm_spread", "must not be negative")
        most = abs(self.skew_ppm) + self.skew_ppm_spread
        check(most <= 250_000, "skew_ppm", "beyond 25 % with its spread")
        shared = self.generator is not None or not self.in_pairs
        check(shared, "in_pairs", "goes with a generator that several sources share")
        self.drawn(0.0, 0.0)

    def drawn(self, offset: float, skew: float) -> ClockSettings:
        """The clock of one source: both from -1 to 1, where in the spreads it lies."""
        return ClockSettings(
            offset_ns=self.offset_ns + round(offset * self.offset_spread_ns),
            skew_ppb=round(1000 * (self.skew_ppm + skew * self.skew_ppm_spread)),
            wander_ppb=self.wander_ppb,
            wander_period_ns=self.wander_period_ns,
            steps=self.steps,
            resolution_ns=self.resolution_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """How the log is answered.

    Attributes:
        order: as of ``slackwater query --order``.
        barrier: as of ``--barrier``; None: as each query's REALTIME says.
        clock: as of ``--clock``, of clocks without a sync; none: they are unknown.
        answers_after_ns: what a live engine and its disk take from a closed frame to its answers.
    """

    order: str = "sequence"
    barrier: str | None = None
    clock: tuple[str, ...] = field(default=("exact",), metadata=parsed_by(parse_texts))
    answers_after_ns: int = 0

    def __post_init__(self) -> None:
        check(self.answers_after_ns >= 0, "answers_after", "must not be negative")


QUERIES: Final = 'queries, NAME = "EVENT SEQ(...)"'
FILES: Final = 'files, NAME = "tags.csv"'


def parse_texts_by_name(value: object, what: str, place: str) -> dict[str, str]:
    """``what``, such as ``QUERIES``, by name.

    Raises:
        UserError: not a table of texts.
    """
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
        raise UserError(f"{place}: write a table of {what}")
    return dict(value)


def merged(general: Mapping[str, Any], specific: Mapping[str, Any]) -> dict[str, Any]:
    """``general``, overridden by ``specific``; a table of another ``model`` replaces the whole.

    >>> merged({"up": {"loss": 0.1, "delay": "1 ms"}}, {"up": {"loss": 0}})
    {'up': {'loss': 0, 'delay': '1 ms'}}
    """
    found = dict(general)
    for key, value in specific.items():
        there = found.get(key, ())
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        found[key] = merged(there, value) if both and _same_model(there, value) else value
    return found


def _same_model(there: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return bool(MODEL not in value or value[MODEL] == there.get(MODEL))


def parse_links(table: object, place: str) -> tuple[LinkSettings, LinkSettings]:
    """Both directions, up and down, of a table ``link``.

    What it says is for both, its tables ``up`` and ``down`` for one. ``delay`` may be a bare
    duration; ``jitter`` is the mean of what is added to it, exponentially drawn. Unless the table
    says otherwise, a link is TCP's: ``reliable``.

    Raises:
        UserError: an unknown setting, or a value out of its range.
    """
    if not isinstance(table, Mapping):
        raise UserError(f"{place}: expected a table of settings, found {value_text(table)}")
    known = (*(each.name.removesuffix("_ns") for each in fields(LinkSettings)), "jitter", *_WAYS)
    for key in table:
        how = f"known are {', '.join(known)}{near_miss(key, known)}"
        check(key.removesuffix("_ns") in known, f"{place}.{key}", f"unknown setting; {how}")
    both = {key: value for key, value in table.items() if key not in _WAYS}
    found = []
    for direction in _WAYS:
        way = table.get(direction, {})
        if not isinstance(way, Mapping):
            raise UserError(
                f"{place}.{direction}: expected a table of settings, found {value_text(way)}"
            )
        spot = f"{place}.{direction}" if direction in table else place
        found.append(_parse_link(merged(both, way), spot))
    return found[0], found[1]


def _parse_link(table: Mapping[str, Any], place: str) -> LinkSettings:
    values = {"reliable": True, **table}
    delay = values.get("delay", 0)
    more = parse(_Jitter, {"jitter": values.pop("jitter", 0)}, place).jitter_ns
    if isinstance(delay, Mapping):
        if more:
            raise UserError(
                f"{place}.jitter: goes with a bare delay, and this delay is a table with a law of "
                "its own; leave the jitter out, or make it 0"
            )
    elif isinstance(delay, int | float | str):
        least = parse(_Delay, {"delay": delay}, place).delay_ns
        values["delay"] = (
            {MODEL: "exponential", "min_ns": least, "mean_ns": least + more}
            if more
            else {MODEL: "constant", "delay_ns": least}
        )
    return parse(LinkSettings, values, place)


@dataclass(frozen=True, slots=True)
class _Delay:
    delay_ns: int

    def __post_init__(self) -> None:
        check(self.delay_ns >= 0, "delay", "must not be negative")


@dataclass(frozen=True, slots=True)
class _Jitter:
    jitter_ns: int

    def __post_init__(self) -> None:
        check(self.jitter_ns >= 0, "jitter", "must not be negative")


def clocks_of(named: Mapping[str, GroupClock], seeds: Seeds) -> dict[str, ClockSettings]:
    """The clock of each source, drawn out of the spreads of its group."""
    together: dict[str, list[str]] = {}
    for name, group in named.items():
        together.setdefault(group.generator or f"clock of {name}", []).append(name)
    found = {}
    for generator_name, names in together.items():
        generator = seeds.generator(generator_name)
        pairs = [named[name].in_pairs for name in names]
        check(
            len(set(pairs)) == 1, "clock.in_pairs",
            f"sources of the generator {generator_name!r} say it differently",
        )  # fmt: skip
        shape = (len(names), 2) if pairs[0] else (2, len(names))
        drawn = generator.uniform(-1, 1, shape)
        places = (drawn if pairs[0] else drawn.T).tolist()
        for name, (offset, skew) in zip(names, places, strict=True):
            found[name] = named[name].drawn(offset, skew)
    return found


def parse_workload(
    value: object, place: str, worlds: Mapping[str, type[Any]] | None = None
) -> Workload:
    """A made-up workload: a table with ``model``; ``worlds``: more models than the plain ones.

    Raises:
        UserError: an unknown model or setting.
    """
    found: Workload = parse_model({**GENERATED, **(worlds or {})}, value, place)
    return found
