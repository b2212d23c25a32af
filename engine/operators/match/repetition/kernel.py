"""Host of the kernel of repetition: keeps its stacks, hands it its arrays, makes them larger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.core.released import Strings
from slackwater.engine.core.timeline import Steps
from slackwater.engine.kernels.records import FAR, longer, numbers_of
from slackwater.engine.operators.match.compiled.records import EVENT
from slackwater.engine.operators.match.repetition import construction as c
from slackwater.engine.operators.match.repetition.compiled import (
    CHOICE,
    EVENT_OF,
    LEVEL,
    LINK,
    MARK,
    READING,
    ROLES,
    RUN,
    STANDING,
    RepeatLayout,
    SearchState,
    made_kinds,
)
from slackwater.engine.operators.match.search.construction import DONE, DOUBT, STACKS_FULL
from slackwater.engine.operators.match.search.host import KernelHost
from slackwater.engine.operators.match.settings import Rule
from slackwater.engine.operators.match.store import Store
from slackwater.engine.query.purge_settings import MATCHES_MAX

_LEAST: Final = 1 << 10
_LINKS: Final = 8
"""Events of runs by event; runs that find no room are walked. What is not used takes no memory."""
_EVENTS: Final = 320
"""Of the matches of a call, by match that one event may complete."""


class FoundRuns(NamedTuple):
    """What events do to matches: RUN, the EVENT_OF of all of them, DOUBT."""

    found: np.ndarray
    path: np.ndarray
    doubts: np.ndarray


class RepeatKernel(KernelHost):
    """Host of ``engine.operators.match.repetition.construction``: a stack for each partition.

    Args:
        repeat: of the query.
        rule: how uncertain the order of two events is.
        keep_ns: how long beyond its ref an event is kept, or None.
        most: matches that one event may complete or change.
    """

    state_fields = ("_state", "_chosen", "_ended")

    def __init__(
        self, repeat: RepeatLayout, rule: Rule, keep_ns: int | None, most: int = MATCHES_MAX
    ) -> None:
        super().__init__(repeat.layout, repeat.setting.copy(), rule, keep_ns, most)
        self._repeat = repeat
        self._chosen, self._ended = np.empty(0, CHOICE), np.empty(0, np.int64)
        self._forget()
        self._forget_runs(0)
        room = min(_LEAST, most)
        self._runs = FoundRuns(
            np.empty(room, RUN), np.empty(4 * room, EVENT_OF), np.empty(room, DOUBT)
        )

    def _kinds_read(self, kinds: np.ndarray) -> np.ndarray:
        return made_kinds(self._repeat.tables, kinds)

    def counters(self) -> dict[str, int]:
        """As of ``Kernel``."""
        moved = int(self.stacks.used["moved"][0])
        return {"stack_moves": moved, "looked_at": int(self._state["looked"][0])}

    def choose_again(self, store: Store, first: int, strings: Strings, *, wider: bool) -> FoundRuns:
        """What SKIP and LIMIT choose, but for what stays, in the partitions that the rows from
        ``first`` on name, which are no events. ``wider``: events err by more than when they came.
        """
        self._state["again"] = wider
        self.reopen()
        found = self._search(c.choose_again, store, first, store.n, strings)
        self._state["again"] = 0
        return found

    def construct(
        self,
        store: Store,
        first: int,
        strings: Strings,
        promised: dict[str, Steps] | None = None,  # noqa: ARG002 - the horizon of rows has them
    ) -> FoundRuns:
        """What the rows of ``store`` from ``first`` on do to matches; good until the next call.

        Raises:
            OverBudget: there are more matches than there may be.
        """
        return self._search(c.construct, store, first, store.n, strings)

    def take_in(self, store: Store, first: int, stop: int, strings: Strings) -> None:
        """As ``engine.operators.match.search.host.Kernel.take_in``."""
        self._state["quiet"] = 1
        self._search(c.construct, store, first, stop, strings)
        self._state["quiet"] = 0

    def _search(
        self, go_through: Callable[..., tuple[int, int]], store: Store, first: int, stop: int,
        strings: Strings,
    ) -> FoundRuns:  # fmt: skip
        """What a kernel finds of the rows from ``first`` up to ``stop``."""
        tables = self._repeat.tables
        now, places = self._state[0], ROLES * len(tables.steps)
        now["found_n"] = now["path_n"] = now["doubts_n"] = 0
        now["inserted"] = first - 1
        programs = self._compiled(store.kinds, strings)
        self._lengthen(store.n)
        numbers_of(self._chosen)[first : store.n], self._ended[first : store.n] = 0, FAR
        registers = len(store.registers.raw)
        made = (
            np.full(places, -1), np.zeros((registers, places), np.int64),
            np.zeros((registers, places), np.bool_), np.zeros(places, EVENT), np.arange(places),
            made_kinds(tables, store.kinds),
            np.zeros(store.n + 1, LEVEL), np.zeros(store.n + 1, READING),
            np.zeros(store.n + 1, EVENT_OF),
        )  # fmt: skip
        ready = np.zeros(store.n + 1, np.int64)
        if self._links["row"][0] > len(self._links) // 2:
            self._forget_runs(len(self._standing))
        while True:
            first, why = go_through(
                SearchState(
                    tables, self._state, store.events, *store.registers, programs, self._ranks,
                    self.stacks, *made, self._chosen, self._ended, self._marks, self._standing,
                    self._links, ready, self._taken, self._own, *self._runs,
                ),
                first, stop,
            )  # fmt: skip
            if why == DONE:
                n, path, doubts = (int(now[name]) for name in ("found_n", "path_n", "doubts_n"))
                found = self._runs
                if n > self._budget.most:
                    self._budget.check(found.found["cause"][:n])
                return FoundRuns(found.found[:n], found.path[:path], found.doubts[:doubts])
            if why == STACKS_FULL:
                left, known = stop - first, int(self.stacks.used["stacks"][0])
                marks, own = self._marks, self._own
                # What is not used takes no memory.
                self._restack(store, left, 4 * left + 64)
                self._forget()
                numbers_of(self._marks)[:known] = numbers_of(marks)[:known]
                self._own[:known] = own[:known]
            else:
                self._runs = self._with_room()

    def _lengthen(self, events: int) -> None:
        """Room for what is known of so many events."""
        if len(self._chosen) < events:
            self._chosen = longer(self._chosen, 2 * events)
            never = np.full(2 * events, FAR)
            never[: len(self._ended)] = self._ended
            self._ended = never
            self._forget_runs(2 * events)

    def _with_room(self) -> FoundRuns:
        """What is found, with more room for what had none."""
        found, path, doubts = self._runs
        if self._state["lacks_path"][0]:
            most = _EVENTS * self._budget.most
            if len(path) >= most:
                raise self._budget.exceeded(f"its matches have more than {most:,} events together")
            return FoundRuns(found, longer(path, min(4 * len(path), most)), doubts)
        found_n = int(self._state["found_n"][0])
        room = self._budget.larger(len(found), found["cause"][:found_n])
        return FoundRuns(longer(found, room), path, longer(doubts, room))

    def _forget(self) -> None:
        """Forgets what is known of stacks; the next look computes it again."""
        self._marks = np.zeros(len(self.stacks.stack), MARK)
        self._own = np.zeros((len(self._marks), 2 * int(self._state["keys"][0])), np.int64)

    def _forget_runs(self, events: int) -> None:
        """And so is what is known of runs; there is room for those of so many events."""
        self._standing = np.zeros(events, STANDING)
        self._marks["seen"] = 0
        self._links = np.empty(_LINKS * events + 1, LINK)
        self._links["row"][0] = 0
        self._taken = np.empty((events, int(self._state["steps"][0])), np.int64)

    def reopen(self) -> None:
        """Any match may go on, as its events err by more than was known."""
        self._ended[:] = FAR
        self._forget()
        self._forget_runs(len(self._standing))

    def renumber(self, number: np.ndarray, store: Store) -> None:
        super().renumber(number, store)
        self._lengthen(len(number))
        kept_rows = number >= 0
        chosen = numbers_of(self._chosen)[: len(number)][kept_rows]
        self._chosen = chosen.view(CHOICE).reshape(len(chosen))
        self._ended = self._ended[: len(number)][kept_rows]
        self._forget()
        self._forget_runs(len(self._ended))

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._forget()
        self._forget_runs(len(self._ended))
