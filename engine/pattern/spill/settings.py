"""Settings of spilling, and their short form
``FOLDER[,hot=..,chunk=..,parts=..,pending=..,wait=..]``; ``state`` instead of a folder means the
state store of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.errors import UserError
from engine.units import DURATION_MAX_NS, parse_duration

_EXAMPLE: Final = "as in --spill /var/tmp/chunks,hot=10min,chunk=1min,pending=64,wait=10s"
STATE: Final = "state"
_DURATIONS: Final = {"hot": "hot_ns", "chunk": "chunk_ns", "wait": "wait_ns"}
_NUMBERS: Final = {"pending": ("of events", 10**9), "parts": ("of parts", 4096)}


@dataclass(frozen=True, slots=True)
class SpillSettings:
    """``folder``: of the chunks; None = the host's own place, or memory. ``hot_ns``: events are
    kept in memory this long behind progress. ``chunk_ns``: span of a chunk. ``pending`` late events
    of one chunk, or the oldest having waited ``wait_ns`` on the arrival clock, have the chunks
    loaded (L09 VIII's activation thresholds), one after another of ``parts`` by key.

    None: as ``engine.pattern.spill.bounds`` says for the query.
    """

    folder: Path | None = None
    hot_ns: int | None = None
    chunk_ns: int | None = None
    pending: int | None = None
    wait_ns: int | None = None
    parts: int | None = None


def parse_spill(text: str, time_unit: str = "ns") -> SpillSettings:
    """Settings from their short form.

    >>> parse_spill("/tmp/chunks,hot=1s,pending=5").hot_ns
    1000000000

    Args:
        text: a folder and, after commas, settings.
        time_unit: unit of durations written without one.

    Raises:
        UserError: no folder, an unknown or repeated setting, or a bad value; says which.
    """
    folder, *settings = (part.strip() for part in text.split(","))
    if not folder or "=" in folder:
        raise UserError(f"spill {text[:40]!r}: name the folder of the chunks first, {_EXAMPLE}")
    found: dict[str, int] = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or name not in (*_DURATIONS, *_NUMBERS):
            raise UserError(f"spill setting {setting[:40]!r} is unknown; write {_EXAMPLE}")
        field = _DURATIONS.get(name, name)
        if field in found:
            raise UserError(f"spill: {name} is given twice")
        found[field] = _value(name, value, time_unit)
    return SpillSettings(None if folder == STATE else Path(folder), **found)


def _value(name: str, value: str, time_unit: str) -> int:
    if name in _NUMBERS:
        what, most = _NUMBERS[name]
        if not (value.isascii() and value.isdecimal() and 0 < int(value) <= most):
            raise UserError(f"spill: {name}={value[:20]} is no number {what} from 1 to {most}")
        return int(value)
    try:
        span = parse_duration(value, time_unit)
    except UserError as error:
        raise UserError(f"spill: {name}={value[:20]}: {error}") from error
    if span > DURATION_MAX_NS:
        raise UserError(f"spill: {name}={value[:20]}: at most {DURATION_MAX_NS} ns")
    if span < 1 and name != "wait":
        raise UserError(f"spill: {name}={value[:20]}: must be longer than 0")
    return span
