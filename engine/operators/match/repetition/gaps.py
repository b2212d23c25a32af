"""Events that break a match: between two of its events, before the first or after the last one.

Contiguity, UNTIL and negated steps forbid events between two neighbours of a match. An event that
certainly breaks it ends the match; one that possibly does makes it uncertain, as in the scopes of
negated steps (L09 WinNeg; ``search.construction``). Likewise, only events count that were stored
when the later of the match and the event arrived.
"""

from __future__ import annotations

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX
from slackwater.engine.operators.match.repetition.compiler import (
    CUR,
    NEXT,
    PREV,
    STRICT,
    SearchState,
)
from slackwater.engine.operators.match.repetition.conditions import (
    collect,
    condition_holds,
    copy_event,
    has_prefix_conditions,
    is_within,
    key_equal,
    order_of,
    place_events,
    role_of,
    step_holds,
    trial_holds,
)
from slackwater.engine.operators.match.search.construction import meeting_of, note_doubt
from slackwater.engine.operators.match.search.machine import widest_of
from slackwater.engine.operators.match.search.state import (
    CERTAIN,
    IMPOSSIBLE,
    POSSIBLE,
    first_not_below,
    spread_of,
)


@inline
def follows(s: SearchState, step: int, count: int, next_step: int) -> bool:
    """Return whether an event of ``next_step`` may directly follow the ``count``-th event of
    ``step``.
    """
    if next_step == step:
        return bool(count < s.t.steps[step].most)
    if count < s.t.steps[step].least or next_step < step or s.t.steps[next_step].negated:
        return False
    for between in range(step + 1, next_step):
        if s.t.steps[between].least and not s.t.steps[between].negated:
            return False
    return True


@inline
def among_path(s: SearchState, from_: int, size: int, row: int) -> bool:
    """Return whether ``row`` is an event of the match."""
    for i in range(from_, from_ + size):  # noqa: SIM110 - compiled code has no any()
        if s.path[i].row == row:
            return True
    return False


@kernel
def _ends_repetition(s: SearchState, from_: int, size: int, at: int, row: int, t_a: int) -> int:
    """Return the certainty that ``row`` ends the repetition at event ``at`` of the path by UNTIL.

    It then comes after the first and before the last event of the repetition.
    """
    step, end, begun, goes_on = s.path[at].step, from_ + size, IMPOSSIBLE, IMPOSSIBLE
    until = s.t.steps[step].until
    if until < 0 or not s.events[row].member >> until & 1 or s.path[at + 1].step != step:
        return IMPOSSIBLE
    first = at
    while first > from_ and s.path[first - 1].step == step:
        first -= 1
    i = first
    while i < end and s.path[i].step == step:
        if i + 1 < end and s.path[i + 1].step == step:
            begun = max(begun, order_of(s, s.path[i].row, 0, row, t_a))
        if i > first:
            goes_on = max(goes_on, order_of(s, row, 0, s.path[i].row, t_a))
        i += 1
    return min(begun, goes_on)


@kernel
def breaks_run(s: SearchState, from_: int, size: int, at: int, row: int, t_a: int) -> int:
    """Return the certainty that ``row``, after event ``at`` of the path, breaks the contiguity."""
    now, step, member = s.setting[0], s.path[at].step, s.events[row].member
    if now.contiguity == STRICT:
        return CERTAIN
    if now.contiguity != NEXT:
        return IMPOSSIBLE
    found, so_far, count, present = IMPOSSIBLE, at - from_ + 1, 0, 0
    for i in range(from_, at + 1):
        count = count + 1 if present and s.path[i].step == s.path[i - 1].step else 1
        present |= 1 << s.path[i].step
    for q in range(step, now.steps):
        if member >> q & 1 and found != CERTAIN and follows(s, step, count, q):
            here, earlier = role_of(q, CUR), role_of(q, PREV)
            row_here, its = s.rows[here], s.rows[earlier]
            before = s.path[at].row if q == step else -1
            fits = step_holds(s, q, row, before, present, t_a)
            if fits != IMPOSSIBLE and has_prefix_conditions(s, q):
                for i in range(so_far):
                    taken_before = s.path[from_ + i]
                    s.trial[i].row, s.trial[i].step = taken_before.row, taken_before.step
                s.trial[so_far].row, s.trial[so_far].step = row, q
                fits = min(fits, trial_holds(s, so_far + 1, t_a))
                place_events(s, s.path, from_, size)
            if s.events[row].doubted > 1:
                fits = max(fits, POSSIBLE)
            found = max(found, min(fits, order_of(s, s.path[at].row, 1, row, t_a)))
            s.rows[here], s.rows[earlier] = row_here, its
    return found


@kernel
def breaks_scope(
    s: SearchState, from_: int, size: int, low: int, high: int, present: int, row: int, t_a: int
) -> int:
    """Return the certainty that ``row`` is of a negated step between steps ``low`` and ``high``."""
    found, member = IMPOSSIBLE, s.events[row].member
    for n in range(low + 1, high):
        of = s.t.steps[n]
        if not of.negated or not member >> n & 1 or found == CERTAIN:
            continue
        s.rows[role_of(n, CUR)] = row
        counts = CERTAIN
        for c in range(of.counts_from, of.counts_to):
            if counts != IMPOSSIBLE and s.t.conditions[c].collects:
                collect(s, s.path, from_, size, present)
                copy_event(s, role_of(n, CUR))
            if counts != IMPOSSIBLE:
                counts = min(counts, condition_holds(s, c, present | 1 << n, t_a))
        found = max(found, POSSIBLE if s.events[row].doubted > 1 else counts)
    return found


@inline
def alive_until(s: SearchState, from_: int, size: int, by_errors: bool) -> int:
    """Return the last progress at which a new event can still change the match.

    ``by_errors``: less clock errors, so that all events that may lie in it are stored until then.
    """
    keep = s.setting[0].keep
    if keep < 0:
        return INT_MAX
    first, slack = INT_MAX, 0
    for i in range(from_, from_ + size):
        event = s.events[s.path[i].row]
        first, slack = min(first, event.ref), max(slack, widest_of(event), event.t_a)
    return int(first + keep - (slack if by_errors else 0))


@inline
def _breach(s: SearchState, lies: int, row: int, gap: int) -> int:
    """Return the effect of a breach by ``row``: 1: the match is broken; 0: it is not, or not for
    certain, which is noted as a doubt; -1: no room.

    ``lies``: the certainty of the breach. ``gap``: the number of the event after the gap.
    """
    if lies == CERTAIN and not s.events[row].doubted:
        return 1
    if lies != IMPOSSIBLE and not note_doubt(s.setting[0], s.doubts, row, gap):
        return -1
    return 0


@kernel
def _breach_certainty(
    s: SearchState, from_: int, size: int, gap: int, whole: int, row: int, t_a: int
) -> int:
    """Return the certainty that ``row`` breaks the match in the gap before event ``gap``.

    ``gap`` = ``size``: in the gap after all events.
    """
    first, last, at = s.path[from_], s.path[from_ + size - 1], from_ + gap - 1
    low, high, between = -1, first.step, 0 < gap < size
    ends, found = IMPOSSIBLE, IMPOSSIBLE
    if between:
        ends = _ends_repetition(s, from_, size, at, row, t_a)
        low, high, behind = s.path[at].step, s.path[at + 1].step, s.path[at + 1].row
        lies = min(order_of(s, s.path[at].row, 0, row, t_a), order_of(s, row, 0, behind, t_a))
    elif gap > 0:
        low, high = last.step, s.setting[0].steps
        lies = min(order_of(s, last.row, 0, row, t_a), is_within(s, first.row, row, 0, t_a))
    else:
        lies = min(order_of(s, row, 0, first.row, t_a), is_within(s, row, last.row, 0, t_a))
    if lies == IMPOSSIBLE or ends == CERTAIN:
        return ends
    if high > low + 1:
        found = breaks_scope(s, from_, size, low, high, whole, row, t_a)
    if between and found != CERTAIN:
        found = max(found, breaks_run(s, from_, size, at, row, t_a))
    return max(ends, min(lies, found))


@inline
def _times_in(s: SearchState, from_: int, size: int, gap: int) -> tuple[int, int]:
    """Return the least and the largest time of an event that may break the match in a gap; if the
    first is larger, none may.
    """
    now, e = s.setting[0], s.events
    first, last = e[s.path[from_].row].ref, e[s.path[from_ + size - 1].row].ref
    spread, low, high = spread_of(now), 1, 0
    if 0 < gap < size:
        at = from_ + gap - 1
        low, high = e[s.path[at].row].ref - spread, e[s.path[at + 1].row].ref + spread
        if not spread:  # an event at the time of another is not in the gap, but may be its UNTIL
            low, high = low + int(s.t.steps[s.path[at].step].until < 0), high - 1
    elif gap > 0 and now.trailing:
        low, high = last - spread, first + now.within + spread
    elif gap == 0 and now.leading:
        low, high = last - now.within - spread, first + spread
    return low, high


@kernel
def scan(
    s: SearchState, from_: int, size: int, stack: int, completing: int, left_out: int, whole: int
) -> int:
    """Check the stored events that may break the match, and note the doubts.

    Args:
        s: the search.
        from_: the place of the match in the path; it has ``size`` events.
        size: see ``from_``.
        stack: of its partition.
        completing: the row that completed it.
        left_out: a row that is ignored, or -1.
        whole: bits of its steps; its events are in ``rows``.

    Returns:
        1: an event certainly breaks it; 0: none does; -1: no room for doubts.
    """
    entry, e, of, broken = s.stacks.entry, s.events, s.stacks.stack[stack], 0
    until = alive_until(s, from_, size, not s.setting[0].again)
    for gap in range(size + 1):
        low, high = _times_in(s, from_, size, gap)
        at, stop = of.start + of.size, of.start + of.size
        if low <= high:
            at = first_not_below(entry, of.start, of.size, low)
        while at < stop and entry[at].time <= high and broken == 0:
            row = entry[at].row
            at += 1
            meets = meeting_of(e, row, completing, until) if key_equal(s, row, completing) else -1
            if row != left_out and meets >= 0 and not among_path(s, from_, size, row):
                lies = _breach_certainty(s, from_, size, gap, whole, row, e[meets].t_a)
                broken = _breach(s, lies, row, gap)
        if broken != 0:
            break
    return broken


@kernel
def effect_of(s: SearchState, from_: int, size: int, row: int, whole: int) -> int:
    """Return the effect of the new event ``row`` on a match that does not contain it: 1: it breaks
    the match; 0: none, or a doubt, which is noted; -1: no room.
    """
    now, broken = s.setting[0], 0
    for gap in range(size + 1):
        bears = now.leading if gap == 0 else now.trailing if gap == size else 1
        if bears and broken == 0:
            lies = _breach_certainty(s, from_, size, gap, whole, row, s.events[row].t_a)
            broken = _breach(s, lies, row, gap)
    return broken
