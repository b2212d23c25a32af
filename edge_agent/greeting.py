"""Messages that a session makes of its own state: who it is, and what its clock shows."""

from __future__ import annotations

from collections.abc import Sequence

from edge_agent import messages as m
from edge_agent.sequence import Numbers
from edge_agent.settings import Delivery, SessionSettings
from edge_agent.timesync import SyncReport


def hello_message(
    settings: SessionSettings,
    streams: Sequence[m.StreamSchema],
    numbers: Numbers,
    control_acked: int,
    acked: Sequence[int],
) -> m.Hello:
    """The first message of a connection; ``acked``: per stream the next number to be acked."""
    declared = tuple(
        m.HelloStream(schema, numbers.first_seq, done)
        for schema, done in zip(streams, acked, strict=True)
    )
    return m.Hello(
        site=settings.site,
        source=settings.source,
        token=settings.token,
        incarnation=numbers.incarnation,
        resend=settings.delivery is Delivery.RESEND,
        control_acked=control_acked,
        streams=declared,
    )


def sync_message(number: int, report: SyncReport) -> m.Sync:
    """A round's result under control number ``number``; offset positive = the source is slow."""
    return m.Sync(
        number=number,
        offset=report.offset_ns,
        delay=report.delay_ns,
        measured_at=report.measured_at_ns,
        precision=report.precision_ns,
        skew_error_ppb=report.skew_error_ppb,
    )
