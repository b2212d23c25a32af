"""``validate``: whether the clocks and links of a recording are good enough for queries."""

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
    """Judge whether the clocks and links in a recording can decide the queries.

    Args:
        source: result of ``read``, or anything that ``read`` takes.
        queries: as in ``query``; none: judge the hardware only.
        uncertain: acceptable share of uncertain results.
        gap: typical time between a match's events, such as ``2s``.
        order: as in ``query``.
        certainty: as in ``query``.
        clock: declarations of clocks without a sync, as in ``query``.

    Returns:
        the content of ``validate.json`` of ``slackwater validate --log``: ``verdict`` (``fit``,
        ``fit
        with care`` or ``not fit``), ``queries`` with the verdict and reasons of each, ``sources``
        with clock and link of each, ``concerns``.

    >>> events = {"source": ["a", "b"], "ts": [0, 10], "arrival": [5, 16]}
    >>> validate(events)["verdict"]
    'not fit'

    Raises:
        UserError: the input, an option or a query is invalid.
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
