"""Prometheus metrics of a gateway (docs/reference/metrics.md has their table).

Base units are seconds; counters start with the server. A series per source costs the scraper memory
permanently, so only the first ``sources_max`` sources have series;
``slackwater_sources_without_series`` counts the others, and sums without labels cover all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from slackwater.engine.server.overview import STATES, Overview, ResultFeed, SourceRow
from slackwater.engine.server.page.view import LiveStreams

Family = type[CounterMetricFamily | GaugeMetricFamily]
COUNTER: Final[Family] = CounterMetricFamily
GAUGE: Final[Family] = GaugeMetricFamily
LABELS: Final = ("site", "source")
EVENTS: Final = {
    "received": "Events that agents sent, copies too.",
    "recorded": "Events written into frames of the log, each number once.",
    "duplicate": "Events that had come before.",
    "refused": "Events whose content was wrong; kept as dead letters.",
    "put_off": "Events not taken as too many gaps lay before them; the agent sends them again.",
    "given_up": "Numbers that will not come any more.",
    "reused": "Recorded events whose number another event of their source had; kept without it.",
}
"""Descriptions of the counts in ``Totals.events``."""
SINK_FIGURES: Final[dict[str, tuple[Family, str, str]]] = {
    "delivered": (COUNTER, "delivered", "Results that the receiver has."),
    "retries": (COUNTER, "retries", "Deliveries that failed and are tried again."),
    "dead": (COUNTER, "dead", "Results that the receiver refused, kept in a file."),
    "behind_bytes": (GAUGE, "behind_bytes", "Bytes of answers not delivered yet."),
    "behind_s": (GAUGE, "behind_seconds", "So long some were not delivered yet."),
    "delivered_at": (GAUGE, "last_delivery_timestamp_seconds", "When the last results went."),
    "is_far_behind": (GAUGE, "far_behind", "1: more than behind_max are not."),
}
"""By field of ``engine.sinks.forwarding.SinkFigures``."""


class GatewayCollector:
    """Returns the metrics at the moment of a scrape."""

    def __init__(
        self, overview: Overview, feed: ResultFeed, streams: LiveStreams, sources_max: int
    ) -> None:
        self._overview = overview
        self._feed = feed
        self._streams = streams
        self._sources_max = sources_max

    def collect(self) -> Iterator[Metric]:
        """All metric families."""
        self._overview.refresh()
        yield from self._of_the_gateway()
        yield from self._of_answers()
        yield from self._of_sinks()
        yield from self._of_sources()

    def _of_the_gateway(self) -> Iterator[Metric]:
        sums, core = self._overview.sums, self._overview.core
        yield from _plain(
            *((COUNTER, f"events_{reason}", help_, sums.events[reason])
              for reason, help_ in EVENTS.items()),
            (COUNTER, "events_logged", "Events in frames given to the arrival log.", sums.logged),
            (GAUGE, "events_unbalanced", ("Received less recorded, duplicate, refused and put off: "
             "0 if the books are right."), sums.balance),
            (COUNTER, "dead_letters", "Refused messages kept in the file.", sums.letters),
            (COUNTER, "dead_letters_dropped", "Refused messages for which the file had no room.",
             sums.letters_dropped),
            (GAUGE, "sources_not_back", "Sources of the log not seen since the start.",
             sums.not_back),
            (GAUGE, "sources_without_series",
             "Sources beyond metrics_sources_max, which have no series of their own.",
             max(len(self._overview) - self._sources_max, 0)),
            (GAUGE, "sites", "Sites known since the start.", sums.sites),
            (GAUGE, "log_writable", "0: the log could not be written lately.",
             int(core.sink_error is None)),
            (GAUGE, "arrival_clock_ahead_seconds",
             "By how much arrivals run ahead of this machine's clock, which was set back.",
             core.clock.ahead_ns / 1e9),
            (GAUGE, "page_streams", "Open live pages.", len(self._streams)),
            (COUNTER, "page_streams_dropped", "Pages dropped as too slow.", self._streams.dropped),
        )  # fmt: skip
        yield _labelled(
            COUNTER, "faults", "Messages and connections refused, by reason.",
            ("reason",), [((reason,), count) for reason, count in sorted(sums.faults.items())],
        )  # fmt: skip
        yield _labelled(
            COUNTER, "intervals_pulled_back",
            "Intervals that began and did not come, asked for at their agents, by what came of it.",
            ("reason",),
            [((name.removeprefix("pull_back_"),), count) for name, count in sums.pulled.items()],
        )  # fmt: skip
        yield _labelled(
            GAUGE, "sources", "Sources known since the start, by state.",
            ("state",), [((state,), sums.states.get(state, 0)) for state in STATES],
        )  # fmt: skip

    def _of_answers(self) -> Iterator[Metric]:
        answers = self._overview.answers
        yield from _plain(
            (GAUGE, "answers_running", "0: nobody answers the queries, for now.",
             int(answers.running)),
            (GAUGE, "queries_failed", "Queries that are set aside, counted at each site.",
             len(answers.failed)),
            (COUNTER, "results_inserted", "Results with op +.", self._feed.inserted),
            (COUNTER, "results_retracted", "Results with op -.", self._feed.retracted),
        )  # fmt: skip
        failed = [(each["query"], each["site"]) for each in answers.failed[: self._sources_max]]
        yield _labelled(
            GAUGE, "query_failed", "1: the query is set aside at that site.",
            ("query", "site"), [(each, 1) for each in failed],
        )  # fmt: skip

    def _of_sinks(self) -> Iterator[Metric]:
        sinks = self._overview.answers.sinks
        for field, (kind, name, help_) in SINK_FIGURES.items():
            known = [sink for sink in sinks if sink[field] is not None]
            values = [((sink["name"],), float(sink[field])) for sink in known]
            yield _labelled(kind, f"sink_{name}", help_, ("sink",), values)

    def _of_sources(self) -> Iterator[Metric]:
        number = min(len(self._overview), self._sources_max)
        rows = [self._overview.row(index) for index in range(number)]
        for name, (kind, help_, values) in _of_rows(rows, self._overview.now).items():
            found = [
                ((row.site, row.source), value)
                for row, value in zip(rows, values, strict=True) if value is not None
            ]  # fmt: skip
            yield _labelled(kind, f"source_{name}", help_, LABELS, found)


def _of_rows(rows: list[SourceRow], now: int) -> dict[str, tuple[Family, str, list[float | None]]]:
    """Series per source: kind, help and a value per row; None: no series."""
    counters = {
        **{f"events_{reason}": (help_, [row.counts[reason] for row in rows])
           for reason, help_ in EVENTS.items()},
        "events_disordered": (
            "Events that arrived after one of their site with a larger reference time.",
            [row.disordered for row in rows],
        ),
    }  # fmt: skip
    gauges: dict[str, tuple[str, list[float | None]]] = {
        "up": (
            "1: a connection of the source is open. A source that has ended has no value.",
            [
                None if row.state == "ended" else float(row.state in ("connected", "idle"))
                for row in rows
            ],
        ),
        "clock_offset_seconds": (
            "Reference time minus the source's clock at its last sync; positive: it is slow.",
            [row.offset for row in rows],
        ),
        "clock_bound_seconds": (
            "How wrong the offset may be by now.",
            [row.bound for row in rows],
        ),
        "path_delay_seconds": (
            "Round trip of the last sync, without the server's own time.",
            [row.delay for row in rows],
        ),
        "lag_seconds": (
            "Arrival minus reference time, mean of the last events.",
            [row.lag for row in rows],
        ),
        "gaps": (
            "Runs of numbers that have not come, below others that have.",
            [float(row.gaps) for row in rows],
        ),
        "missing": (
            "Numbers in the gaps.",
            [float(row.missing) for row in rows],
        ),
        "last_seen_timestamp_seconds": (
            "Arrival of the last record.",
            [None if row.seen is None else now / 1e9 - row.seen for row in rows],
        ),
    }
    return {
        **{name: (COUNTER, help_, [*map(float, values)])
           for name, (help_, values) in counters.items()},
        **{name: (GAUGE, *of) for name, of in gauges.items()},
    }  # fmt: skip


def _plain(*metrics: tuple[Family, str, str, float]) -> Iterator[Metric]:
    """Families of one value each, from kind, name, help and value."""
    for kind, name, help_, value in metrics:
        yield kind(f"slackwater_{name}", help_, value=value)


def _labelled(
    kind: Family, name: str, help_: str, labels: Sequence[str],
    values: Iterable[tuple[Sequence[str], float]],
) -> Metric:  # fmt: skip
    """A labelled family; ``values``: texts of the labels and value."""
    family = kind(f"slackwater_{name}", help_, labels=labels)
    for texts, value in values:
        family.add_metric(texts, value)
    return family
