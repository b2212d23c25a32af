"""Messages that a session makes of its own state: who it is, and what its clock shows."""

from __future__ import annotations

from collections.abc import Sequence

from edge_agent import messages as m
from edge_agent import wire
from edge_agent.sequence import Numbers
from edge_agent.settings import Delivery, SessionSettings
from edge_agent.timesync import SyncReport
from edge_agent.unacked import Outgoing, Unacked


def hello_message(
    settings: SessionSettings,
    streams: Sequence[m.StreamSchema],
    numbers: Numbers,
    acked: Sequence[int],
    can: tuple[str, ...],
) -> m.Hello:
    """The first message of a connection; ``acked``: the next number to be acked, of the controls
    and of each stream.
    """
    declared = tuple(
        m.HelloStream(schema, numbers.first_seq, done)
        for schema, done in zip(streams, acked[1:], strict=True)
    )
    return m.Hello(
        site=settings.site,
        source=settings.source,
        token=settings.token,
        incarnation=numbers.incarnation,
        resend=settings.delivery is Delivery.RESEND,
        control_acked=acked[0],
        streams=declared,
        start=numbers.start,
        can=can,
    )


class SyncReports:
    """Results of time sync on their way up. Control number ``first`` is the first one."""

    def __init__(self, unacked: Unacked, first: int = 0) -> None:
        self._unacked = unacked
        self._first = first
        self._newest: Outgoing | None = None

    def put(self, report: SyncReport, control_next: int, ended: bool) -> int:
        """Sends ``report``; one before it that is still unsent is said anew, in its place.

        Gives the next control number; ``ended``: no more of them may be taken.
        """
        waiting = self._newest
        if waiting is not None and waiting.tries == 0 and not waiting.done:
            self._unacked.replace(waiting, wire.encode(_sync_message(waiting.first, report)))
            return control_next
        if waiting is not None and ended:
            return control_next
        number = self._first if waiting is None else control_next
        data = wire.encode(_sync_message(number, report))
        self._newest = self._unacked.add(m.CONTROL, number, 1, data, urgent=waiting is None)
        return control_next + (waiting is not None)


def _sync_message(number: int, report: SyncReport) -> m.Sync:
    """A round's result under control number ``number``; offset positive = the source is slow."""
    return m.Sync(
        number=number,
        offset=report.offset_ns,
        delay=report.delay_ns,
        measured_at=report.measured_at_ns,
        precision=report.precision_ns,
        skew_error_ppb=report.skew_error_ppb,
    )
