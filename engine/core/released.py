"""What flows from an ordering operator to the query operators: released events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct, field

from slackwater.edge_agent.records import UNC_MAX_NS
from slackwater.engine.kernels.records import NS_PER_S

if TYPE_CHECKING:
    from slackwater.engine.core.timeline import Moved


# Bound on the clock error of any source of a site, as operators and barriers use it.


LATEST: Final = 1 << 62
"""No reference time is later."""


class ClockBound(Struct, frozen=True):
    """At reference time t a clock of the site errs by at most ``at(t)`` [ns].

    That is ``unc_ns`` and, from ``since`` on, ``rate_ppb`` of the time that has gone by, or before
    ``until`` ``back_ppb`` of the time to there.
    """

    unc_ns: int = 0
    rate_ppb: int = 0
    since: int = 0
    back_ppb: int = 0
    until: int = -LATEST

    def at(self, ref: np.ndarray) -> np.ndarray:
        """The bound at int64 reference times, int64."""
        grown = _grown(np.clip(ref, self.since, LATEST) - self.since, self.rate_ppb)
        grown = np.maximum(grown, self.before(ref))
        return np.asarray(np.minimum(grown + self.unc_ns, UNC_MAX_NS))

    def before(self, ref: np.ndarray) -> np.ndarray:
        """By how much of it clocks may err as they were not synchronised yet [ns]."""
        return _grown(self.until - np.clip(ref, -LATEST, self.until), self.back_ppb)


def _grown(age: np.ndarray, rate_ppb: int) -> np.ndarray:
    # Whole seconds and the rest apart: their products with the rate stay within int64.
    if not rate_ppb:
        return np.zeros(age.shape, np.int64)
    return np.asarray(age // NS_PER_S * rate_ppb + age % NS_PER_S * rate_ppb // NS_PER_S)


# What flows from an ordering operator to the query operators: released events in columns.
#
# The contract between ``order/`` on one side and ``window/``, ``pattern/`` and the ordered
# output on the other. Query operators know nothing of how the order was made.


# Values of the ``status`` column.
IN_ORDER: Final = 0
RESIDUAL: Final = 1
"""Released although its ref lies below one already released (residual disorder)."""
LATE: Final = 2
"""Arrived after its place was given up, and passed on by choice."""
LATE_DROPPED: Final = 3
"""Late and dropped from the ordered stream; only corrections of closed results see it."""

NO_EPOCH: Final = -1


class Strings:
    """A site's string table: text <-> int32 code.

    A code never changes while it is in use, so columns of codes may be kept in state. A code no
    longer in use is assigned to another text in a new table (``without_unused``); the old table
    stays valid.

    Attributes:
        texts: by code; "" where the code is not in use.
        codes: of the texts in use.
        assignments: codes assigned so far, reused ones too; it grows with each new text.
        generation: how often unused codes were freed; what ``find`` returned holds for one only.
    """

    def __init__(self, texts: Sequence[str] = (), spare: Sequence[int] = ()) -> None:
        self.generation = 0
        self.restore((texts, spare))

    def restore(self, state: tuple[Sequence[str], Sequence[int]]) -> None:
        """Take over a snapshot: the texts by code, and the codes that are not in use."""
        texts, spare = state
        self.texts: list[str] = list(texts)
        self._spare = list(spare)
        self.codes = {text: code for code, text in enumerate(self.texts)}
        if self._spare:
            unused = set(self._spare)
            self.codes = {t: code for code, t in enumerate(self.texts) if code not in unused}
        self.assignments = len(self.texts)

    def code(self, text: str) -> int:
        """The code of ``text``; a new text gets one."""
        found = self.codes.get(text)
        if found is None:
            if self._spare:
                found = self._spare.pop()
                self.texts[found] = text
            else:
                found = len(self.texts)
                self.texts.append(text)
            self.codes[text] = found
            self.assignments += 1
        return found

    def find(self, text: str) -> int:
        """The code of ``text``, or -2 (which no column holds) when it has none."""
        return self.codes.get(text, -2)

    def text(self, code: int) -> str | None:
        """The text of ``code``; None for -1, which stands for null."""
        return None if code < 0 else self.texts[code]

    def without_unused(self, used: Sequence[np.ndarray | None]) -> Strings | None:
        """A table of the texts whose codes are among ``used``, and of the default stream.

        Texts keep their codes. None if an array of ``used`` is: its operator cannot list its codes.
        """
        live = np.zeros(len(self.texts), bool)
        live[0] = True
        for codes in used:
            if codes is None:
                return None
            live[codes[codes >= 0]] = True
        spare = np.flatnonzero(~live)[::-1].tolist()
        texts = [text if use else "" for text, use in zip(self.texts, live.tolist(), strict=True)]
        table = Strings(texts, spare)
        table.assignments, table.generation = self.assignments, self.generation + 1
        return table

    def snapshot(self) -> tuple[list[str], list[int]]:
        """Plain data."""
        return list(self.texts), list(self._spare)


_no_ints: Final = partial(np.empty, 0, np.int64)


class Progress(Struct):
    """Progress that no row shows: punctuations, end of stream.

    Step ``i`` says: after the first ``row[i]`` rows of this batch, at arrival-clock instant
    ``at[i]``, every later in-order event has ``ref >= frontier[i]``. Besides these steps, each
    row that is IN_ORDER moves the frontier to its own ``ref`` at its ``release``.
    """

    row: np.ndarray = field(default_factory=_no_ints)
    frontier: np.ndarray = field(default_factory=_no_ints)
    at: np.ndarray = field(default_factory=_no_ints)


class Promises(Struct):
    """Punctuations in a stream that is in no order (SPEC 4.2).

    Promise ``i`` comes after the first ``row[i]`` rows of the batch, at arrival-clock instant
    ``at[i]``: no later record of type ``type[i]`` and source ``source[i]`` (codes; -1 = any) has
    ref below ``ref[i]``.
    """

    row: np.ndarray = field(default_factory=_no_ints)
    type: np.ndarray = field(default_factory=_no_ints)
    source: np.ndarray = field(default_factory=_no_ints)
    ref: np.ndarray = field(default_factory=_no_ints)
    at: np.ndarray = field(default_factory=_no_ints)


class Gaps(Struct):
    """Runs of numbers given up as missing, known before row ``row[i]`` is released.

    Of the batch's progress steps, the first ``steps[i]`` came before gap ``i`` was known.

    ``count[i]`` events of ``source[i]``, ``stream[i]`` and ``incarnation[i]``, numbered from
    ``first_seq[i]``, that happened between ``low[i]`` and ``high[i]``: when their neighbours did,
    whatever their clock errs by; ``low`` is not above ``high``.
    """

    row: np.ndarray = field(default_factory=_no_ints)
    source: np.ndarray = field(default_factory=_no_ints)
    stream: np.ndarray = field(default_factory=_no_ints)
    incarnation: np.ndarray = field(default_factory=_no_ints)
    first_seq: np.ndarray = field(default_factory=_no_ints)
    count: np.ndarray = field(default_factory=_no_ints)
    low: np.ndarray = field(default_factory=_no_ints)
    high: np.ndarray = field(default_factory=_no_ints)
    steps: np.ndarray = field(default_factory=_no_ints)


class Refuted(Struct):
    """Bounds of clocks that were found too narrow, at arrival-clock instant ``at``, before the
    first row of the batch: an event arrived before it happened, or a sync contradicts those before
    it (SPEC 2, Causality and Rate).

    Events of ``clock[i]`` (a code) and offset ``epoch[i]``, stamped from ``first[i]`` to
    ``last[i]``, that were released before may err by ``by[i]`` more [ns] than they say. They
    happened between ``low[i]`` and ``high[i]``. ``epoch`` ``NO_EPOCH``: of any offset, as the clock
    was set; from now on they share their error with no other event.
    """

    clock: np.ndarray = field(default_factory=_no_ints)
    epoch: np.ndarray = field(default_factory=_no_ints)
    by: np.ndarray = field(default_factory=_no_ints)
    low: np.ndarray = field(default_factory=_no_ints)
    high: np.ndarray = field(default_factory=_no_ints)
    first: np.ndarray = field(default_factory=_no_ints)
    last: np.ndarray = field(default_factory=_no_ints)
    at: int = 0

    def and_more(self, at: int, *more: int) -> Refuted:
        """With a bound more; ``more``: its values, in order of the columns."""
        names = self.__struct_fields__[:-1]
        columns = {
            name: np.append(getattr(self, name), value)
            for name, value in zip(names, more, strict=True)
        }
        return Refuted(**columns, at=at)


class Released(Struct):
    """Events in release order, as equally long columns.

    ``columns`` holds, for ``n`` events: ``source clock stream type`` (int32 codes of ``strings``,
    -1 = null; ``clock``: the one that stamped it, the source's own where it is left out),
    ``seq incarnation ts te arrival`` (int64, at that clock), ``ref`` (event time on the engine's
    clock; of ``ts``), ``unc`` (uncertainty: half-width around ref, ns), ``epoch``
    (int64; two events of one source with equal epoch share one clock's error: it differs between
    them by no more than their uncertainties do; ``NO_EPOCH``: shared with none), ``release``
    (arrival-clock instant), ``status`` (int8, above), and per attribute ``attrs.NAME`` with, where
    some event lacks it, a bool mask ``valid.NAME``. String attributes are int32 codes.
    ``site`` (a code too) is there if a query names it. ``attr_types`` names each attribute's type:
    ``int float bool str``.
    ``t_a`` is the largest filtered delay of the site's sources (R19 Eq 3.16) in force here.
    Rows are sorted by ``release``; LATE and LATE_DROPPED rows fill gaps reported earlier.
    ``bound``: how wrong the clock of any source of the site may be, as far as is known here.
    ``promises``: the punctuations of a stream in no order; None: the stream is in order, and its
    progress is a promise for every type and source.
    ``slack``: what a slack K behind the event clock says, of an order that goes by one. K is a
    guess, no promise: windows close by it and can be corrected, nothing else goes by it.
    ``delays``: filtered delays of the synchronised sources [ns], for operators that ask why T_a is
    what it is; in no order.
    ``moved``: how the stream's clocks move with this batch, for operators that go by them.
    ``refuted``: by how much more events released before this batch may err.
    ``known_at``: by code of a clock, the arrival of the sync that made it known [ns]; ``LATEST``,
    or beyond the last: it is unknown.
    """

    n: int
    columns: dict[str, np.ndarray]
    attr_types: dict[str, str]
    strings: Strings
    t_a: int
    progress: Progress = field(default_factory=Progress)
    gaps: Gaps = field(default_factory=Gaps)
    promises: Promises | None = None
    bound: ClockBound = field(default_factory=ClockBound)
    slack: Progress = field(default_factory=Progress)
    delays: np.ndarray = field(default_factory=_no_ints)
    moved: Moved | None = None
    refuted: Refuted = field(default_factory=Refuted)
    known_at: np.ndarray = field(default_factory=_no_ints)

    def __post_init__(self) -> None:
        if "source" in self.columns:
            self.columns.setdefault("clock", self.columns["source"])
