"""Chains in one process over a growing log, with answers within milliseconds.

The answers depend only on what is read from the log, and in which order. The state is saved
regularly: the chains, the last file read, and the position in the answers. After a kill the engine
continues from there; answers that it computes again are already written (``AnswerLines``).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX, Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings, ChunksOf
from slackwater.engine.hosts.chain.identity import identity_of
from slackwater.engine.hosts.chain.site_chain import SNAPSHOT_VERSION, failed_parts
from slackwater.engine.hosts.chain.state_bytes import StateDamagedError
from slackwater.engine.log.arrival_log import frames_after
from slackwater.engine.log.log_folder import retired
from slackwater.engine.log.record.record_rules import attribute_types
from slackwater.engine.log.whole_file import load, save
from slackwater.engine.operators.match.spill.chunks import (
    ChunksApart,
    ChunksGone,
    FileChunks,
    folder_of,
)
from slackwater.engine.output.durability import AGAIN, AnswersDamaged, EngineProgress
from slackwater.engine.output.run_writer import LiveAnswers, OutputPart, skipped
from slackwater.engine.query import check_attributes
from slackwater.engine.query.plan import Plan
from slackwater.engine.query.results_as_events import attributes_of_log

# Attributes that queries name and no event has had so far; chains check the known ones.


class AttributeWatch:
    """Collects the attributes of events until it has seen all that plans name.

    Args:
        settings: settings with the plans.
        known: types of attributes seen before, from ``known`` of an earlier watch.
    """

    def __init__(self, settings: ChainSettings, known: dict[str, str]) -> None:
        self._plans = settings.plans
        self._named = frozenset(settings.looked_at).union(*map(attributes_of_log, self._plans))
        self.known = known

    @property
    def is_open(self) -> bool:
        """Whether an attribute has not been seen yet."""
        return not self._named <= self.known.keys()

    def see(self, frames: Iterable[Frame]) -> None:
        """Look at the next frames."""
        if not self.is_open:
            return
        for frame in frames:
            for column, kind in attribute_types(frame.batch).items():
                if column.startswith(ATTR_PREFIX):
                    name = column.removeprefix(ATTR_PREFIX)
                    self.known.setdefault(name, kind)

    def missing(self) -> list[str]:
        """Return a line for each plan that names attributes no event has had."""
        return [line for plan in self._plans if (line := _missing(plan, self.known))]


class LogWatch:
    """An ``AttributeWatch`` that reads the log's files, as the driver of Spark gets no frames.

    Args:
        settings: settings with the plans.
        log: the arrival log.
        state: file for its state.
        done: number of the log's last file that an earlier watch has read.
    """

    def __init__(self, settings: ChainSettings, log: Path, state: Path, done: int) -> None:
        known = load(state) if done else {}
        self._log = log
        self._state = state
        self._saw_all = known is not None
        self._watch = AttributeWatch(settings, dict(known or {}))

    def see(self, done: int, number: int) -> None:
        """Look at the files after ``done`` up to ``number``, unless all attributes are known.

        Raises:
            OSError: a file cannot be read, or the state not written.
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
        """Return the lines of ``AttributeWatch``; empty if a part of the log was never read."""
        return self._watch.missing() if self._saw_all else []


def _missing(plan: Plan, known: dict[str, str]) -> str:
    if attributes_of_log(plan) <= known.keys():
        return ""
    try:
        check_attributes(plan, known)
    except UserError as error:
        return f"query {plan.name}: {str(error).splitlines()[0]}"
    return ""


# The chains of all sites, and their saved state.


_ROWS_AT_ONCE: Final = 1 << 16
_SHARE: Final = 20
"""Saving takes at most one part in this many of the time."""
_VERSION: Final = (3, SNAPSHOT_VERSION)
Tell = Callable[[str], None]
OpenAnswers = Callable[[dict[str, Any]], LiveAnswers]
"""Opens the answers from the result of ``LiveAnswers.state``, or an empty dict."""


@dataclass(frozen=True, slots=True)
class EnginePlace:
    """The log of an engine, its state file, and how often the state is saved.

    ``begin``: number of the last file of the log that it skips. ``files_at_once``: files that it
    reads before another engine's turn; None: there is no other.
    """

    log: Path
    state: Path
    save_every_s: float
    begin: int = 0
    files_at_once: int | None = None

    @property
    def chunks(self) -> Path:
        """Folder of spilled events."""
        return self.state.with_name(f"{self.state.name}.chunks")


class EmbeddedEngine:
    """The chains of all sites.

    Attributes:
        done: number of the log's file that was read last.
        saved: the same, in the state saved last: a restart needs the files after it.
    """

    def __init__(
        self, place: EnginePlace, settings: ChainSettings, open_answers: OpenAnswers, tell: Tell
    ) -> None:
        """Continue from the saved state, or begin."""
        self._place = place
        self._settings = settings
        self._progress = EngineProgress(place.state, place.log, identity_of(settings), _VERSION)
        self._tell = tell
        self._chains: dict[str, Chain] = {}
        self._stores: dict[str, dict[str, FileChunks]] = {}
        self._snapshots: dict[str, bytes] = {}
        self._changed: set[str] = set()
        self.done = self.saved = 0
        self._answers = self._opened(open_answers)
        self._saved_at = time.monotonic()
        self._saving_s = 0.0
        self._caught_up = False
        if self.done > self.saved:  # otherwise a restart would find answers without their beginning
            self.save()

    def _opened(self, open_answers: OpenAnswers) -> LiveAnswers:
        state = self._progress.load(self._tell)
        if state is not None:
            try:
                return self._gone_on(state, open_answers)
            except (AnswersDamaged, ChunksGone, StateDamagedError) as damaged:
                self._tell(f"{damaged}: {AGAIN}")
        answers = open_answers({})  # may be refused: then all stays
        shutil.rmtree(self._place.chunks, ignore_errors=True)
        self._chains.clear()
        self._snapshots.clear()
        self._watch = AttributeWatch(self._settings, {})
        self.done = skipped(self._place.log, self._place.begin, self._tell)
        return answers

    def _gone_on(self, state: dict[str, Any], open_answers: OpenAnswers) -> LiveAnswers:
        for site, snapshot in state["chains"].items():
            chunks = self._chunks(site)
            try:
                self._chains[site] = Chain.restored(self._settings, site, snapshot, chunks)
            except StateDamagedError as damaged:
                raise StateDamagedError(
                    f"{self._place.state}: the state of site {site!r} {damaged}"
                ) from damaged
        answers = open_answers(state["answers"])
        self._snapshots = dict(state["chains"])
        self._watch = AttributeWatch(self._settings, dict(state["attributes"]))
        self.done = self.saved = state["done"]
        return answers

    def _chunks(self, site: str) -> ChunksOf | None:
        """Return the stores of the site's spilled events: files next to the state."""
        if self._settings.spill is None:
            return None
        root = self._place.chunks
        stores = {
            plan.name: FileChunks(folder_of(root, site, plan.name), root)
            for plan in self._settings.plans
        }
        self._stores[site] = stores
        return stores.__getitem__

    def _apart(self, site: str) -> ChunksOf | None:
        """Return read-only views of these stores."""
        stores = self._stores.get(site)
        return None if stores is None else lambda query: ChunksApart(stores[query])

    def upto(self, number: int) -> None:
        """Process the log's files up to that number, or ``files_at_once`` of them.

        Raises:
            UserError: a file is damaged.
        """
        self.done = skipped(self._place.log, self.done, self._tell)
        most = self._place.files_at_once
        end = number if most is None else min(number, self.done + most)
        for frames, done in self._batches(end):
            self._process(frames)
            self.done = done
            self._save_if_due()
        if not self._caught_up and self.done >= number:
            self._caught_up = True
            self._answers.caught_up()
            for line in self._watch.missing():
                self._tell(f"warning: {line}, so far")

    def idle(self) -> None:
        """React to a time without input."""
        self._answers.idle()
        self._save_if_due()

    def close(self) -> None:
        """Write pending answers and the output for the end of the log; save the state.

        Raises:
            OSError: the state cannot be saved; the one saved before stays valid.
        """
        self.save()
        end: list[OutputPart] = []
        for site in sorted(self._snapshots):
            # The chain itself is not ended, as the log may continue.
            snapshot, chunks = self._snapshots[site], self._apart(site)
            end += Chain.restored(self._settings, site, snapshot, chunks).end_parts()
        self._answers.close(end)

    def save(self) -> None:
        """Save the state; everything it refers to is on disk.

        Raises:
            OSError: it cannot be saved; the one saved before stays valid.
        """
        begun = time.monotonic()
        changed = {site: self._chains[site] for site in self._changed}
        for site, chain in changed.items():
            self._snapshots[site] = chain.to_bytes()
            if failures := chain.new_failures():  # for example, out of memory
                self._answers.take(failed_parts(site, failures))
        self._changed.clear()
        self._progress.save(
            self.done,
            attributes=self._watch.known,
            answers=self._answers.state(),
            chains=self._snapshots,
        )
        self.saved = self.done
        self._saved_at = time.monotonic()
        self._saving_s = self._saved_at - begun
        self._answers.saved()

    def _batches(self, number: int) -> Iterator[tuple[list[Frame], int]]:
        """Yield frames of some files, and the number of the last of these."""
        waiting: list[Frame] = []
        rows = 0
        for found, last in frames_after(self._place.log, self.done, number):
            waiting += found
            rows += sum(frame.rows for frame in found)
            if rows >= _ROWS_AT_ONCE or last >= number:
                yield waiting, last
                waiting, rows = [], 0

    def _process(self, frames: list[Frame]) -> None:
        self._watch.see(frames)
        of_sites: dict[str, list[Frame]] = {}
        for frame in frames:
            of_sites.setdefault(frame.site, []).append(frame)
        for site, of_site in sorted(of_sites.items()):
            if site not in self._chains:
                self._chains[site] = Chain(self._settings, site, self._chunks(site))
            self._changed.add(site)
            for parts in self._chains[site].next_parts(of_site):
                self._answers.take(parts)

    def _save_if_due(self) -> None:
        every = max(self._place.save_every_s, _SHARE * self._saving_s)
        if self._changed and time.monotonic() - self._saved_at >= every:
            with suppress(OSError):  # reported where answers are written; the last state is valid
                self.save()
