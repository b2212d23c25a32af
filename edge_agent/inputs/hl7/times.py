"""Times of HL7 v2 (data types TS and DTM): ``YYYYMMDDHHMM[SS[.S...]][+/-ZZZZ]``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from edge_agent.inputs.hl7.message import Refused
from edge_agent.units import NS_PER

LOCAL: Final = "local"
_TIME: Final = re.compile(
    r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})"
    r"(?:([0-9]{2})(?:\.([0-9]{1,9}))?)?([+-][0-9]{4})?"
)
_ZONE: Final = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")


_LEAP: Final = 60


def instant_of(text: str, zone: tzinfo | None) -> int:
    """A time as ns since 1970; ``zone``: of times that name none (None: this device's).

    Second 60 is the begin of the next one.

    >>> instant_of("19700101010000.25+0100", UTC)
    250000000

    Raises:
        Refused: it is none, only a day or an hour, or there twice or never as clocks are turned.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise Refused("AE", 102, f"{text!r:.40} is no time to the minute (YYYYMMDDHHMM...)")
    *date, fraction, own = found.groups()
    year, month, day, hour, minute, second = (int(part or 0) for part in date)
    if is_leap(text):
        second, fraction = _LEAP - 1, None
    try:
        there = datetime(year, month, day, hour, minute, second, tzinfo=zone_of(own) or zone)
        seconds = int(there.timestamp())
        again = int(there.replace(fold=1).timestamp())
    except (ValueError, OverflowError) as error:
        raise Refused("AE", 102, f"{text!r:.40} is no time: {error}") from error
    if again != seconds:
        often = "twice" if seconds < again else "never"
        raise Refused(
            "AE",
            102,
            f"{text!r:.40} is there {often}, as clocks are turned: name its offset, as +0100",
        )
    seconds += is_leap(text)
    return seconds * NS_PER["s"] + int((fraction or "").ljust(9, "0"))


def resolution_of(text: str) -> int:
    """What a time is rounded down to [ns]; 0: it is none.

    >>> resolution_of("20260101120000.25"), resolution_of("202601011200")
    (10000000, 60000000000)
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return 0
    if found[7]:
        return int(NS_PER["s"] // 10 ** len(found[7]))
    return int(NS_PER["s" if found[6] else "min"])


def is_leap(text: str) -> bool:
    """Whether a time is of second 60."""
    found = _TIME.fullmatch(text)
    return found is not None and found[6] == str(_LEAP)


def zone_of(text: str | None) -> tzinfo | None:
    """The zone of an offset as ``+0100``; None: there is none, or it is no offset.

    Raises:
        ValueError: a day or more.
    """
    found = _ZONE.fullmatch(text or "")
    if found is None:
        return None
    offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return timezone(-offset if found[1] == "-" else offset)


def offset_of(time: str) -> tzinfo | None:
    """The zone that a time names; None: it names none, or is no time."""
    found = _TIME.fullmatch(time)
    try:
        return None if found is None else zone_of(found[8])
    except ValueError:
        return None  # who reads the time itself will refuse it


def named_zone(name: str) -> tzinfo | None:
    """The zone of a setting: ``local`` (None), ``Z``, ``+01:00``, or a name as ``Europe/Berlin``.

    Raises:
        KeyError, ValueError, OSError: no such zone here.
    """
    if name == LOCAL:
        return None
    if name in ("Z", "UTC"):
        return UTC
    return zone_of(name) or ZoneInfo(name)


def shown(ns: int) -> str:
    """An instant as a time of HL7, in UTC, to the millisecond.

    >>> shown(250_000_000)
    '19700101000000.250+0000'
    """
    seconds, rest = divmod(ns, NS_PER["s"])
    there = datetime.fromtimestamp(seconds, UTC)
    return f"{there:%Y%m%d%H%M%S}.{rest // NS_PER['ms']:03d}+0000"
