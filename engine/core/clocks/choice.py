"""The user's statements about clocks: ``exact``, ``NAME=OFFSET±BOUND``, or a TOML file (SPEC 2)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import parse_duration

EXACT_WORD: Final = "exact"
_HOW: Final = (
    "write exact (one clock stamped everything), NAME=OFFSET±BOUND as in badge=-3.2s±0.1s (also "
    "+-; OFFSET is added to its times) or NAME=exact, or a TOML file with such lines"
)
_DECLARED: Final = re.compile(r"([+-]?)([^±+-]+)(?:(?:±|\+-|\+/-)(.+))?")


Lane = tuple[str, tuple[str | None, str | None, str | None, str | None]]
"""The clock of some events, and their clock, source, stream and type as queries read them; None:
any."""


class UpcomingClocks(NamedTuple):
    """Clocks known in advance for a site: events of these ``lanes`` will come; the clocks in
    ``synced`` have a sync before any event.
    """

    site: str
    lanes: tuple[Lane, ...]
    synced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClockChoice:
    """Statements about clocks without sync records.

    ``exact``: they are one clock, or agree; else they are unknown. ``declared``: (name, offset,
    bound) [ns]: this clock is ``offset`` behind, up to ``bound``, compared with the only undeclared
    clock, if there is no other. ``upcoming``: for a complete input.
    """

    exact: bool = True
    declared: tuple[tuple[str, int, int], ...] = ()
    upcoming: tuple[UpcomingClocks, ...] = ()


def read_clock(texts: str | Sequence[str], time_unit: str = "ns") -> ClockChoice:
    """Parse ``--clock``, which may be repeated; without it, clocks without a sync are unknown.

    Args:
        texts: ``exact``, ``NAME=OFFSET±BOUND``, or the name of a TOML file.
        time_unit: of durations without one.

    Raises:
        UserError: another text; the message has the syntax.
    """
    exact, declared = False, dict[str, tuple[int, int]]()
    for text in [texts] if isinstance(texts, str) else texts:
        if text == EXACT_WORD:
            exact = True
        elif "=" in text:
            name, _, value = text.rpartition("=")
            declared[name] = _offset(value, time_unit, f"--clock {text}")
        elif text.endswith(".toml"):
            file_exact, found = _file(Path(text), time_unit)
            exact |= file_exact
            declared |= found
        else:
            raise UserError(f"--clock {text}: {_HOW}")
    return ClockChoice(exact, tuple((name, *of) for name, of in sorted(declared.items())))


def _file(path: Path, time_unit: str) -> tuple[bool, dict[str, tuple[int, int]]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--clock {path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--clock {path}: no TOML: {error}") from error
    return read_table(content, time_unit, f"--clock {path}")


def read_table(
    table: dict[str, Any], time_unit: str, where: str
) -> tuple[bool, dict[str, tuple[int, int]]]:
    """Return (exact, offset and bound by name) of a TOML table such as ``badge = "-3.2s±0.1s"``.

    Raises:
        UserError: a line is invalid; the message names it.
    """
    exact, found = False, dict[str, tuple[int, int]]()
    for name, value in table.items():
        if name == EXACT_WORD and isinstance(value, bool):
            exact = value
        elif isinstance(value, str):
            found[name] = _offset(value, time_unit, f"{where}: {name}")
        else:
            raise UserError(f'{where}: {name} = {value!r}: write {name} = "-3.2s±0.1s"')
    return exact, found


def _offset(text: str, time_unit: str, where: str) -> tuple[int, int]:
    """Return (offset, bound) [ns] of ``-3.2s±0.1s``; the bound defaults to 0; ``exact`` is (0,
    0).
    """
    if text.strip() == EXACT_WORD:
        return 0, 0
    parts = _DECLARED.fullmatch(text.replace(" ", "").replace("\N{MINUS SIGN}", "-"))
    if parts is None:
        raise UserError(f"{where}: {_HOW}")
    sign, offset, bound = parts.groups()
    try:
        ns = parse_duration(offset, time_unit)
        return -ns if sign == "-" else ns, 0 if bound is None else parse_duration(bound, time_unit)
    except UserError as error:
        raise UserError(f"{where}: {error}; {_HOW}") from error
