"""Compares the passes over the phones' messages with the recording's own data.

Nobody knows the true event times. The corrected ones are the best available, and every message's
own exchange of four times bounds how far they can be from the server's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.scenario import Claim, Score, Table
from slackwater.scenarios.phones.announcing import score_announcing
from slackwater.scenarios.runs import (
    IN_ORDER,
    LATE,
    LATE_DROPPED,
    NS_PER_MS,
    RESIDUAL,
    ints,
    missing_events,
    out_of_order,
    quantiles_ms,
    read_counters,
    read_ordered,
    share,
)
from slackwater.simulation import TRUTH

MAIN: Final = "sequence"
LEARNT: Final = "sequence-learnt"
SHORT: Final = "sequence-500ms"
UNORDERED: Final = "none"
LABELS: Final = (MAIN, LEARNT, SHORT, UNORDERED)
PUBLISHED_PERCENT: Final = {"d-1": 16.08, "d-2": 33.94, "d-3": 34.14}
"""Out of order on arrival by corrected time, as the data set's authors give it."""


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """One session in one pass, in events; ``holds_ms``: p50, p95, p99, max."""

    site: str
    label: str
    in_time: int
    disorder_left: int
    residual: int
    late: int
    missing: int | None
    holds_ms: tuple[float, ...]

    @classmethod
    def of(
        cls, site: str, label: str, ordered: pa.Table, counters: dict[str, Any]
    ) -> SessionOutcome:
        """From the ordered stream of ``site`` and the counters of the pass."""
        status = ints(ordered, "status")
        kept = status != LATE_DROPPED
        hold_ns = (ints(ordered, "release") - ints(ordered, "arrival"))[kept]
        in_time = ints(ordered, "ref")[status == IN_ORDER]
        return cls(
            site=site,
            label=label,
            in_time=len(in_time),
            disorder_left=int(out_of_order(in_time).sum()),
            residual=int((status == RESIDUAL).sum()),
            late=int((status == LATE).sum() + (status == LATE_DROPPED).sum()),
            missing=missing_events(counters, site),
            holds_ms=quantiles_ms(hold_ns),
        )


def score_run(directory: Path, published: Collection[str], orders: Mapping[str, str]) -> Score:
    """Claims, tables and numbers of the run in ``directory``.

    Args:
        directory: of the run.
        published: sessions whose disorder the data set's authors give.
        orders: labels of passes whose orders are set beside another announcement, and the orders.

    Raises:
        UserError: a pass wrote no results.
    """
    messages = pq.read_table(directory / TRUTH / "messages.parquet")
    sites = sorted(pc.unique(messages.column("site")).to_pylist())
    before = {site: _before(_of_site(messages, site)) for site in sites}
    ordered = {label: read_ordered(directory, label) for label in LABELS}
    outcomes = []
    for label, table in ordered.items():
        counters = read_counters(directory, label)
        outcomes += [
            SessionOutcome.of(site, label, _of_site(table, site), counters) for site in sites
        ]
    clocks = _clock_score(directory, messages, ordered[MAIN])
    announcing = score_announcing(directory, orders)
    otherwise = announcing.facts["announced"]["at the recorded sync"]["out_of_place"][MAIN]
    claims = _claims(before, outcomes, messages.num_rows, published, otherwise)
    return Score(
        claims=(*claims, *clocks.claims),
        tables=(_order_table(before, outcomes), *announcing.tables, *clocks.tables),
        facts={
            "before": {site: dict(zip(("raw", "corrected"), each, strict=True))
                       for site, each in before.items()},
            "outcomes": [
                {name: getattr(each, name) for name in SessionOutcome.__slots__}
                for each in outcomes
            ],
            **announcing.facts,
            **clocks.facts,
        },
    )  # fmt: skip


def _of_site(table: pa.Table, site: str) -> pa.Table:
    return table.filter(pc.equal(table.column("site"), site))


def _before(messages: pa.Table) -> tuple[int, int]:
    """Messages out of order on arrival, by the phones' own and by their corrected clocks."""
    raw = out_of_order(ints(messages, "ts"))
    corrected = out_of_order(ints(messages, "corrected"))
    return int(raw.sum()), int(corrected.sum())


def _claims(
    before: dict[str, tuple[int, int]], outcomes: list[SessionOutcome], messages: int,
    published: Collection[str], otherwise: int,
) -> list[Claim]:  # fmt: skip
    """``otherwise``: out of place with each phone announced at its recorded sync."""
    main = [each for each in outcomes if each.label == MAIN]
    left = sum(each.disorder_left for each in main)
    in_time = sum(each.in_time for each in main)
    marked = sum(each.residual + each.late for each in main)
    raw, corrected = (sum(each[at] for each in before.values()) for at in (0, 1))
    of_site = {each.site: each.in_time + each.residual + each.late for each in main}
    percents = {site: share(before[site][1], count) for site, count in of_site.items()}
    missing = sum(each.missing or 0 for each in main)
    return [
        Claim(
            f"Residual disorder is {left} among the {in_time:,} messages in time, with each phone "
            "announced at its first event.",
            left == 0,
            f"{marked} of {messages:,} messages came too late for their place and are marked so; "
            f"with each phone announced at its recorded sync it would be {otherwise:,}",
        ),
        Claim(
            f"By the phones' own clocks {share(raw, messages):.1f} % of the messages arrive out of "
            f"order, by the corrected ones {share(corrected, messages):.1f} %; sequence and merge "
            f"leave {share(left + marked, messages):.2f} %.",
            left + marked < corrected < raw,
            "late messages count as left",
        ),
        *_faithful({site: percent for site, percent in percents.items() if site in published}),
        Claim(
            f"Nothing is lost on the way: {sum(of_site.values()):,} of {messages:,} messages come "
            f"out, {missing} are missing.",
            missing == 0 and sum(of_site.values()) == messages,
        ),
    ]


def _faithful(percents: dict[str, float]) -> list[Claim]:
    """Of the sessions that were published; a user's own recordings have nothing beside them."""
    if not percents:
        return []
    return [
        Claim(
            "The import is faithful: out of order before, "
            + ", ".join(f"{site} {percent:.2f} %" for site, percent in percents.items())
            + ", as published.",
            all(f"{percents[site]:.2f}" == f"{PUBLISHED_PERCENT[site]:.2f}" for site in percents),
            "Weiss et al., IoTBDS 2017, by corrected event time in order of arrival",
        )
    ]


def _order_table(before: dict[str, tuple[int, int]], outcomes: list[SessionOutcome]) -> Table:
    rows = []
    for each in sorted(outcomes, key=lambda outcome: outcome.site):
        messages = each.in_time + each.residual + each.late
        raw, corrected = (round(share(count, messages), 2) for count in before[each.site])
        rows.append(
            (each.site, each.label, messages, raw, corrected, each.disorder_left, each.residual,
             each.late, each.missing, *each.holds_ms)
        )  # fmt: skip
    return Table(
        "Order of the messages",
        ("session", "pass", "messages", "out of order on arrival, own clocks [%]",
         "corrected clocks [%]", "out of order after, in time [events]", "residual [events]",
         "late [events]", "missing [events]", "held p50 [ms]", "held p95 [ms]", "held p99 [ms]",
         "held at most [ms]"),
        tuple(rows),
        "The recording has no end-of-stream records: when phones stop, the others' last messages "
        "wait for them up to the latency threshold.",
    )  # fmt: skip


def _clock_score(directory: Path, messages: pa.Table, ordered: pa.Table) -> Score:
    """Compares the declared uncertainty with every recorded exchange."""
    phones = pq.read_table(directory / TRUTH / "phones.parquet").to_pylist()
    rows: list[tuple[str | int | float, ...]] = []
    against = inside = 0
    for phone in phones:
        who = (phone["site"], phone["source"])
        low, high, unc = _exchanges(messages, ordered, *who)
        wrong = int(((low > unc) | (high < -unc)).sum())
        against += wrong
        limits_ms = _ms(int(low.max())), _ms(int(high.min()))
        inside += -unc[0] <= low.max() and high.min() <= unc[0]
        rows.append(
            (*who, _ms(phone["offset"]), _ms(int(unc[0])), _ms(int(unc[-1])), *limits_ms, wrong)
        )
    claim = Claim(
        f"None of {messages.num_rows:,} recorded exchanges contradicts the declared uncertainty of "
        "a phone's clock.",
        against == 0,
        f"{against} contradict it; for {inside} of {len(phones)} phones they even prove it",
    )
    table = Table(
        "Clocks of the phones",
        ("session", "phone", "offset [ms]", "declared uncertainty, first message [ms]",
         "last message [ms]", "remaining offset, at least [ms]", "at most [ms]",
         "exchanges against [events]"),
        tuple(rows),
        "Offset: server minus phone. The remaining offset lies between the two bounds that all "
        "exchanges of the session together allow, if it did not change.",
    )  # fmt: skip
    return Score(
        (claim,), (table,), {"exchanges_against": against, "phones": len(phones),
                             "phones_proved": int(inside)},
    )  # fmt: skip


def _exchanges(
    messages: pa.Table, ordered: pa.Table, site: str, source: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of one phone's messages that came out, by number: both bounds, declared uncertainty."""
    known, out = _of_phone(messages, site, source), _of_phone(ordered, site, source)
    came = np.isin(ints(known, "seq"), ints(out, "seq"))
    low, high = (ints(known, name)[came] for name in ("exchange_low", "exchange_high"))
    return low, high, ints(out, "unc")


def _of_phone(table: pa.Table, site: str, source: str) -> pa.Table:
    name = table.column("source").cast(pa.string())
    mine = pc.and_(pc.equal(table.column("site"), site), pc.equal(name, source))
    return table.filter(mine).sort_by("seq")


def _ms(span_ns: int) -> float:
    return round(span_ns / NS_PER_MS, 3)
