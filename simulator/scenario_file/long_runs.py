"""Hints before a run that takes long: how long, for what, and what would shorten it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from slackwater.edge_agent.settings import SessionSettings
from slackwater.edge_agent.units import NS_PER
from slackwater.simulator.cost import EVENT_S, FRAME_S, LOOK_S, MESSAGE_S, Cost, cost_of
from slackwater.simulator.scenario import Scenario
from slackwater.simulator.scenario_file.recording import RecordedEvents

LONG_S: Final = 60
"""Of processor time; quicker runs have no hint."""
LARGE_BYTES: Final = 2 << 30
SHARE: Final = 0.1
"""A part below this share of the whole is not worth a change."""
ACK_TIMEOUT_NS: Final = SessionSettings(source="any").ack_timeout_ns
_UNITS: Final = ("ns", "us", "ms", "s", "min", "h", "d")
_SPANS: Final = (("days", 86_400), ("h", 3_600), ("min", 60))


def run_time_hints(scenario: Scenario) -> list[str]:
    """Lines about a run of ``scenario`` that takes long, or much memory; else none.

    And about acks that come so late that nobody waits for them, as frames are made larger for less.
    """
    cost, found = cost_of(scenario), []
    if scenario.gateway.frame_every_ns >= ACK_TIMEOUT_NS:
        found.append(
            f"gateway.frame_every is {_span(scenario.gateway.frame_every_ns)}, and agents wait "
            f"{_span(ACK_TIMEOUT_NS)} for acks, which come with a frame: they connect again and "
            "resend everything; let it be shorter"
        )
    if cost.seconds > LONG_S:
        unit, length = next(each for each in _SPANS if cost.seconds >= each[1])
        found.append(
            f"a run takes about {cost.seconds / length:.1f} {unit} of processor time, for "
            f"{_counts(cost)}; shorter with {', or '.join(_shorter(scenario, cost))}"
        )
    if cost.bytes > LARGE_BYTES:
        found.append(
            f"a run takes about {cost.bytes / 1e9:.1f} GB of memory, for "
            f"{_number(cost.events)} events and {_number(cost.lines)} periods of wandering clocks; "
            f"less with {', or '.join(_smaller(scenario, cost))}"
        )
    return found


def _counts(cost: Cost) -> str:
    counts = {
        "events": cost.events,
        "heartbeats and their acks": cost.heartbeats,
        "datagrams of the time sync": cost.exchanges,
        "frames of the log": cost.frames,
    }
    return ", ".join(f"{_number(count)} {name}" for name, count in counts.items() if count)


def _shorter(scenario: Scenario, cost: Cost) -> list[str]:
    """Settings to change for less time, with their present values."""
    place, sources = scenario.gateway, scenario.sources
    found = _fewer(scenario)
    if FRAME_S * cost.frames > SHARE * cost.seconds:
        if place.tick_every_ns:
            found.append(_longer("gateway.tick_every", [place.tick_every_ns]))
        found.append(_longer("gateway.frame_every", [place.frame_every_ns]))
    if MESSAGE_S * cost.heartbeats > SHARE * cost.seconds:
        found.append(_longer("heartbeat", (each.heartbeat_ns for each in sources)))
    if MESSAGE_S * cost.exchanges > SHARE * cost.seconds:
        found.append(_longer("sync.resync", (each.sync.resync_ns for each in sources)))
    if LOOK_S * cost.looks > SHARE * cost.seconds:
        found.append(_longer("sync.watch", (each.sync.watch_ns for each in sources)))
    if MESSAGE_S * cost.others + EVENT_S * cost.events > SHARE * cost.seconds:
        found.append("fewer events")
    return found


def _smaller(scenario: Scenario, cost: Cost) -> list[str]:
    """As ``_shorter``, for less memory."""
    found = _fewer(scenario)
    if cost.lines > cost.events:
        periods = [each.clock.wander_period_ns for each in scenario.sources]
        found.append(_longer("clock.wander_period", periods))
    return found


def _fewer(scenario: Scenario) -> list[str]:
    """The setting that reduces everything."""
    found = [f"a shorter duration (now {_span(scenario.duration_ns)})"]
    if any(isinstance(each.workload, RecordedEvents) for each in scenario.sources):
        found.append("recording.only, recording.speed")
    return found


def _longer(name: str, now_ns: Iterable[int]) -> str:
    return f"a longer {name} (now {_span(min(each for each in now_ns if each))})"


def _span(length_ns: int) -> str:
    """A duration with three digits."""
    unit = next(name for name in reversed(_UNITS) if NS_PER[name] <= max(length_ns, 1))
    return f"{length_ns / NS_PER[unit]:.3g} {unit}"


def _number(count: int) -> str:
    """A number with two digits; the estimate has no more."""
    return f"{count / 1e6:,.1f} million" if count >= 10**6 else f"{float(f'{count:.2g}'):,.0f}"
