"""Attributes that queries name and no event has had so far; chains check those that are there."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

from engine.chain import ChainSettings
from engine.errors import UserError
from engine.log.files.retired import retired
from engine.log.following import frames_after
from engine.log.frame_rules import attribute_types
from engine.log.saved_state import load, save
from engine.query import check_attributes
from engine.query.derived_schema import attributes_of_log
from engine.query.plan import Plan
from engine.stream.frame import ATTR_PREFIX, Frame


class AttributeWatch:
    """Notes the attributes of events until it has seen all that plans name.

    Args:
        settings: with the plans.
        known: types of attributes seen before, as in ``known`` of an earlier watch.
    """

    def __init__(self, settings: ChainSettings, known: dict[str, str]) -> None:
        self._plans = settings.plans
        self._named = frozenset(settings.looked_at).union(*map(attributes_of_log, self._plans))
        self.known = known

    @property
    def is_open(self) -> bool:
        """Whether something has not been seen."""
        return not self._named <= self.known.keys()

    def see(self, frames: Iterable[Frame]) -> None:
        """Frames that come next."""
        if not self.is_open:
            return
        for frame in frames:
            for column, kind in attribute_types(frame.batch).items():
                if column.startswith(ATTR_PREFIX):
                    name = column.removeprefix(ATTR_PREFIX)
                    self.known.setdefault(name, kind)

    def missing(self) -> list[str]:
        """What a plan names and no event has had, in words, a line for each plan."""
        return [line for plan in self._plans if (line := _missing(plan, self.known))]


class LogWatch:
    """An ``AttributeWatch`` that looks at the log's files itself, as on Spark no frame comes by.

    Args:
        settings: with the plans.
        log: the arrival log.
        state: file in which it keeps what it has seen.
        done: number of the log's last file that was looked at before.
    """

    def __init__(self, settings: ChainSettings, log: Path, state: Path, done: int) -> None:
        known = load(state) if done else {}
        self._log = log
        self._state = state
        self._saw_all = known is not None
        self._watch = AttributeWatch(settings, dict(known or {}))

    def see(self, done: int, number: int) -> None:
        """Files behind ``done`` up to ``number`` come next; looked at while there is something to
        be found.

        Raises:
            OSError: a file cannot be read, or what was seen not be kept.
        """
        if not self._watch.is_open:
            return
        before = dict(self._watch.known)
        files = frames_after(self._log, max(done, retired(self._log).upto), number)
        for frames, _ in takewhile(lambda _: self._watch.is_open, files):
            self._watch.see(frames)
        if self._watch.known != before:
            save(self._state, self._watch.known)

    def missing(self) -> list[str]:
        """As of ``AttributeWatch``; nothing where a part of the log was never looked at."""
        return self._watch.missing() if self._saw_all else []


def _missing(plan: Plan, known: dict[str, str]) -> str:
    if attributes_of_log(plan) <= known.keys():
        return ""
    try:
        check_attributes(plan, known)
    except UserError as error:
        return f"query {plan.name}: {str(error).splitlines()[0]}"
    return ""
