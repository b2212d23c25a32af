"""The effect of when phones are announced: the same orders over two logs of the messages.

The recording does not say when a phone announced itself. The passes take its first event; here it
is set beside the recorded instant of its clock comparison, which is some 10 s earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from slackwater.log import LogWriter
from slackwater.measures import Measures, in_place
from slackwater.scenario import Score, Table
from slackwater.scenarios.orders import measure_sites, plain
from slackwater.scenarios.phones.importing import AT_SYNC, session_frames
from slackwater.scenarios.phones.recording import Session
from slackwater.scenarios.runs import NS_PER_MS
from slackwater.simulation import LOG, TRUTH

_OTHER: Final = "announced-at-sync"
_WHEN: Final = {"at its first event": LOG, "at the recorded sync": f"{TRUTH}/{_OTHER}"}


def write_other_log(directory: Path, sessions: Iterable[Session]) -> None:
    """The messages with each phone announced at its recorded clock comparison."""
    with LogWriter(directory / TRUTH / _OTHER) as log:
        for session in sessions:
            for frame in session_frames(session, AT_SYNC):
                log.append(frame)


def score_announcing(directory: Path, orders: Mapping[str, str]) -> Score:
    """A table of both, and its numbers; no claims.

    Args:
        directory: of the run.
        orders: labels of passes, and their orders in short form.

    Returns:
        ``facts``: per instant, ``out_of_place``: messages that were not released in their place,
        by label; ``measured``: all numbers.
    """
    found = {
        when: measure_sites(directory / log, tuple(orders.values())) for when, log in _WHEN.items()
    }
    rows = [
        _row(site, when, each)
        for site in found["at its first event"]
        for when, sites in found.items()
        for each in sites[site]
    ]
    table = Table(
        "When the phones are announced",
        ("session", "each phone announced", "order", "in place", "residual or late [events]",
         "dropped [events]", "held p50 [ms]", "held p99 [ms]", "held at most [ms]"),
        tuple(rows),
        "The merge waits for a phone from its announcement on. If the phone is announced at its "
        "first event, the merge waits until its first message comes. If it is announced at its "
        "recorded clock comparison, some 10 s before, it is idle again by then, and messages that "
        "overtake its first ones are released. The claims are for the first.",
    )  # fmt: skip
    facts: dict[str, Any] = {
        when: {
            "out_of_place": {
                label: sum(_out_of_place(of[number]) for of in sites.values())
                for number, label in enumerate(orders)
            },
            "measured": {site: plain(of) for site, of in sites.items()},
        }
        for when, sites in found.items()
    }
    return Score((), (table,), {"announced": facts})


def _row(site: str, when: str, each: Measures) -> tuple[str | int | float, ...]:
    spans_ns = (each.hold.p50_ns, each.hold.p99_ns, each.hold.max_ns)
    spans_ms = (round(span_ns / NS_PER_MS, 3) for span_ns in spans_ns)
    return (site, when, each.order, in_place(each), each.late, each.dropped, *spans_ms)


def _out_of_place(each: Measures) -> int:
    return each.arrived - each.duplicates - each.in_place
