"""What Prometheus gets: documented names, hostile labels, bounded series, a dashboard that fits."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.engine.sinks.forwarding import SinkFigures
from tests.gateway.conftest import a_data, a_hello
from tests.page.conftest import EPOCH, S, Site, a_result

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "docs/samples/grafana.json"
FAILED = {"query": "q", "site": "main", "reason": "none", "version": "0"}
HOSTILE = '<script>"\\\n{source="x"} 1\n# EOF\né'
NAME = re.compile(r"\bslackwater_[a-z_]+")


async def families(site: Site, **settings: Any) -> dict[str, Metric]:
    async with site.client(**settings) as client:
        answer = await client.get("/metrics")
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        text = await answer.text()
    return {family.name: family for family in text_string_to_metric_families(text)}


def sample_names(found: dict[str, Metric]) -> set[str]:
    """Of all families, of which some may have no samples yet."""
    return {f"{n}_total" if f.type == "counter" else n for n, f in found.items()}


async def test_values_of_a_source(site: Site) -> None:
    site.source("door", events=3, offset=2 * S)
    site.say("main/door", a_data(5, 2, site.now), a_data(0, 3, site.now))
    site.feed.publish([a_result(1), a_result(1, "-"), a_result(2)])
    found = await families(site)

    def value(name: str, **labels: str) -> float:
        (one,) = [
            sample.value
            for family in found.values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        return one

    door = {"site": "main", "source": "door"}
    assert value("slackwater_events_received_total") == 8
    assert value("slackwater_source_events_recorded_total", **door) == 5
    assert value("slackwater_source_events_duplicate_total", **door) == 3
    assert value("slackwater_events_unbalanced") == 0
    assert value("slackwater_events_logged_total") == 5
    assert value("slackwater_source_clock_offset_seconds", **door) == 2
    assert value("slackwater_source_missing", **door) == 2
    assert value("slackwater_source_gaps", **door) == 1
    assert value("slackwater_source_up", **door) == 1
    assert value("slackwater_sources", state="connected") == 1
    assert value("slackwater_results_inserted_total") == 2
    assert value("slackwater_results_retracted_total") == 1
    seen = value("slackwater_source_last_seen_timestamp_seconds", **door)
    assert EPOCH / S <= seen <= site.now / S


async def test_addresses_that_are_turned_away_are_counted() -> None:
    """In the metrics by their reason, and on the page, which lists what it is given."""
    site = Site(tokens={}, listen="0.0.0.0", connections_per_address=2, failed_logins_per_minute=1)
    for number in range(5):
        site.core.connected(number, site.now, "10.0.0.7")
    site.say("door", a_hello("door"))  # from this machine: refused, and not counted by its address
    site.core.received(0, wire.encode(a_hello("door")), site.now)
    site.core.connected("late", site.now, "10.0.0.7")
    samples = (await families(site))["slackwater_faults"].samples
    found = {each.labels["reason"]: each.value for each in samples}
    assert found == {"connections_per_address": 3, "failed_logins_per_minute": 1, "token": 2}
    assert site.overview.sums.faults == found


async def test_names_follow_the_conventions(site: Site) -> None:
    site.source("door")
    for name, family in (await families(site)).items():
        assert re.fullmatch(r"slackwater_[a-z]+(_[a-z]+)*", name)
        assert family.documentation.endswith(".")
        assert family.type in ("counter", "gauge")
        for unit in ("_ms", "_ns", "_milliseconds", "_percent"):
            assert unit not in name
        for sample in family.samples:
            assert set(sample.labels) <= {"query", "site", "source", "state", "reason"}


async def test_every_metric_is_documented_and_no_other(site: Site) -> None:
    site.source("door")
    site.overview.answers.failed.append(FAILED)
    gateway = (ROOT / "docs/reference/metrics.md").read_text().split("## Of an agent")[0]
    assert set(re.findall(r"`(slackwater_[a-z_]+)`", gateway)) == sample_names(await families(site))


async def test_the_dashboard_names_metrics_that_are_there(site: Site) -> None:
    site.source("door")
    known = sample_names(await families(site))
    board = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries = [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    assert len(expressions) > 15
    for expression in expressions + queries:
        used = set(NAME.findall(expression))
        assert used, expression
        assert used <= known, expression
    labels = re.findall(r"\{\{(\w+)\}\}", json.dumps(board))
    assert set(labels) == {"site", "source", "state", "reason"}


async def test_attack_03_failed_queries_have_a_series_each(site: Site) -> None:
    answers = site.overview.answers
    answers.running = False
    answers.failed += [{**FAILED, "site": f"s{number}"} for number in range(9)]
    found = await families(site, metrics_sources_max=3)
    assert found["slackwater_answers_running"].samples[0].value == 0
    assert found["slackwater_queries_failed"].samples[0].value == 9
    labels = [sample.labels for sample in found["slackwater_query_failed"].samples]
    assert labels == [{"query": "q", "site": f"s{number}"} for number in range(3)]


async def test_hostile_names_stay_labels(site: Site) -> None:
    site.source(HOSTILE)
    family = (await families(site))["slackwater_source_up"]
    (sample,) = family.samples
    assert sample.labels == {"site": "main", "source": HOSTILE}


async def test_only_a_source_that_has_not_ended_can_be_away(site: Site) -> None:
    for name in ("talks", "left", "done"):
        site.source(name)
    site.core.disconnected("main/left", site.now)
    site.say("main/done", m.Eos(1, site.now, (3,)))
    site.core.disconnected("main/done", site.now)
    up = (await families(site))["slackwater_source_up"].samples
    assert {each.labels["source"]: each.value for each in up} == {"talks": 1, "left": 0}


async def test_sources_beyond_the_limit_have_no_series(site: Site) -> None:
    for number in range(20):
        site.source(f"s{number}", events=1)
    found = await families(site, metrics_sources_max=7)
    (left,) = found["slackwater_sources_without_series"].samples
    assert left.value == 13
    for name, family in found.items():
        if name.startswith("slackwater_source_"):
            assert len(family.samples) == 7, name
    (total,) = found["slackwater_events_recorded"].samples
    assert total.value == 20


async def test_each_sink_has_its_figures(site: Site) -> None:
    figures = SinkFigures(
        "crm", 7, 3, 2, 1000, 1.5, is_far_behind=True, delivered_at=1.75e9, waits="x" * 5000
    )
    site.overview.answers.sinks = [asdict(figures), asdict(SinkFigures("other"))]
    found = await families(site)
    values = {
        sample.name: sample.value
        for family in found.values()
        for sample in family.samples
        if sample.labels == {"sink": "crm"}
    }
    assert values == {
        "slackwater_sink_delivered_total": 7,
        "slackwater_sink_retries_total": 3,
        "slackwater_sink_dead_total": 2,
        "slackwater_sink_behind_bytes": 1000,
        "slackwater_sink_behind_seconds": 1.5,
        "slackwater_sink_far_behind": 1,
        "slackwater_sink_last_delivery_timestamp_seconds": 1.75e9,
    }
    last = found["slackwater_sink_last_delivery_timestamp_seconds"].samples
    assert [sample.labels["sink"] for sample in last] == ["crm"]
    async with site.client() as client:
        state = await (await client.get("/state")).json()
    assert [sink["name"] for sink in state["answers"]["sinks"]] == ["crm", "other"]
    assert state["answers"]["sinks"][0]["waits"] == "x" * 199 + "…"
