"""Judges fit, fit with care, or not fit: a query's needs against a set-up's clocks and links."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from slackwater.engine.apps.validate.quality import IN_TIME, RTO_MIN_NS, Setup, SourceQuality
from slackwater.engine.core import units
from slackwater.engine.core.units import neat
from slackwater.engine.query.plan import Plan, WindowKind
from slackwater.engine.query.shape import shape_of

# A query's requirements on clocks and links, as numbers: orders, spans, windows.


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequirements:
    """``orders``: pairs of successive events of a match whose order matters. ``within_ns`` None: no
    limit.
    """

    name: str
    text: str
    kind: str
    events: int = 0
    orders: int = 0
    within_ns: int | None = None
    window_ns: int | None = None

    @property
    def comparisons(self) -> int:
        """Pairs of event times on which a match depends: its orders, and its WITHIN."""
        return self.orders + (self.within_ns is not None and self.events > 1)


def requirements_of(plan: Plan) -> QueryRequirements:
    """Requirements of a plan; for OR, of the branch with the most comparisons."""
    if plan.windows:
        window = plan.windows[0]
        if window.kind is WindowKind.SESSION:  # the distance of two events matters
            return QueryRequirements(
                name=plan.name, text=plan.text, kind="window", events=2, within_ns=window.size_ns
            )
        if window.kind is WindowKind.ROWS:  # at each end, the order of two events matters
            return QueryRequirements(
                name=plan.name, text=plan.text, kind="window", events=2, orders=2
            )
        return QueryRequirements(
            name=plan.name, text=plan.text, kind="window", window_ns=window.size_ns,
        )  # fmt: skip
    found = [_of_branch(plan, number) for number in range(len(plan.branches))]
    return max(found, key=lambda each: (each.comparisons, -(each.within_ns or 0)))


def _of_branch(plan: Plan, number: int) -> QueryRequirements:
    branch = plan.branches[number]
    shape = shape_of(branch)
    before = shape.before
    next_ones = [
        (x, y)
        for x, y in before
        if not any((x, z) in before and (z, y) in before for z in shape.positive)
    ]
    related = sum(each.left.alias != each.right.alias for each in branch.relations)
    return QueryRequirements(
        name=plan.name, text=plan.text, kind="pattern", events=len(shape.positive),
        orders=len(next_ones) + related, within_ns=branch.within_ns,
    )  # fmt: skip


# Judges fit, fit with care, or not fit: a query's needs against a set-up's clocks and links.
#
# With ``g = u_e + u_f``, the combined bound of two clocks (SPEC 4.3; ``certainty=max-delay``: T_a,
# R19 Eq 3.16):
#
# * two events are certainly in order if their reference times are more than ``g`` apart;
# * a match of n successive events is certain if each is more than ``g`` after the one before and
# all   span at most ``WITHIN - g``; so no match can be certain unless WITHIN > n * g;
# * if its events are spread evenly over WITHIN, they and WITHIN's end divide it into c parts, one
# per   comparison, and all parts are longer than ``g`` with probability ``(1 - c g / WITHIN)^o``
# for its o   orders (broken stick); with a typical gap t (``--gap``) it is ``exp(-o g / t)``;
# * a window of size w has a border at both ends, and an event is ambiguous within u of one: ``4 u``
# of   the ``w + 2 u`` from which its events may come. R19's windows need w > T_a.
#
# The wait for a late number (``sequence``'s timeout) is the p99.9 of the variation of the path.
# With packet loss, TCP's retransmissions are added: for loss p, k = ceil(ln(0.001) / ln(p)) - 1 of
# them, each after twice the wait of the one before, the first after the round trip + 200 ms. The
# hold of the merge is that wait plus ``g``: another source's event may be that late, and its time
# that wrong.


CARE: Final = 5
"""Up to this many times the acceptable share of uncertain results, a query is fit with care."""
LATENCY_NS: Final = 500_000_000
_RESENDS_MAX: Final = 8
_SOURCES_NAMED: Final = 3
_MORE_OFTEN: Final = 6
"""Factor of the proposed sync rate if clocks are synchronised too seldom."""


class Fitness(IntEnum):
    """From best to worst."""

    FIT = 0
    CARE = 1
    NOT_FIT = 2

    @property
    def words(self) -> str:
        """The fitness as text."""
        return ("fit", "fit with care", "not fit")[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRequirements:
    """Requirements on results. ``gap_ns``: typical distance of a match's events; None: unknown.

    ``latency_ns``: the longest wait that the order allows.
    """

    uncertain: float = 0.05
    gap_ns: int | None = None
    certainty: str = "pairwise"
    latency_ns: int = LATENCY_NS


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of the log's own queries: number, and uncertain ones (for windows: events)."""

    results: int
    uncertain: int

    @property
    def share(self) -> float | None:
        """Uncertain share; None without results."""
        return self.uncertain / self.results if self.results else None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVerdict:
    """Verdict of a query. ``smallest_ns``: least WITHIN for which matches can be certain, or least
    window with an acceptable share of ambiguous events. ``reasons``: why it is not simply fit.
    """

    query: QueryRequirements
    fitness: Fitness
    order_gap_ns: int
    smallest_ns: int
    expected: float
    measured: Measured | None
    timeout_ns: int
    hold_ns: int
    detection_p95_ns: int
    reasons: tuple[str, ...]
    change_first: str

    @property
    def share(self) -> float:
        """Share of uncertain results: as measured, else as expected."""
        share = None if self.measured is None else self.measured.share
        return self.expected if share is None else share

    @property
    def is_too_short(self) -> bool:
        """Whether no match can be certain."""
        within = self.query.within_ns
        return within is not None and self.query.comparisons > 0 and within < self.smallest_ns


def judge(
    query: QueryRequirements,
    setup: Setup,
    requirements: ResultRequirements,
    measured: Measured | None = None,
) -> QueryVerdict:
    """Judge one query; ``measured``: results of a log's own queries."""
    gap, single = _known_to(setup, requirements)
    timed = bool(query.comparisons or query.window_ns)
    unknown = timed and not setup.synced
    expected = 1.0 if unknown else _expected(query, gap, single, requirements.gap_ns)
    timeout = needed_timeout(setup)
    hold = _hold(setup, gap, timeout)
    transit = max((each.link.p95_ns for each in setup.sources if each.link), default=0)
    smallest = _smallest(query, gap, single, setup.t_a_ns, requirements.uncertain)
    verdict = QueryVerdict(
        query=query, fitness=Fitness.FIT, order_gap_ns=gap if query.comparisons else 0,
        smallest_ns=smallest, expected=expected, measured=measured, timeout_ns=timeout,
        hold_ns=hold, detection_p95_ns=max(transit, 0) + hold, reasons=(), change_first="",
    )  # fmt: skip
    found = list(_reasons(verdict, setup, requirements))
    fitness = max((each for each, _ in found), default=Fitness.FIT)
    texts = tuple(text for each, text in sorted(found, key=lambda pair: -pair[0]))
    change = remedy(verdict, setup, requirements) if fitness else ""
    return replace(verdict, fitness=fitness, reasons=texts, change_first=change)


def _known_to(setup: Setup, requirements: ResultRequirements) -> tuple[int, int]:
    """Bounds of two clocks together, and of one [ns]."""
    if requirements.certainty == "max-delay-r19":
        return setup.t_a_ns, setup.t_a_ns
    if requirements.certainty == "max-delay":
        return 2 * setup.single_ns, 2 * setup.single_ns
    return setup.pair_ns, setup.single_ns


def _expected(query: QueryRequirements, gap: int, single: int, typical: int | None) -> float:
    """Expected share of uncertain results (for windows, of ambiguous events)."""
    if query.window_ns is not None:
        return min(4 * single / (query.window_ns + 2 * single), 1.0)
    if not query.comparisons or not gap:
        return 0.0
    if query.within_ns is not None and query.within_ns <= query.comparisons * gap:
        return 1.0
    if typical:
        return 1 - math.exp(-query.orders * gap / typical)
    if query.within_ns is None:
        return 0.0
    return 1 - (1 - query.comparisons * gap / query.within_ns) ** max(query.orders, 1)


def _smallest(query: QueryRequirements, gap: int, single: int, t_a: int, share: float) -> int:
    if query.window_ns is not None:
        return max(math.ceil(4 * single / share) - 2 * single, t_a + 1, 1)
    return (query.orders + 1) * gap + 1 if query.comparisons else 0


def needed_timeout(setup: Setup) -> int:
    """Time to wait for a missing number [ns]."""
    return max((_source_timeout(each) for each in setup.sources if each.link), default=0)


def _source_timeout(source: SourceQuality) -> int:
    link = source.link
    assert link is not None
    if link.gap_wait_ns:
        return link.gap_wait_ns
    varies = max(link.p999_ns - link.least_ns, 0)
    if not link.lost or not link.resends or link.loss >= 1:
        return varies
    again = min(max(math.ceil(math.log(1 - IN_TIME) / math.log(link.loss)) - 1, 1), _RESENDS_MAX)
    first = (link.round_trip_ns or 2 * link.p50_ns) + RTO_MIN_NS
    return varies + first * ((1 << again) - 1)


def _hold(setup: Setup, gap: int, timeout: int) -> int:
    """Wait of the merge for another source, or equivalent slack [ns]."""
    if setup.lateness_ns is not None:
        return max(setup.lateness_ns[2], 0) + gap
    return timeout + gap


def _reasons(
    verdict: QueryVerdict, setup: Setup, requirements: ResultRequirements
) -> list[tuple[Fitness, str]]:
    query, found = verdict.query, list[tuple[Fitness, str]]()
    unknown = [each.name for each in setup.sources if each.clock.offset_ns is None]
    if unknown and (query.comparisons or query.window_ns):
        said = f"never synchronised: {_names(unknown)}; its times mean nothing"
        found.append((Fitness.NOT_FIT, said))
    if verdict.is_too_short:
        said = f"WITHIN {duration(query.within_ns or 0)} is below {duration(verdict.smallest_ns)}"
        found.append((Fitness.NOT_FIT, f"{said}: no match can be certain"))
    if query.window_ns is not None and query.window_ns <= setup.t_a_ns:
        said = f"the window is not longer than the largest sync delay, {duration(setup.t_a_ns)}"
        found.append((Fitness.NOT_FIT, said))
    share = verdict.share
    what = "events ambiguous" if query.window_ns is not None else "results uncertain"
    said = f"{percent(share)} of {what}, {percent(requirements.uncertain)} are wanted at most"
    if share > requirements.uncertain:
        worse = share > CARE * requirements.uncertain or share >= 1
        found.append((Fitness.NOT_FIT if worse else Fitness.CARE, said))
    if verdict.timeout_ns > requirements.latency_ns:
        said = f"late numbers need {duration(verdict.timeout_ns)}, the order waits "
        found.append((Fitness.CARE, f"{said}{duration(requirements.latency_ns)} at most"))
    unsent = [
        each.name for each in setup.sources
        if each.link and each.link.lost and not each.link.resends
    ]  # fmt: skip
    if unsent:
        said = f"what is lost is not sent again: {_names(unsent)}; results miss events"
        found.append((Fitness.CARE, said))
    return found


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_SOURCES_NAMED]) + (" ..." if len(names) > _SOURCES_NAMED else "")


def remedy(verdict: QueryVerdict, setup: Setup, requirements: ResultRequirements) -> str:
    """What to change first: the largest part of the error, and the effect of the change."""
    if len(setup.synced) < len(setup.sources):
        return "let the agent reach the gateway's clock (UDP, [gateway] ntp_port) or [time] servers"
    worst = setup.worst()
    if worst and (verdict.share > requirements.uncertain or verdict.is_too_short):
        return _clock_remedy(worst[0], verdict, setup, requirements)
    if verdict.timeout_ns > requirements.latency_ns:
        wait = f'write order = "sequence:latency={neat(verdict.timeout_ns)}" in [engine]'
        slow = max((each for each in setup.sources if each.link), key=_p95_ns)
        if _p95_ns(slow) <= requirements.latency_ns:
            return wait
        return (
            f"{slow.name}: improve its link, 5 % of its events take longer than "
            f"{duration(_p95_ns(slow))}; or wait for them: {wait}"
        )
    return "improve the link: a cable, a nearer access point, or [delivery] with resends"


def _p95_ns(source: SourceQuality) -> int:
    assert source.link is not None
    return source.link.p95_ns


def _clock_remedy(
    source: SourceQuality, verdict: QueryVerdict, setup: Setup, requirements: ResultRequirements
) -> str:  # fmt: skip
    clock = source.clock
    bound, half = clock.bound_ns(), (clock.delay_ns + 1) // 2
    parts = {"grown": bound - clock.fresh_ns, "delay": half, "precision": clock.precision_ns}
    largest = max(parts, key=lambda name: parts[name])
    if largest == "grown":
        better = clock.age_ns // _MORE_OFTEN
        return (
            f"{source.name}: synchronise more often: every {duration(better)} instead of "
            f"{duration(clock.age_ns)} ([sync] resync) makes its clock's bound "
            f"{duration(clock.bound_ns(better))} instead of {duration(bound)}"
            f"{_would_be(verdict, setup, requirements, better)}"
        )
    if largest == "delay":
        return (
            f"{source.name}: shorten the way to the time server: half its delay, {duration(half)}, "
            f"is the largest part of its bound {duration(bound)}; use a cable, or a nearer gateway"
        )
    return (
        f"{source.name}: its clock reads in steps of {duration(clock.precision_ns)}: use another "
        f"device, or its finer clock"
    )


def _would_be(
    verdict: QueryVerdict, setup: Setup, requirements: ResultRequirements, age_ns: int
) -> str:
    """Text of the uncertain share if every clock is synchronised at least every ``age_ns``."""
    if verdict.measured is not None and verdict.measured.share is not None:
        return ""  # it depends on the events, which were stamped by these clocks
    sources = tuple(
        replace(each, clock=replace(each.clock, age_ns=min(each.clock.age_ns, age_ns)))
        for each in setup.sources
    )
    gap, single = _known_to(replace(setup, sources=sources), requirements)
    share = _expected(verdict.query, gap, single, requirements.gap_ns)
    still = " still" if share > requirements.uncertain else ""
    what = "ambiguous" if verdict.query.window_ns is not None else "uncertain"
    return f"; then {percent(share)} are{still} {what}"


def overall(verdicts: Sequence[QueryVerdict], setup: Setup) -> Fitness:
    """The worst fitness of all queries and concerns."""
    worst = max((each.fitness for each in verdicts), default=Fitness.FIT)
    for _, forbids in setup.concerns:
        worst = max(worst, Fitness.NOT_FIT if forbids else Fitness.CARE)
    return worst


# Durations and shares of a validation as text: few digits, in a suitable unit.


_DIGITS: Final = 3


def duration(ns: int | None) -> str:
    """Three digits, rounded up, with sign, because durations here are bounds.

    >>> duration(1_234_567), duration(-5), duration(None), duration(90 * 60 * 10**9)
    ('1.24 ms', '-5 ns', '\N{EN DASH}', '90 min')
    """
    if ns is None:
        return "\N{EN DASH}"
    size = abs(ns)
    step = int(10 ** max(len(str(size)) - _DIGITS, 0))
    rounded = -(-size // step) * step
    return units.duration(-rounded if ns < 0 else rounded).replace("\N{NO-BREAK SPACE}", " ")


def nearest(ns: int | None) -> str:
    """A duration that is no bound, rounded to three digits.

    >>> nearest(-250_104_000), nearest(None)
    ('-250 ms', '\N{EN DASH}')
    """
    rounded = None if ns is None else int(float(f"{ns:.{_DIGITS}g}"))
    return units.duration(rounded).replace("\N{NO-BREAK SPACE}", " ")


def percent(share: float) -> str:
    """A share as text.

    >>> percent(0.05), percent(0.00012), percent(0)
    ('5 %', '0.012 %', '0 %')
    """
    return f"{float(f'{100 * share:.{_DIGITS}g}'):g} %"
