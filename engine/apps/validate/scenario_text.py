"""A scenario file with the measured clocks and links, to simulate and sweep."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from slackwater.edge_agent.settings import Delivery, SessionSettings
from slackwater.engine.apps.validate.quality import (
    AgentHabits,
    ClockQuality,
    DelayLaw,
    LinkQuality,
    Setup,
    SourceQuality,
    recovery_ns,
)
from slackwater.engine.apps.validate.tables import Validation
from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.query.fields import named_attributes
from slackwater.engine.query.plan import Plan

# Settings of an agent that its simulated twin must share, as keys of a scenario file.


_NS: Final = "_ns"


def habits_of(session: SessionSettings) -> AgentHabits:
    """Settings of an agent that sends its inputs' events at once (``poll`` 0), as all inputs do."""
    source = {
        "connections": str(session.connections),
        "resend": "true" if session.delivery is Delivery.RESEND else "false",
        "poll": '"0 ns"',
        "heartbeat": f'"{session.heartbeat_ns} ns"',
        "heartbeat_lag": f'"{session.heartbeat_lag_ns} ns"',
    }
    sync = {}
    for field in fields(session.sync):
        value = getattr(session.sync, field.name)
        name = field.name.removesuffix(_NS)
        sync[name] = f'"{value} ns"' if name != field.name else str(value)
    return AgentHabits(source, sync, session.connections)


# A scenario file with the measured clocks and links, to simulate and sweep (``slackwater run``).
#
# Each source has its measured clock, and its link the delay distribution that fits the measurements
# of each way. Losses are known for whole round trips only: half of them are assumed each way. The
# effect of a loss in TCP depends on the rate of messages. If one device represents all, three of
# its kind are generated. Events cannot be measured from outside: they come from a given recording,
# or from a plain periodic workload that the user should replace.


_STAND_INS: Final = 3
_PERIOD_NS: Final = 10**9
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_SKEW_MAX_PPM: Final = 500.0


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Periods of a site's gateway: silence until a tick (0: none), and limits of a frame.

    ``answers_after_ns``: time from a closed frame to its answers; None: unknown.
    """

    tick_every_ns: int
    frame_every_ns: int
    frame_rows: int
    answers_after_ns: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedSources:
    """Events of the sources, from a recording. ``file``: its name in the scenario file;
    ``gaps_ns``: mean time between a source's events, by source.
    """

    file: str
    gaps_ns: Mapping[str, float]


def scenario_text(
    found: Validation, plans: Sequence[Plan], order: str, barrier: str | None,
    recorded: RecordedSources | None = None, rhythm: Rhythm | None = None,
) -> str:  # fmt: skip
    """Return the file as TOML.

    Args:
        found: the measurements.
        plans: plans of its queries.
        order: short form, as in ``slackwater query``.
        barrier: likewise; None: as in each query's REALTIME.
        recorded: events of the sources; None: placeholders. The recording determines the duration.
        rhythm: of the site's gateway; None: the defaults.
    """
    setup = found.setup
    thresholds = [f"uncertain <= {100 * found.requirements.uncertain:g} %"]
    lines = [
        f"# Clocks and links as measured by slackwater validate ({_comment(found.looked_at)}).",
        "# What the sources see is recorded."
        if recorded
        else "# The workloads are stand-ins: replace them by your own, or by a recording.",
        f"title = {_text(f'As measured: {found.looked_at}')}",
        "seed = 1",
        *([] if recorded else ['duration = "2 min"']),
        f"thresholds = {_texts(thresholds if plans else [])}",
    ]
    types, attrs = _types(plans), _attributes(plans)
    for number, source in enumerate(setup.sources):
        lines += ["", *_source(source, setup, recorded)]
        if recorded is None:
            lines += _stand_in(source, setup, number, types, attrs)
    if rhythm is not None:
        lines += [
            "", "[gateway]", f"tick_every = {_ns(rhythm.tick_every_ns)}",
            f"frame_every = {_ns(rhythm.frame_every_ns)}", f"frame_rows = {rhythm.frame_rows}",
        ]  # fmt: skip
    if plans:
        lines += ["", "[queries]", *(f"{_key(plan.name)} = {_text(plan.text)}" for plan in plans)]
    lines += ["", "[engine]", f"order = {_text(order)}"]
    if barrier:
        lines.append(f"barrier = {_text(barrier)}")
    if rhythm is not None and rhythm.answers_after_ns is not None:
        lines.append(f"answers_after = {_ns(rhythm.answers_after_ns)}")
    return "\n".join(lines) + "\n"


def _source(source: SourceQuality, setup: Setup, recorded: RecordedSources | None) -> Iterator[str]:
    yield "[[sources]]"
    yield f"name = {_text(_NAME.sub('-', source.name))}"
    if setup.alike and recorded is None:
        yield f"count = {_STAND_INS}"
    if source.habits is not None:
        yield from (f"{key} = {value}" for key, value in source.habits.source.items())
    elif source.link is not None and source.link.lost and not source.link.resends:
        yield "resend = false"
    if recorded is not None:
        yield "[sources.recording]"
        yield f"file = {_text(recorded.file)}"
        if not setup.alike:
            yield f"only = {_texts([source.name])}"
    yield "[sources.clock]"
    yield from _clock(source.clock, alike=setup.alike)
    if source.habits is not None:
        yield "[sources.sync]"
        yield from (f"{key} = {value}" for key, value in source.habits.sync.items())
    if source.link is not None and source.link.laws is not None:
        yield from _laws(source.link, source.link.laws, _gap_ns(source, setup, recorded))
    elif source.link is not None:
        yield "[sources.link]"
        yield from _link(source.link)


def _gap_ns(source: SourceQuality, setup: Setup, recorded: RecordedSources | None) -> float | None:
    """Mean time between two messages of one connection; None: long."""
    if recorded is None or not recorded.gaps_ns:
        return None
    gaps = recorded.gaps_ns
    gap = sum(gaps.values()) / len(gaps) if setup.alike else gaps.get(source.name)
    connections = 1 if source.habits is None else source.habits.connections
    return None if gap is None else gap * connections


def _stand_in(
    source: SourceQuality, setup: Setup, number: int, types: Sequence[str], attrs: Sequence[str]
) -> Iterator[str]:
    source_types = source.types or types
    yield "[sources.workload]"
    yield 'model = "periodic"'
    period = source.period_ns or _PERIOD_NS
    yield f"period = {_ns(period)}"
    # Separate from one another, and from the borders of windows.
    phase = period * (number + 1) // (len(setup.sources) + 2)
    yield f"phase = {_ns(phase)}"
    yield f"type = {_texts(source_types) if len(source_types) != 1 else _text(source_types[0])}"
    stream = source.streams[0] if source.streams else "events"
    yield f"stream = {_text(stream)}"
    for name in attrs:
        yield f"attrs.{_key(name)} = 1"


def _clock(clock: ClockQuality, *, alike: bool) -> Iterator[str]:
    if clock.offset_ns is None:
        yield "# never synchronised: its offset is not known"
        yield 'offset_spread = "1 s"'
        return
    skew = min(abs(clock.skew_ppb or 0) / 1000, _SKEW_MAX_PPM)
    if alike:
        # Sources of its kind have errors of the same size, each a different one.
        yield f"offset_spread = {_ns(abs(clock.offset_ns))}"
        yield f"skew_ppm_spread = {skew:g}"
    else:
        yield f"offset = {_ns(clock.offset_ns)}"
        yield f"skew_ppm = {skew if (clock.skew_ppb or 0) >= 0 else -skew:g}"
    if clock.wander_ppb > 0:
        yield f"wander_ppb = {min(clock.wander_ppb, 10.0**6):g}"
    if clock.resolution_ns > 1:
        yield f"resolution = {_ns(clock.resolution_ns)}"


def _laws(
    link: LinkQuality, laws: tuple[DelayLaw, DelayLaw], gap_ns: float | None
) -> Iterator[str]:
    up, down = laws
    if link.lost:
        yield "[sources.link]"
        # Either the question or its answer is lost.
        yield f"loss = {1 - math.sqrt(1 - link.loss):.6f}"
        if link.resends:
            trip = up.mean_ns + down.mean_ns
            deviation = math.hypot(up.deviation_ns, down.deviation_ns)
            yield f"retransmit_timeout = {_ns(recovery_ns(trip, deviation, gap_ns))}"
        else:
            yield "reliable = false"
    for direction, law in (("up", up), ("down", down)):
        yield f"[sources.link.{direction}]"
        yield f"delay = {_law(law)}"


def _law(law: DelayLaw) -> str:
    if not law.sigma:
        return _ns(law.median_ns)
    return (
        f'{{ model = "lognormal", median = {_ns(law.median_ns)}, min = {_ns(law.min_ns)}, '
        f"sigma = {law.sigma:.4g} }}"
    )


def _link(link: LinkQuality) -> Iterator[str]:
    least = max(link.least_ns, 0)
    # The median of an exponential distribution is ln 2 times its mean above its minimum.
    jitter = max(round((link.p50_ns - link.least_ns) / 0.693147), 0)
    yield f"delay = {_ns(least)}"
    if jitter:
        yield f"jitter = {_ns(jitter)}"
    if link.lost:
        yield f"loss = {link.loss:.6f}"
        if not link.resends:
            yield "reliable = false"


def _types(plans: Sequence[Plan]) -> list[str]:
    """The event types in the patterns; if there are none, one."""
    named = [step.type for plan in plans for branch in plan.branches for step in branch.steps
             if step.type != ANY_TYPE]  # fmt: skip
    return list(dict.fromkeys(named)) or ["EVENT"]


def _attributes(plans: Sequence[Plan]) -> list[str]:
    """The attributes of events that the queries use."""
    return sorted(set().union(*(named_attributes(plan) for plan in plans)))


def _ns(duration_ns: int) -> str:
    return f'"{duration_ns} ns"'


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(text: str) -> str:
    """A basic string of TOML: JSON's escapes are valid in TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _texts(texts: Sequence[Any]) -> str:
    return f"[{', '.join(_text(str(each)) for each in texts)}]"


def _comment(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)
