"""The terms of the conservation table, in the order in which an event meets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Term:
    """One column of the table: a count of events."""

    key: str
    heading: str
    definition: str


BEFORE: Final = (
    Term("generated", "generated", "happened on the device"),
    Term("made", "intervals made", "by the agents, of readings (interval abstraction)"),
    Term("abstracted", "in intervals", "readings that are not sent: intervals stand for them"),
    Term("refused_by_agent", "refused by agent", "its queue was full, or the record was invalid"),
    Term("forgotten", "forgotten", "gone at a restart before the agent polled them"),
    Term("not_polled", "not polled", "the run was over before the agent looked"),
    Term("accepted", "numbered", "given a sequence number by the agent"),
    Term("entered", "sent", "entered the network; an event that is sent again counts again"),
    Term("copied", "duplicated", "extra copies that the network made"),
    Term("lost", "lost", "lost by the network"),
    Term("cut", "cut off", "entered the network during an outage"),
    Term("queue_dropped", "queue full", "dropped by the network's queue"),
    Term("left", "came out", "came out of the network, copies included"),
    Term("closed", "closed", "came out on a connection that was closed already"),
    Term("under_way", "under way", "still in the network when the run ended"),
    Term("delivered", "delivered", "given to the gateway"),
    Term("known", "already known", "duplicates that the gateway dropped (resent or copied)"),
    Term("refused_by_gateway", "refused by gateway", "broke a rule; kept with the dead letters"),
    Term("unheard", "unheard", "in messages for which the gateway closed the connection"),
    Term("logged", "logged", "written to the arrival log"),
    Term("never_logged", "never logged", "numbered by the agent, and not in the arrival log"),
)
PASS: Final = (
    Term("arrived", "arrived", "read from the arrival log by the engine"),
    Term("in_order", "in order", "released in order of reference time"),
    Term("residual", "residual", "released although a later ref had been released before"),
    Term("late_passed", "late passed", "arrived after their place was given up; passed on"),
    Term("late_dropped", "late dropped", "arrived after their place was given up; dropped"),
    Term("residual_dropped", "residual dropped", "dropped: a later ref had been released before"),
    Term("duplicate", "duplicates dropped", "their number had been released already"),
    Term("quarantined_future", "quarantined (future)", "ref lies impossibly far after arrival"),
    Term("quarantined_jump", "quarantined (jump)", "number impossibly far ahead of its lane"),
    Term("released", "released", "rows of the ordered stream that go on to the queries"),
    Term("missing_total", "given up", "numbers that the order stopped waiting for"),
    Term("missing_filled", "filled late", "given up, and arrived after all"),
    Term("missing", "missing", "given up, and never arrived"),
)
LINK_TERMS: Final = ("entered", "copied", "lost", "cut", "queue_dropped", "left")
LANE_COUNTERS: Final = (
    "arrived", "in_order", "residual", "late_passed", "late_dropped", "residual_dropped",
    "duplicate", "quarantined_future", "quarantined_jump", "missing_total", "missing_filled",
)  # fmt: skip
HEADINGS: Final[Mapping[str, str]] = {
    **{term.key: term.heading for term in (*BEFORE, *PASS)},
    "truth_rows": "rows of the truth",
    "dropped_rows": "dropped rows of the ordered stream",
}


@dataclass(frozen=True, slots=True)
class Equation:
    """Sums that must be equal; with ``at_most``, the left one must not exceed the right one."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    at_most: bool = False

    @property
    def text(self) -> str:
        """In the words of the table."""
        sides = (" + ".join(HEADINGS[key] for key in side) for side in (self.left, self.right))
        return (" ≤ " if self.at_most else " = ").join(sides)

    def sums(self, counts: Mapping[str, Any]) -> tuple[int, int] | None:
        """(left, right), or None where a term is not known."""
        if any(counts.get(key) is None for key in (*self.left, *self.right)):
            return None
        left, right = (sum(counts[key] for key in side) for side in (self.left, self.right))
        return left, right

    def off(self, left: int, right: int) -> int:
        """By how much the sums disagree: left minus right, 0 = balanced."""
        return max(left - right, 0) if self.at_most else left - right


BEFORE_EQUATIONS: Final = (
    Equation(
        ("generated", "made"),
        ("accepted", "refused_by_agent", "forgotten", "abstracted", "not_polled"),
    ),
    Equation(("generated",), ("truth_rows",)),
    Equation(("entered", "copied"), ("left", "lost", "cut", "queue_dropped")),
    Equation(("left",), ("delivered", "closed", "under_way")),
    Equation(("delivered",), ("logged", "known", "refused_by_gateway", "unheard")),
    Equation(("accepted",), ("logged", "never_logged")),
)
PASS_EQUATIONS: Final = (
    Equation(("logged",), ("arrived",)),
    Equation(
        ("arrived",),
        (
            "in_order", "residual", "late_passed", "late_dropped", "residual_dropped",
            "duplicate", "quarantined_future", "quarantined_jump",
        ),
    ),
    Equation(("released",), ("in_order", "residual", "late_passed")),
    Equation(("dropped_rows",), ("late_dropped", "residual_dropped")),
    Equation(("missing_filled",), ("missing_total",), at_most=True),
    # What never came through its lane as an event of its own number can be found missing at most.
    Equation(
        ("missing",),
        ("never_logged", "duplicate", "quarantined_future", "quarantined_jump"),
        at_most=True,
    ),
)  # fmt: skip
