"""What the slow twin keeps of one (source, stream): plain dicts, lists and sets of numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from slow_clock import Epoch
from slow_timeout import FixedTimeout

INFINITE = 2**63 - 1
NEVER = -INFINITE
IN_ORDER, RESIDUAL, LATE, LATE_DROPPED = 0, 1, 2, 3
JUMP = 2**18
COUNTERS = (
    "arrived", "in_order", "residual", "late_passed", "late_dropped", "duplicate",
    "quarantined_future", "quarantined_jump", "missing_total", "missing_filled",
    "residual_dropped", "earlier_start", "silences", "blocked_ns", "backwards", "backwards_ns",
)  # fmt: skip


@dataclass
class Event:
    """One event on its way; ``deadline`` once it is buffered."""

    source: str
    stream: str
    inc: int
    seq: int
    ts: int
    arrival: int
    clock: str = ""
    deadline: int = INFINITE
    ref: int = 0
    unc: int = 0
    epoch: Epoch | None = None
    late: bool = False


@dataclass
class Marker:
    """A punctuation or end of stream that waits for the numbers below ``seq``."""

    seq: int
    deadline: int
    ts: int = 0
    clock: str = ""


@dataclass
class Lane:
    """One (source, stream)."""

    source: str
    stream: str
    timeout: FixedTimeout
    inc: int = 0
    expected: int = 0
    announced: tuple[int, int] | None = None
    front: tuple[int, int] | None = None  # the smallest number, where none is announced; its time
    buffer: dict[int, Event] = field(default_factory=dict)
    held: list[Event] = field(default_factory=list)
    taken: set[tuple[int, int]] = field(default_factory=set)
    missing: set[tuple[int, int]] = field(default_factory=set)
    far: int | None = None
    promises: list[Marker] = field(default_factory=list)  # at most two
    end: Marker | None = None
    queue: list[Event] = field(default_factory=list)
    idle: bool = False
    closed: bool = False
    bound: int = NEVER
    last_low: int | None = None
    top_ref: int = NEVER
    last_arrival: int | None = None
    started: bool = False
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))

    @property
    def markers(self) -> list[Marker]:
        return self.promises + ([self.end] if self.end else [])

    def heard(self, now: int) -> None:
        """Something of it arrived."""
        if self.last_arrival is not None and not self.closed:
            self.counts["silences"] += now > self.last_arrival + self.timeout.idle
        self.last_arrival, self.idle = now, False

    def gap_deadline(self) -> int:
        waiting = [event.deadline for event in self.buffer.values()]
        waiting += [marker.deadline for marker in self.markers]
        return min(waiting, default=INFINITE)

    def idle_deadline(self) -> int:
        if self.queue or self.idle or self.closed or self.last_arrival is None:
            return INFINITE
        return self.last_arrival + self.timeout.idle

    def deadline(self) -> int:
        return min(self.gap_deadline(), self.idle_deadline())
