"""NTP questions to the gateway, in trains: delay each way, loss and order of the path. Sans-IO.

Questions are as the agent's own (``edge_agent.timesync``): authenticated where there is a token,
known again by their cookies. Loss and order need no more than the four times of each exchange: what
was sent later and received earlier was reordered on the way there, and likewise on the way back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from edge_agent import ntp
from edge_agent.clock import Now
from edge_agent.errors import NtpRefused
from edge_agent.measure.findings import Exchange
from edge_agent.ntp import NtpKey

_ORIGIN: Final = slice(24, 32)
_REPLIES_KEPT: Final = 1_000_000


class _Answered(NamedTuple):
    number: int
    at_ns: int
    came_ns: int
    times: ntp.Exchange
    precision_ns: int


class PathProbe:
    """Makes questions and takes answers; ``precision_ns`` is of the device's clock."""

    def __init__(
        self, cookie: Callable[[], int], precision_ns: int, key: NtpKey | None = None
    ) -> None:
        self._cookie = cookie
        self._precision_ns = precision_ns
        self._key = key
        self._waiting: dict[int, tuple[int, Now]] = {}
        self._answered: list[_Answered] = []
        self._sent = 0
        self.stratum: int | None = None
        self.refused: Counter[str] = Counter()
        """Reason -> answers that were not believed."""

    def question(self, now: Now) -> bytes:
        """The next question, to be sent at once."""
        cookie = self._cookie() % (1 << 64) or 1
        self._waiting[cookie] = (self._sent, now)
        self._sent += 1
        made = ntp.request(cookie)
        return made if self._key is None else self._key.signed(made)

    def received(self, data: bytes, now: Now) -> None:
        """A datagram came; what is no good answer is counted."""
        try:
            packet = data if self._key is None else self._key.packet(data)
            # What is none of ours is refused as an answer to cookie 0, which is never given.
            origin = int.from_bytes(packet[_ORIGIN], "big")
            cookie = origin if origin in self._waiting else 0
            answer = ntp.read_answer(packet, cookie, now.wall_ns)
        except NtpRefused as refused:
            self.refused[refused.reason] += 1
            return
        if cookie not in self._waiting:
            self.refused["origin"] += 1
            return
        number, sent = self._waiting.pop(cookie)
        times = ntp.Exchange(sent.wall_ns, answer.t2, answer.t3, now.wall_ns)
        precision_ns = self._precision_ns + answer.precision_ns
        if answer.t3 < answer.t2 or times.delay_ns < -precision_ns:
            self.refused["negative_delay"] += 1
            return
        self.stratum = answer.stratum
        if len(self._answered) < _REPLIES_KEPT:
            self._answered.append(_Answered(number, sent.mono_ns, now.mono_ns, times, precision_ns))

    def late(self, mono_ns: int, timeout_ns: int) -> int:
        """Questions without an answer whose time was up by ``mono_ns``: lost, for all we know."""
        return sum(mono_ns - sent.mono_ns >= timeout_ns for _, sent in self._waiting.values())

    @property
    def sent(self) -> int:
        """Questions so far."""
        return self._sent

    @property
    def answers(self) -> int:
        """Good answers so far."""
        return len(self._answered)

    def exchanges(self) -> tuple[Exchange, ...]:
        """In the order of asking."""
        return tuple(
            Exchange(
                at_ns=each.at_ns,
                offset_ns=each.times.offset_ns,
                # A coarse clock may read no time passed at all: that is covered by its precision.
                delay_ns=max(each.times.delay_ns, 0),
                precision_ns=each.precision_ns,
                up_ns=each.times.t2 - each.times.t1,
                down_ns=each.times.t4 - each.times.t3,
            )
            for each in sorted(self._answered)
        )

    def reordered(self) -> tuple[int, int]:
        """Packets that an earlier one was overtaken by: on the way there, and on the way back."""
        by_sending = sorted(self._answered)
        by_answering = sorted(self._answered, key=lambda each: (each.times.t3, each.number))
        return (
            _overtaken([each.times.t2 for each in by_sending]),
            _overtaken([each.came_ns for each in by_answering]),
        )


def _overtaken(times: Sequence[int]) -> int:
    """How many come before one that stands before them (L10 4.3.1).

    >>> _overtaken([1, 2, 5, 3, 4, 6])
    2
    """
    newest, count = -(1 << 63), 0
    for each in times:
        count += each < newest
        newest = max(newest, each)
    return count
