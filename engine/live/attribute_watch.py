"""Attributes of queries against those that events turn out to have, as they come."""

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
from engine.order.served import check_order_attributes
from engine.query import check_attributes
from engine.query.derived_schema import attributes_of_log
from engine.query.plan import Plan
from engine.stream.frame import ATTR_PREFIX, Frame
from engine.stream.value_rules import joined_type


class AttributeWatch:
    """Each plan is checked once, as soon as all its attributes have been seen.

    Args:
        settings: with the plans.
        known: types of attributes seen before, as in ``known`` of an earlier watch.
    """

    def __init__(self, settings: ChainSettings, known: dict[str, str]) -> None:
        self._unchecked = list(settings.plans)
        self._by_order = settings.looked_at
        self.known = known
        self._check()

    @property
    def is_open(self) -> bool:
        """Whether something is still to be checked."""
        return bool(self._unchecked or self._by_order)

    def see(self, frames: Iterable[Frame]) -> None:
        """Frames that come next.

        Raises:
            UserError: a query, or the order, cannot be meant for attributes of such types.
        """
        if not self.is_open:
            return
        before = dict(self.known)
        for frame in frames:
            for column, kind in attribute_types(frame.batch).items():
                if column.startswith(ATTR_PREFIX):
                    name = column.removeprefix(ATTR_PREFIX)
                    self.known[name] = joined_type(self.known.get(name), kind) or kind
        if self.known != before:
            self._check()

    def missing(self) -> list[str]:
        """What a plan names and no event has had, in words, a line for each plan."""
        return [line for plan in self._unchecked if (line := _missing(plan, self.known))]

    def _check(self) -> None:
        for plan in list(self._unchecked):
            if attributes_of_log(plan) <= self.known.keys():
                check_attributes(plan, self.known)
                self._unchecked.remove(plan)
        if self._by_order and self._by_order.keys() <= self.known.keys():
            check_order_attributes(self._by_order, self.known)
            self._by_order = {}


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
            UserError: as ``AttributeWatch.see``.
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
    try:
        check_attributes(plan, known)
    except UserError as error:
        return f"query {plan.name}: {str(error).splitlines()[0]}"
    return ""
