"""How a page was made: the command to repeat, the date, the versions; the page's last section.

It stands on the page alone: the numbers beside it stay the same from run to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from engine.report.page.run_tables import versions_told
from engine.scenario import Table

CHAPTER: Final = {"run": "How it was made"}


@dataclass(frozen=True, slots=True)
class HowMade:
    """``command``: empty where none made it; ``made_at``: for people; ``facts``: a table."""

    command: str
    made_at: str
    facts: Table


def how_made(command: str, made_with: Mapping[str, str]) -> HowMade:
    """Of a page that is made now, by ``command``, with these versions."""
    made_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    rows = (("done on", made_at), ("made with", versions_told(made_with)))
    return HowMade(command, made_at, Table("", ("", ""), tuple(row for row in rows if row[1])))
