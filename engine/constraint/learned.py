"""Constraints from recorded traces: the inductive miner, and how often traces break one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from engine.errors import UserError
from engine.kernels.jit import kernel
from engine.query.automata.automaton import DEAD, Dfa
from engine.query.monitor_plan import (
    Choice,
    Concatenation,
    Interleaving,
    Occurrence,
    Regular,
    Repetition,
)
from engine.query.render import quote, render_regular

# A constraint that allows given traces: the inductive miner.
#
# The events that directly follow one another make a graph. Where it falls into parts that exclude
# one another, come one after another, run beside one another or go in rounds, the traces are cut
# there and each part is learned by itself; where it does not, any order is allowed. Whatever is
# learned from allows itself.
#
# Source: S. J. J. Leemans, D. Fahland, W. M. P. van der Aalst, Discovering Block-Structured Process
# Models from Event Logs, Petri Nets 2013, sections 4 and 5.


Trace = tuple[str, ...]
Traces = Counter[Trace]
"""How many there are of each."""
Parts = list[frozenset[str]]


def learned(traces: Traces) -> Regular:
    """An expression that allows each of ``traces``."""
    some = Counter({trace: n for trace, n in traces.items() if trace})
    if not some:
        return Concatenation(())
    found = _of_some(some)
    return found if len(some) == len(traces) else Repetition(found, 0, 1)


def _of_some(traces: Traces) -> Regular:
    """Of traces none of which is empty."""
    types = sorted({event for trace in traces for event in trace})
    if len(types) == 1:
        once = Occurrence(types[0])
        return once if max(map(len, traces)) == 1 else Repetition(once, 1, None)
    follows = _Follows(traces, types)
    for cut, made in _CUTS:
        parts = cut(follows)
        if len(parts) > 1:
            return made(traces, parts)
    return Repetition(Choice(tuple(map(Occurrence, types))), 1, None)


class _Follows:
    """Which event directly follows which, which begin traces, and which end them."""

    def __init__(self, traces: Traces, types: Sequence[str]) -> None:
        self.types = types
        self.after: dict[str, set[str]] = {event: set() for event in types}
        for trace in traces:
            for event, following in pairwise(trace):
                self.after[event].add(following)
        self.first = {trace[0] for trace in traces}
        self.last = {trace[-1] for trace in traces}

    def reached(self) -> Mapping[str, frozenset[str]]:
        """Of each event those that come later in some trace, or in the rest of another."""
        found = {}
        for event in self.types:
            seen: set[str] = set()
            waiting = [event]
            while waiting:
                new = self.after[waiting.pop()] - seen
                seen |= new
                waiting += new
            found[event] = frozenset(seen)
        return found


def _joined(types: Iterable[str], together: Callable[[str, str], bool]) -> Parts:
    """The least parts such that ``together`` of two events puts them into one; in order of their
    first event.
    """
    parts: Parts = []
    for event in types:
        mine = [part for part in parts if any(together(event, other) for other in part)]
        parts = [part for part in parts if part not in mine]
        parts.append(frozenset({event}).union(*mine))
    return sorted(parts, key=min)


def _exclusive(follows: _Follows) -> Parts:
    after = follows.after
    return _joined(follows.types, lambda a, b: a in after[b] or b in after[a])


def _one_after_another(follows: _Follows) -> Parts:
    ahead = follows.reached()
    parts = _joined(follows.types, lambda a, b: (a in ahead[b]) == (b in ahead[a]))
    # Of two parts one leads to the other: else their events would be together.
    return sorted(parts, key=lambda part: -len(ahead[min(part)] - part))


def _beside(follows: _Follows) -> Parts:
    after = follows.after
    parts = _joined(follows.types, lambda a, b: a not in after[b] or b not in after[a])
    whole = [part for part in parts if part & follows.first and part & follows.last]
    rest = [part for part in parts if part not in whole]
    if not whole:
        return []
    # A part that begins or ends no trace does not run by itself.
    return [whole[0].union(*rest), *whole[1:]]


def _rounds(follows: _Follows) -> Parts:
    """What is done, then what leads back to its beginning."""
    after, ends = follows.after, follows.first | follows.last
    body = set(ends)
    others = [event for event in follows.types if event not in body]
    again = []
    for part in _joined(others, lambda a, b: a in after[b] or b in after[a]):
        entered = {event for event in follows.types if event not in part and after[event] & part}
        left = set().union(*(after[event] for event in part)) - part
        begins = {event for event in part if any(event in after[a] for a in follows.last)}
        closes = {event for event in part if after[event] & follows.first}
        whole = (
            entered <= follows.last
            and left <= follows.first
            and all(begins <= after[event] for event in follows.last)
            and all(follows.first <= after[event] for event in closes)
        )
        if whole and entered and left:
            again.append(part)
        else:
            body |= part
    return [frozenset(body), *again] if again else []


def _as_choice(traces: Traces, parts: Parts) -> Regular:
    return Choice(tuple(
        learned(Counter({trace: n for trace, n in traces.items() if trace[0] in part}))
        for part in parts
    ))  # fmt: skip


def _projected(traces: Traces, part: frozenset[str]) -> Traces:
    found: Traces = Counter()
    for trace, n in traces.items():
        found[tuple(event for event in trace if event in part)] += n
    return found


def _as_sequence(traces: Traces, parts: Parts) -> Regular:
    return Concatenation(tuple(learned(_projected(traces, part)) for part in parts))


def _as_interleaving(traces: Traces, parts: Parts) -> Regular:
    return Interleaving(tuple(learned(_projected(traces, part)) for part in parts))


def _as_rounds(traces: Traces, parts: Parts) -> Regular:
    """A round is a run of events of one part; a trace begins and ends with the body's."""
    found: list[Traces] = [Counter() for _ in parts]
    of = {event: number for number, part in enumerate(parts) for event in part}
    for trace, n in traces.items():
        run: list[str] = []
        for event in trace:
            if run and of[event] != of[run[-1]]:
                found[of[run[-1]]][tuple(run)] += n
                run = []
            run.append(event)
        found[of[run[-1]]][tuple(run)] += n
    body, *again = (learned(each) for each in found)
    back = again[0] if len(again) == 1 else Choice(tuple(again))
    return Concatenation((body, Repetition(Concatenation((back, body)), 0, None)))


_CUTS = (
    (_exclusive, _as_choice),
    (_one_after_another, _as_sequence),
    (_beside, _as_interleaving),
    (_rounds, _as_rounds),
)


# From the traces of a recording to a constraint, as it is written.


END: Final = ";\n"
_MOST_TYPES: Final = 200
"""Of which something is learned; a graph of more says nobody anything, and takes long."""


@dataclass(frozen=True, slots=True)
class Learned:
    """``expression`` allows ``of`` traces, of ``variants`` kinds, and maybe others."""

    expression: Regular
    of: int
    variants: int


def variants_of(trace: np.ndarray, symbol: np.ndarray, names: list[str]) -> Traces:
    """How many traces there are of each kind.

    Args:
        trace: int64, of each event, sorted.
        symbol: its number.
        names: of numbers.
    """
    starts = np.flatnonzero(np.diff(trace, prepend=-1))
    texts = np.array(names, object)
    found: Counter[tuple[int, ...]] = Counter(
        tuple(each.tolist()) for each in np.split(symbol, starts[1:])
    )
    return Counter({tuple(texts[list(kind)]): n for kind, n in found.items()})


def learn(variants: Traces, ends: frozenset[str], rare: float) -> Learned:
    """A constraint that allows ``variants``.

    Args:
        variants: kinds of traces, and how many there are of each.
        ends: types of which a whole trace's last event is; none: every trace is whole.
        rare: the rarest kinds are left out, up to this share of the traces.

    Raises:
        UserError: no trace is whole, or there are too many types.
    """
    whole = Counter({kind: n for kind, n in variants.items() if not ends or kind[-1] in ends})
    if not whole:
        raise UserError(f"no trace ends with {', '.join(sorted(ends))}; name what ends them")
    types = {event for kind in whole for event in kind}
    if len(types) > _MOST_TYPES:
        raise UserError(
            f"the traces have {len(types)} types of events; at most {_MOST_TYPES} are learned of. "
            "Leave out what is of no process"
        )
    left = rare * sum(whole.values())
    for kind, n in sorted(whole.items(), key=lambda item: (item[1], item[0])):
        if n > left or len(whole) == 1:
            break
        left -= n
        del whole[kind]
    return Learned(learned(whole), sum(whole.values()), len(whole))


def constraint_text(name: str, trace: str, expression: Regular) -> str:
    """As a file or a query has it, from CONSTRAINT on."""
    return (
        f"CONSTRAINT {quote(name)} FOR TRACE BY {quote(trace)} AS\n  {render_regular(expression)}"
    )


# How often recorded traces break a constraint, and where.


@dataclass(frozen=True, slots=True)
class Conformance:
    """``traces``: all of them, of which ``complete`` may end where they do, ``open`` may go on, and
    ``broken`` do what is not allowed. ``breaks``: how many by (what came, what was allowed).
    """

    traces: int
    complete: int
    open: int
    broken: int
    breaks: Counter[tuple[str, str]]

    @property
    def broken_share(self) -> float:
        """Of all traces."""
        return self.broken / self.traces if self.traces else 0.0


@kernel
def _walk(
    table: np.ndarray, trace: np.ndarray, symbol: np.ndarray, state: np.ndarray, at: np.ndarray,
    until: np.ndarray,
) -> int:  # fmt: skip
    """Events sorted by trace; fills in the ``state`` of each trace at its end, or before it breaks,
    the event that breaks it (-1: none) and the end of its events. Gives the number of traces; one
    that may not go on is over, and its key's next event begins another.
    """
    n, over = -1, True
    for i in range(len(trace)):
        fresh = i == 0 or trace[i] != trace[i - 1]
        if fresh or (over and at[n] < 0):
            n += 1
            state[n], at[n] = 0, -1
        until[n] = i + 1
        if at[n] >= 0:
            continue
        new = table[state[n], symbol[i]]
        if new == DEAD:
            at[n] = i
            continue
        state[n] = new
        over = True
        for each in range(table.shape[1]):
            over = over and table[new, each] == DEAD
    return n + 1


def conformance(dfa: Dfa, names: list[str], trace: np.ndarray, symbol: np.ndarray) -> Conformance:
    """How events, sorted by trace and in each by time, keep to ``dfa``.

    Args:
        dfa: the constraint's, trimmed.
        names: of its symbols.
        trace: int64, which trace each event is of.
        symbol: int32, of each event; all of them are the automaton's.
    """
    room = len(trace)
    state, at, until = (np.zeros(room, np.int64) for _ in range(3))
    n = _walk(dfa.table, trace, symbol, state, at, until)
    state, at = state[:n], at[:n]
    broken = at >= 0
    allowed = [
        ", ".join(name for name, ahead in zip(names, row, strict=True) if ahead != DEAD)
        or "nothing more"
        for row in dfa.table.tolist()
    ]
    came = zip(symbol[at[broken]].tolist(), state[broken].tolist(), strict=True)
    breaks = Counter((names[event], allowed[before]) for event, before in came)
    complete = int((dfa.accepts[state] & ~broken).sum())
    return Conformance(n, complete, n - complete - int(broken.sum()), int(broken.sum()), breaks)
