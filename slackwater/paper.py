"""The contract between ``slackwater paper`` and a paper (one folder under ``scenarios/papers/``).

A paper is a list of reproductions, one per published table or figure. Each makes its own data, runs
the engine over it, and returns our numbers next to the published ones, and for every claim of the
paper whether it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from slackwater.engine.apps.report.page.figures import COLOURS, Figure, digits, log_axis
from slackwater.engine.scenario import Claim, Table

__all__ = [
    "COLOURS",
    "Advanced",
    "Figure",
    "Finding",
    "Paper",
    "PaperRun",
    "Reproduction",
    "digits",
    "joined",
    "log_axis",
]

Advanced = Callable[[int], None]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of one reproduction. A claim that does not hold is a result, not an error."""

    claims: tuple[Claim, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Numbers for the JSON file (and for tests)."""
    not_judged: Mapping[str, str] = field(default_factory=dict)
    """Claims that the run cannot decide, and why; they are not in ``claims``."""


class PaperRun:
    """One call of ``slackwater paper``: its seed and scale, and data that reproductions share.

    ``scale``: share of the published sizes, in (0, 1]. ``folder``: temporary. ``watched``: shows
    progress of a step; yields the function that takes the number of records.
    """

    def __init__(
        self,
        seed: int,
        scale: float,
        folder: Path,
        watched: Callable[[str], AbstractContextManager[Advanced]],
    ) -> None:
        self.seed = seed
        self.scale = scale
        self.folder = folder
        self.watched = watched
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The result of ``make``, which is called once per ``key``."""
        if key not in self._made:
            self._made[key] = make()
        made: _T = self._made[key]
        return made


@dataclass(frozen=True, slots=True)
class Reproduction:
    """One published table or figure: its title, and the function that reproduces it."""

    title: str
    make: Callable[[PaperRun], Finding]


@dataclass(frozen=True, slots=True)
class Paper:
    """A reproduced paper. A module of ``scenarios.papers`` exposes ``paper() -> Paper``.

    ``setting``: what a reader must know before the numbers, by subject: what was rebuilt, what the
    paper leaves open, what the names in the tables mean. ``reproductions``: by name, as
    ``table-5.6``. ``summary``: returns a sentence on the findings, or an empty text. ``parts``: of
    a long paper, by name, as ``ch4``; each can be reproduced separately (see ``joined``).
    ``sizes``: description of the data sets' sizes at scale 1.
    """

    title: str
    citation: str
    setting: Mapping[str, str]
    reproductions: Mapping[str, Reproduction]
    summary: Callable[[Mapping[str, Finding]], str] = lambda _findings: ""
    parts: Mapping[str, Paper] = field(default_factory=dict)
    sizes: str = "the published sizes"


def joined(title: str, citation: str, parts: Mapping[str, Paper]) -> Paper:
    """A paper of ``parts``, each with its own reproductions, subjects and summary."""

    def summary(findings: Mapping[str, Finding]) -> str:
        said = (
            part.summary({name: findings[name] for name in part.reproductions if name in findings})
            for part in parts.values()
        )
        return " ".join(each for each in said if each)

    return Paper(
        title,
        citation,
        setting={
            f"{name}: {subject}": text
            for name, part in parts.items()
            for subject, text in part.setting.items()
        },
        reproductions={
            name: each for part in parts.values() for name, each in part.reproductions.items()
        },
        summary=summary,
        parts=parts,
    )
