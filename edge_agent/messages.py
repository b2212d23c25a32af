"""Messages between agent and gateway, and their limits: one class per message.

Every number of a stream is carried once by a ``Data`` message. Messages without a number in a
stream (``Promise``, ``Begin``, ``Sync``, ``Eos``) have one of their own, counted per
incarnation and called the *control number*, so that they too are acked and resent without being
recorded twice. Control number 0 is the first ``Sync``. Times are int64 ns at the source's clock.

The parts of a message of events are named tuples. There is one per attribute of each message, so
speed counts: they are built in a third of a frozen dataclass's time, and msgpack packs them as they
are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

PROTOCOL_VERSION: Final = 2
MESSAGE_MAX: Final = 1 << 20
"""Longest message [bytes] after its length prefix."""
HELLO_MAX: Final = 1 << 16
"""Longest first message of a connection, while the peer is unknown."""
ROWS_MAX: Final = 65_536
CELLS_MAX: Final = 1 << 21
"""Most rows times attributes with values: one text for all rows is a few bytes on the wire, but a
column in the log."""
NAME_MAX: Final = 200
"""Longest name of a site, source, stream, type or attribute [characters]."""
TEXT_MAX: Final = 4_096
"""Longest string value of an attribute, and of an error's detail [characters]."""
STREAMS_MAX: Final = 64
ATTRS_MAX: Final = 256
NAMES_MAX: Final = 4_096
"""Most entries of a column's dictionary. Also the longest array that msgpack may build: it makes
room for what an array *announces*, so nested empty announcements would cost memory."""
ATTR_TYPES: Final = ("int", "float", "bool", "str")
INTERVALS_MAX: Final = 256
"""Most intervals that one message requests or answers."""
CAPABILITIES_MAX: Final = 16
PULL_BACK: Final = "pull back"
"""Capability of an agent: it answers ``IntervalsRequest``."""
CLOCKS: Final = "clocks"
"""Capability of an agent and a gateway: events and syncs may name their clock."""
NUMBERS: Final = "numbers"
"""Capability of an agent: each event has a 64-bit number that no other event gets."""
CONTROL: Final = -1
"""Stands for the control numbers where a stream's index is expected."""


Packed = bytes
"""A column's little-endian elements."""


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """A stream of a source: its name, and the type of each attribute (``int float bool str``)."""

    name: str
    attrs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HelloStream:
    """``first_seq`` of this incarnation, and the number up to which the gateway has acked."""

    schema: StreamSchema
    first_seq: int
    acked: int


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of every connection: the source, its streams, and the acks it has received."""

    site: str
    source: str
    token: str
    incarnation: int
    resend: bool
    """Unacked messages will come again; else a gap in the numbers stays one."""
    control_acked: int
    streams: tuple[HelloStream, ...]
    start: int = 0
    """64 random bits, drawn at each start of the agent. They distinguish two starts with the same
    ``incarnation``, which happens when a disk or a clock was set back."""
    capabilities: tuple[str, ...] = ()
    """Capabilities beyond version 2; unknown words are ignored. Empty: not on the wire, as an older
    HELLO ends before this field."""
    version: int = PROTOCOL_VERSION


class Texts(NamedTuple):
    """A column of strings: int32 ``codes`` into ``names``, -1 = null; codes None: all names[0]."""

    names: list[str]
    codes: Packed | None


class Values(NamedTuple):
    """A column of numbers or bools, and one byte per row that is 0 where the value is null."""

    values: Packed
    valid: Packed | None


class Data(NamedTuple):
    """``rows`` events of a stream, numbered from ``first_seq``; columns are little-endian.

    ``ts te ids`` are int64; ``attrs`` has one entry per attribute of the schema, in its order,
    None where all rows are null. ``clocks``: names of the clocks that stamped the events, null:
    the source's own; not on the wire where it is None.
    """

    stream: int
    first_seq: int
    rows: int
    ts: Packed
    te: Packed | None
    ids: Packed | None
    types: Texts | None
    attrs: tuple[Values | Texts | None, ...]
    clocks: Texts | None = None


@dataclass(frozen=True, slots=True)
class Promise:
    """POG: no event numbered from ``next`` on, of ``type`` (None: any), has ts < ``ts``.

    ``streams`` are pairs of a stream's index and its next number when the promise was made.
    """

    number: int
    ts: int
    type: str | None
    streams: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """IBP: interval ``id`` (unique per source) of ``type`` began at ``ts``, by ``clock`` (as in
    ``Sync``).
    """

    number: int
    stream: int
    ts: int
    id: int
    type: str
    clock: str | None = None


@dataclass(frozen=True, slots=True)
class Sync:
    """Result of a round of time sync; ``offset``/``delay`` None: never synchronised.

    ``offset`` is the engine's clock minus the source's: positive = the source is slow. ``clock``:
    the clock that is measured, and that gives ``measured_at``; None: the source's own.
    """

    number: int
    offset: int | None
    delay: int | None
    measured_at: int
    precision: int
    skew_error_ppb: int
    clock: str | None = None


@dataclass(frozen=True, slots=True)
class Eos:
    """The source is done: the number after the last one of each stream."""

    number: int
    ts: int
    next_seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Welcome:
    """The gateway's answer to ``Hello``: the next number it expects, per stream and of controls.

    ``capabilities``: those of the agent that the gateway has, too; not on the wire if empty.
    """

    control_next: int
    next_seqs: tuple[int, ...]
    capabilities: tuple[str, ...] = ()
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class Ack:
    """Everything below these numbers is durable (or refused, counted and kept)."""

    control_next: int
    next_seqs: tuple[int, ...]


Intervals = tuple[tuple[int, int], ...]
"""Pairs of a stream's index and the id of an interval."""


@dataclass(frozen=True, slots=True)
class IntervalsRequest:
    """The gateway knows that these ``intervals`` began and does not have them (Z10 5.3.2)."""

    intervals: Intervals


@dataclass(frozen=True, slots=True)
class MissingIntervals:
    """Answer to ``IntervalsRequest`` about intervals that the agent cannot send now: ``unended``
    have not ended, ``unknown`` are no longer there. The agent sends the others again.
    """

    unended: Intervals
    unknown: Intervals


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """The gateway refuses and will close. ``retry``: trying again later may help.

    ``above``: of ``stale_incarnation``, the incarnation that the source's next HELLO must exceed.
    """

    reason: str
    detail: str
    retry: bool
    above: int | None = None


Control = Promise | Begin | Sync | Eos
Message = (
    Hello
    | Data
    | Promise
    | Begin
    | Sync
    | Eos
    | Welcome
    | Ack
    | ErrorMessage
    | IntervalsRequest
    | MissingIntervals
)
