"""Records that the kernels of repetition read by name; each field is an int64."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.records import record
from engine.pattern.search.machine import Programs
from engine.pattern.search.stacks import Stacks

ROLES: Final = 5
"""Places of a step in what programs read: its event, the one before that, its first and its last
event, and what is collected of all. Those of step k begin at ``ROLES * k``."""
CUR: Final = 0
PREV: Final = 1
HEAD: Final = 2
TAIL: Final = 3
ALL_OF: Final = 4

REPEATED: Final = record(
    "least", "most", "negated", "until", "take_from", "take_to", "beside_from", "beside_to",
    "later", "counts_from", "counts_to",
)  # fmt: skip
"""A step. ``most``: a large number for any. ``until``: the bit of events that end it, or -1.
``take``: conditions asked when an event is taken as it. ``beside``: those asked of it and of all
events of the steps before it, of whole matches again. ``later``: bits of the steps that may
follow an event of it, itself too if it repeats. ``counts``: of a negated step, conditions on which
an event counts.
"""
ASKED_OF: Final = record("predicate", "clocked", "again", "each", "needs", "collects")
"""A condition. ``again``: 1: it names the event before, so it is not asked of the first. ``each``:
the step of whose events each is asked, or -1. ``needs``: bits of the steps that it names: where one
is missing, it is not asked. ``collects``: 1: it names what is made of all events of a step.
"""
COLLECTION: Final = record("step", "function", "source", "target")
"""What is made of all events of a step: from register ``source`` into ``target``."""
SUM: Final = 0
AVG: Final = 1
LEAST: Final = 2
MOST: Final = 3
NUMBER: Final = 4

SETTING: Final = record(
    # what is asked
    "max_delay", "within", "keep", "steps", "contiguity", "rule", "limit", "breakable",
    "trailing", "leading", "finals_from", "finals_to", "keys", "firsts", "lasts", "positive",
    "fewest", "readings",
    # what changes
    "widest", "widest_t_a", "inserted", "found_n", "path_n", "doubts_n", "looked", "is_open",
    "reach", "doubted", "lacks_path",
)  # fmt: skip
"""``contiguity``: ANY, NEXT or STRICT; ``rule``: which matches are asked for. ``breakable``: bits
of events that may forbid a match when they lie between two of its events; ``trailing``,
``leading``: behind or before it. ``firsts``, ``lasts``, ``positive``: bits of the steps that a
match may begin and end with, and of all that it may have; ``fewest``: how many events it has at
least. ``readings``: 1: the same events may be its steps in several ways, of which one is given.
``widest``: the largest uncertainty yet; ``widest_t_a``: the largest T_a in force at an event.
``inserted``: the last row put in the stacks. ``found_n``, ``path_n``, ``doubts_n``: rows written.
``is_open``: 1: a later event may go on with what was walked last; ``reach``: if not, an event
beyond this time has nothing to do with it. ``doubted``: 1: an event held may not have happened.
``lacks_path``: 1: where there was no room, it was for events of matches.
"""
ANY: Final = 0
NEXT: Final = 1
STRICT: Final = 2
ALL_MATCHES: Final = 0
"""Rules: every match,"""
FIRST_OF_END: Final = 1
"""the first few with one last event,"""
FIRST_OF_START: Final = 2
"""the first with one first event,"""
APART: Final = 3
"""or those that begin after the one before has ended."""

LEVEL: Final = record(
    "row", "step", "count", "place", "at", "option", "stop", "ended", "relevant", "fresh"
)
"""An event taken: as which ``step``, as its ``count``-th. ``place``: where it stands in the stack.
``at``, ``option``: the next candidate, and the step that it is next tried as. ``stop``, ``ended``:
times beyond which no candidate can follow, and none can as the same step again.
"""
READING: Final = record("step", "count")
"""An event of a match taken in another way: as the ``count``-th event of a ``step``."""
RUN: Final = record(
    "cause", "completing", "new", "sure_before", "sure", "stands", "t_a_before", "t_a_now", "from_",
    "size",
)  # fmt: skip
"""What is done to a match, whose events are ``size`` of the path from ``from_`` on. As
``engine.pattern.search.construction.FOUND``."""
EVENT_OF: Final = record("row", "step")
GAP_DOUBT: Final = record("match", "event", "gap")
"""The event at a row may lie in a gap of a match and break it: behind its event number ``gap``
(from 0); -1: before the first."""

FAR: Final = 2**62

KEPT: Final = 1
"""Bits of ``SearchState.chosen``: of a match that is chosen this is the event that the rule goes
by;"""
KEPT_NOW: Final = 2
"""in the sweep at hand."""
MARK: Final = record(
    "open", "ended", "known", "kept", "alike", "first_run", "last_run", "seen"
)  # fmt: skip
"""Of a stack, places counted from its first entry. ``open``: below it all matches have ended, and
that before ``ended``. ``kept``: from it on no event is marked KEPT, if that is ``known``.
``alike``: whether it is of one partition; ``first_run``, ``last_run``: 1 + the first and the last
event whose run is open, ``seen``: 1 + the row with which all of them went on last
(``engine.repetition.runs``).
"""
STANDING: Final = record(
    "status", "step", "count", "present", "last", "end", "closed", "expires", "seen", "begun",
    "next", "link", "size",
)  # fmt: skip
"""Where the run stands that begins with an event. ``step``, ``count``: its last event, the row
``last``, is the ``count``-th of the step; ``end``: when that ends. ``present``: bits of its steps.
``closed``: 1: no more events of that step. ``expires``: when the first event is forgotten that it
has looked at. ``seen``: 1 + the row that it looked at last. ``begun``: the time of its first event;
``next``: 1 + the event whose run is the next open one of the stack. ``link``: where its last event
stands among the links, ``size``: how many it has.
"""
LINK: Final = record("row", "step", "before")
"""An event of a run, and the place of the link of the one before. Of link 0 ``row`` is the place of
the last link in use.
"""


class RepeatTables(NamedTuple):
    """What the kernel knows of a query."""

    steps: np.ndarray
    conditions: np.ndarray
    collections: np.ndarray


class SearchState(NamedTuple):
    """All that the kernel reads and writes.

    ``t``: the query's tables; ``setting``: one SETTING. ``events``: EVENT records. ``raw``, ``ok``:
    (registers, events). ``same``, ``tag``: (registers of keys, events). ``rows``: by place of a
    role, the event there, or -1. ``made_raw``, ``made_ok``: (registers, places), ``made_events``:
    EVENT by place, ``itself``: 0, 1, ...: what programs read that name what is collected.
    ``runs``: STANDING by event; ``links``: LINK; ``ready``: of ``engine.repetition.runs.go_on``;
    ``taken``: (events, steps), the last row that a run has taken as a
    step; ``own``: (stacks, 2 registers of keys), what ``same`` and ``tag`` are of a stack.
    ``levels``: of LEVEL; ``reading``: of READING, by level; ``trial``: EVENT_OF, events taken and
    one that could be taken next. ``chosen``: by event, what the rule keeps of it; ``ended``: the
    time at which the matches that begin with it have ended (``starts``), or FAR; ``marks``: MARK by
    stack.
    ``found``: RUN; ``path``: EVENT_OF; ``doubts``: GAP_DOUBT.
    """

    t: RepeatTables
    setting: np.ndarray
    events: np.ndarray
    raw: np.ndarray
    ok: np.ndarray
    same: np.ndarray
    tag: np.ndarray
    programs: Programs
    ranks: np.ndarray
    open: np.ndarray
    stacks: Stacks
    rows: np.ndarray
    made_raw: np.ndarray
    made_ok: np.ndarray
    made_events: np.ndarray
    itself: np.ndarray
    kinds: np.ndarray
    levels: np.ndarray
    reading: np.ndarray
    trial: np.ndarray
    chosen: np.ndarray
    ended: np.ndarray
    marks: np.ndarray
    runs: np.ndarray
    links: np.ndarray
    ready: np.ndarray
    taken: np.ndarray
    own: np.ndarray
    found: np.ndarray
    path: np.ndarray
    doubts: np.ndarray
