"""``validate``: are the clocks and links of a recording good enough for these queries?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from slackwater.answers import Queries, plans_of
from slackwater.engine.apps.report.numbers import versions
from slackwater.engine.apps.validate.log_quality import judged
from slackwater.engine.apps.validate.tables import as_plain
from slackwater.engine.apps.validate.verdict import LATENCY_NS, ResultRequirements
from slackwater.engine.core.clocks.choice import read_clock
from slackwater.engine.core.units import parse_duration
from slackwater.engine.hosts.options import QueryOptions
from slackwater.engine.hosts.pipeline import check_plans
from slackwater.engine.hosts.warnings import unseen_types
from slackwater.inputs import Input, Source, opened
from slackwater.translate_options import translate_options
from slackwater.warning import warn


@translate_options
def validate(
    source: Source | Input,
    queries: Queries = (),
    *,
    uncertain: float = 0.05,
    gap: str | None = None,
    order: str | None = None,
    certainty: str = "pairwise",
    clock: str | Sequence[str] = (),
) -> dict[str, Any]:
    """Whether the clocks and links that a recording shows can decide the queries.

    Args:
        source: what ``read`` gave, or takes.
        queries: as of ``query``; none: the hardware alone is judged.
        uncertain: share of uncertain results that is wanted.
        gap: typical time between a match's events, such as ``2s``.
        order: as of ``query``.
        certainty: as of ``query``.
        clock: of clocks without a sync, as of ``query``.

    Returns:
        what ``slackwater validate --log`` writes to ``validate.json``: ``verdict`` (``fit``, ``fit
        with care`` or ``not fit``), ``queries`` with the verdict and reasons of each, ``sources``
        with clock and link of each, ``concerns``.

    >>> events = {"source": ["a", "b"], "ts": [0, 10], "arrival": [5, 16]}
    >>> validate(events)["verdict"]
    'not fit'

    Raises:
        UserError: the input, an option or a query is at fault.
    """
    with opened(source) as data:
        unit, settings, latency_ns = data.time_unit, None, LATENCY_NS
        if queries:
            plans = plans_of(queries, unit)
            options = QueryOptions(order=order, certainty=certainty, clock=clock)
            settings = options.answering(plans, unit)
            latency_ns = getattr(settings.order, "latency_ns", LATENCY_NS)
            check_plans(data.log, plans)
            warn(unseen_types(data.log, plans))
        gap_ns = None if gap is None else parse_duration(gap, unit)
        requirements = ResultRequirements(
            uncertain=uncertain, gap_ns=gap_ns, certainty=certainty, latency_ns=latency_ns
        )
        found = judged(
            data.log, data.name, settings, requirements, read_clock(clock, unit),
            lambda _doing: nullcontext(lambda _rows: None),
        )  # fmt: skip
    return as_plain(found, versions())
