"""Released events: the output of an ordering operator and the input of query operators."""

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


# Bound on the clock error of any source of a site, for operators and barriers.


LATEST: Final = 1 << 62
"""Larger than any reference time."""


class ClockBound(Struct, frozen=True):
    """The bound ``at(t)`` [ns] on the error of any clock of the site at reference time t.

    It is ``unc_ns``, growing from ``since`` on by ``rate_ppb`` of the time elapsed, and before
    ``until`` by ``back_ppb`` of the time left to it.
    """

    unc_ns: int = 0
    rate_ppb: int = 0
    since: int = 0
    back_ppb: int = 0
    until: int = -LATEST

    def at(self, ref: np.ndarray) -> np.ndarray:
        """Return the bound at int64 reference times, int64."""
        grown = _grown(np.clip(ref, self.since, LATEST) - self.since, self.rate_ppb)
        grown = np.maximum(grown, self.before(ref))
        return np.asarray(np.minimum(grown + self.unc_ns, UNC_MAX_NS))

    def before(self, ref: np.ndarray) -> np.ndarray:
        """Return the part of the bound for clocks that were not synchronised yet [ns]."""
        return _grown(self.until - np.clip(ref, -LATEST, self.until), self.back_ppb)


def _grown(age: np.ndarray, rate_ppb: int) -> np.ndarray:
    # Seconds and the remainder separately: their products with the rate fit into int64.
    if not rate_ppb:
        return np.zeros(age.shape, np.int64)
    return np.asarray(age // NS_PER_S * rate_ppb + age % NS_PER_S * rate_ppb // NS_PER_S)


# Released events in columns.
#
# This is the contract between ``order/`` on one side and ``operators/`` and the ordered output on
# the other. Query operators do not depend on how the order was made.


# Values of the ``status`` column.
IN_ORDER: Final = 0
RESIDUAL: Final = 1
"""Released although its ref is below one already released (residual disorder)."""
LATE: Final = 2
"""Arrived after its place was released, and passed on by option."""
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
        """Restore a snapshot: the texts by code, and the unused codes."""
        texts, spare = state
        self.texts: list[str] = list(texts)
        self._spare = list(spare)
        self.codes = {text: code for code, text in enumerate(self.texts)}
        if self._spare:
            unused = set(self._spare)
            self.codes = {t: code for code, t in enumerate(self.texts) if code not in unused}
        self.assignments = len(self.texts)

    def code(self, text: str) -> int:
        """Return the code of ``text``; a new text gets one."""
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
        """Return the code of ``text``, or -2 (which no column has) if it has none."""
        return self.codes.get(text, -2)

    def text(self, code: int) -> str | None:
        """Return the text of ``code``; None for -1, which stands for null."""
        return None if code < 0 else self.texts[code]

    def without_unused(self, used: Sequence[np.ndarray | None]) -> Strings | None:
        """Return a table of the texts with codes in ``used``, and of the default stream.

        Texts keep their codes. None if an array in ``used`` is None: its operator cannot list its
        codes.
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
        """Return plain data, for ``restore``."""
        return list(self.texts), list(self._spare)


_no_ints: Final = partial(np.empty, 0, np.int64)


class Progress(Struct):
    """Progress without rows: punctuations, end of stream.

    Step ``i``: after the first ``row[i]`` rows of this batch, at arrival-clock instant ``at[i]``,
    every later in-order event has ``ref >= frontier[i]``. In addition, each row that is IN_ORDER
    moves the frontier to its own ``ref`` at its ``release``.
    """

    row: np.ndarray = field(default_factory=_no_ints)
    frontier: np.ndarray = field(default_factory=_no_ints)
    at: np.ndarray = field(default_factory=_no_ints)


class Promises(Struct):
    """Punctuations in a stream without order (SPEC 4.2).

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
    """Runs of sequence numbers given up as missing, known before row ``row[i]`` is released.

    The first ``steps[i]`` progress steps of the batch precede the knowledge of gap ``i``.

    The ``count[i]`` events of ``source[i]``, ``stream[i]`` and ``incarnation[i]``, numbered from
    ``first_seq[i]``, happened between ``low[i]`` and ``high[i]``, the times of their neighbours
    widened by clock errors; ``low`` is not above ``high``.
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
    """Clock bounds that were found too narrow, at arrival-clock instant ``at``, before the first
    row of the batch: an event arrived before it happened, or a sync contradicts earlier ones (SPEC
    2, Causality and Rate).

    Released events of ``clock[i]`` (a code) and offset ``epoch[i]``, stamped from ``first[i]`` to
    ``last[i]``, may err by ``by[i]`` [ns] more than stated. They happened between ``low[i]`` and
    ``high[i]``. ``epoch`` ``NO_EPOCH``: any offset, as the clock was set; these events then share
    their error with no other event.
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
        """Return the bounds with one more; ``more``: its values, in order of the columns."""
        names = self.__struct_fields__[:-1]
        columns = {
            name: np.append(getattr(self, name), value)
            for name, value in zip(names, more, strict=True)
        }
        return Refuted(**columns, at=at)


class Released(Struct):
    """Events in release order, as equally long columns.

    Columns of ``n`` events: ``source clock stream type`` (int32 codes of ``strings``; -1: null;
    ``clock``: the clock of the event's times, by default the source's own), ``seq incarnation ts te
    arrival`` (int64, at that clock), ``ref`` (``ts`` on the engine's clock), ``unc`` (uncertainty:
    half-width around ``ref`` [ns]), ``epoch`` (int64; events of one source with the same epoch
    share their clock's error, which differs between them by at most their uncertainties;
    ``NO_EPOCH``: not shared), ``release`` (instant on the arrival clock), ``status`` (int8, above),
    and ``attrs.NAME`` for each attribute, with the bool mask ``valid.NAME`` if some event lacks it.
    Text attributes are int32 codes. ``site`` (codes) exists if a query names it. ``attr_types`` has
    each attribute's type: ``int float bool str``.
    Rows are sorted by ``release``; LATE and LATE_DROPPED rows fill gaps reported earlier.

    ``t_a``: the largest current filtered delay of the site's sources (R19 Eq 3.16) [ns].
    ``bound``: the largest possible clock error of any source of the site, as known here.
    ``promises``: punctuations of a stream without order; None: the stream is in order, and its
    progress is a promise for every type and source.
    ``slack``: progress of an order with a slack K behind the event clock. K is a guess, no promise:
    only windows use it, which can be corrected.
    ``delays``: filtered delays of the synchronised sources [ns], which explain T_a; unordered.
    ``moved``: changes of the stream's clocks by this batch.
    ``refuted``: additional errors of events that were released before this batch.
    ``known_at``: by clock code, the arrival of the sync that made the clock known [ns]; ``LATEST``
    or beyond the end: unknown.
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
