"""Chains over a log of several sites, in this process: sites are apart, and runs repeat.

One log is simulated (lossy, repeating, reordering links, wrong clocks, restarts), one made by hand,
with records of all kinds.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from slackwater.edge_agent.records import Kind
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts import pipeline
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.export import export_jsonl, export_table
from slackwater.engine.output.ordered_stream import export_ordered_jsonl, export_ordered_table
from slackwater.engine.output.schema import MATCHES, WINDOWS
from slackwater.engine.query import query
from slackwater.simulator.run import simulate_to
from slackwater.simulator.scenario import read_scenario

SITES = ("north", "south", "west")
ORDERS = (
    "none",
    "sequence",
    "sequence:timeout=r19,late=pass",
    "sequence:timeout=fixed:15ms,residual=drop",
    "kslack:20ms,late=drop",
    "mp-kslack",
    "aq-kslack:error=0.1,window=20ms,agg=count",
    "ldop:window=5ms,late=drop",
)
QUERIES = {
    "count": "SELECT count(*) FROM events WINDOW TUMBLING 100 ms",
    "shifted": "SELECT count(*) FROM events WINDOW TUMBLING 200 ms DRIFT together",
    "pairs": "EVENT SEQ(A a, B b) WITHIN 2 ms",
}


def source(name: str, site: str, number: int) -> dict[str, Any]:
    """A device whose clock is ``number`` * 7 ms off, behind an unruly link."""
    delay = {"model": "lognormal", "median": "20 ms", "sigma": 0.8}
    return {
        "name": name, "site": site, "connections": 2, "resend": False,
        "clock": {"offset": f"{7 * number} ms", "wander_ppb": 50},
        "up": {"delay": delay, "loss": 0.02, "duplicate": 0.03, "correlation": 0.5},
        "restarts": ["150 ms"] if number == 1 else [],
        "heartbeat": "100 ms",
        "workload": {"model": "poisson", "mean": f"{6 + number} ms", "type": "AB"[number % 2]},
    }  # fmt: skip


@pytest.fixture(scope="module", name="log")
def _log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated log of three sites; the first two have sources of the same names."""
    counts = dict(zip(SITES, (2, 3, 1), strict=True))
    sources = [source(f"s{n}", site, n) for site in SITES for n in range(counts[site])]
    world = {"name": "sites", "seed": 11, "duration": "300 ms", "sources": sources}
    folder = tmp_path_factory.mktemp("log") / "run"
    simulate_to(read_scenario(world), folder, Path("no-recordings"))
    return folder / "log"


def settings(order: str, only: str | None = None, ordered: str = "full") -> ChainSettings:
    asked = {name: text for name, text in QUERIES.items() if only in (None, name)}
    if order.startswith("aq-kslack"):
        asked.pop("pairs", None)  # it serves no patterns
    plans = [query(text, name=name) for name, text in asked.items()]
    return ChainSettings(parse_order(order), tuple(plans), guards=Guards(), ordered=ordered)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power cut happens here, and waiting for the disk is most of the time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@dataclass(frozen=True)
class PassOutput:
    """What a pass said: results and ordered events as JSON lines, and counters per site."""

    results: str
    ordered: str
    counters: dict[str, Any]

    def of_site(self, site: str) -> PassOutput:
        """What it said of one site."""
        results, ordered = (
            "".join(line for line in text.splitlines(keepends=True)
                    if json.loads(line).get("site", "main") == site)
            for text in (self.results, self.ordered)
        )  # fmt: skip
        return PassOutput(results, ordered, {site: self.counters[site]})


def run(log: Path, order: str, out: Path) -> PassOutput:
    counters = run_in_process(log, settings(order), out)
    results, ordered = io.StringIO(), io.StringIO()
    export_jsonl(out, results, queries=list(QUERIES))
    export_ordered_jsonl(out, ordered)
    return PassOutput(results.getvalue(), ordered.getvalue(), counters["sites"])


@pytest.fixture(scope="module", name="whole")
def _whole(log: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, PassOutput]:
    """What each order says of the whole log."""
    return {order: run(log, order, tmp_path_factory.mktemp("whole")) for order in ORDERS}


def rewritten(log: Path, out: Path, sites: tuple[str, ...], rows_per_file: int = 10**6) -> Path:
    """The frames of ``sites`` as a new log, each site after the other."""
    frames = list(LogReader(log))
    with LogWriter(out, rows_per_file) as writer:
        for site in sites:
            for frame in frames:
                if frame.site == site:
                    writer.append(frame)
    return out


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every file, but for the one that says how long the pass took."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "counters.json"
    }


@pytest.mark.parametrize("order", ORDERS)
def test_every_site_is_apart(
    log: Path, whole: dict[str, PassOutput], order: str, tmp_path: Path
) -> None:
    together = whole[order]
    assert set(together.counters) == set(SITES)
    for site in SITES[1:]:
        alone = run(rewritten(log, tmp_path / f"{site}.log", (site,)), order, tmp_path / site)
        assert alone == together.of_site(site)
        assert alone.ordered.count("\n") > 30
        assert {json.loads(line)["query"] for line in alone.results.splitlines()} >= {
            "count", "shifted",
        }  # fmt: skip
        for line in alone.results.splitlines():
            for event in json.loads(line).get("events", ()):
                assert event["site"] == site


def test_what_an_earlier_pass_left_in_the_folder_goes(log: Path, tmp_path: Path) -> None:
    first = run(log, "none", tmp_path / "a")
    run_in_process(log, settings("sequence", "pairs", "no"), tmp_path / "b")
    assert run(log, "none", tmp_path / "b") == first
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")
    run_in_process(log, settings("none", "pairs", "no"), tmp_path / "b")
    assert not any(name.startswith(("windows", "ordered")) for name in hashes(tmp_path / "b"))


@pytest.mark.parametrize("order", ORDERS)
def test_how_sites_mix_and_where_batches_end_has_no_effect(
    log: Path,
    whole: dict[str, PassOutput],
    order: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    once = whole[order]
    turned = rewritten(log, tmp_path / "turned.log", SITES[::-1], rows_per_file=200)
    emitted = [run(turned, order, tmp_path / "turned")]
    monkeypatch.setattr(pipeline, "_ROWS_PER_BATCH", 97)
    monkeypatch.setattr("slackwater.engine.core.frame.FRAMES_AT_ONCE", 5)
    emitted.append(run(log, order, tmp_path / "in batches of few frames"))
    for each in emitted:
        assert (each.results, each.ordered) == (once.results, once.ordered)
        for site in SITES:
            assert each.counters[site]["lanes"] == once.counters[site]["lanes"]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_the_same_alone_and_among_others(
    log: Path, whole: dict[str, PassOutput], name: str, tmp_path: Path
) -> None:
    """And the Parquet export holds what the JSON lines do, at the same bytes."""
    for number, order in enumerate(ORDERS[:5:2]):
        out = tmp_path / str(number)
        among = whole[order].results.splitlines()
        run_in_process(log, settings(order, name, "no"), out / "one")
        alone = io.StringIO()
        count = export_jsonl(out / "one", alone)
        assert alone.getvalue().splitlines() == [
            line for line in among if json.loads(line)["query"] == name
        ]
        files = []
        for attempt in ("x", "y"):
            kind = MATCHES if name == "pairs" else WINDOWS
            path = out / f"{attempt}.parquet"
            assert export_table(out / "one", path, kind) == count
            files.append(path.read_bytes())
        assert files[0] == files[1]
        table = pq.read_table(out / "x.parquet")
        shown = [json.loads(line) for line in alone.getvalue().splitlines()]
        for field in ("op", "query", "site", "at"):
            assert table.column(field).to_pylist() == [each[field] for each in shown]


@pytest.mark.parametrize("order", ORDERS)
def test_every_event_is_accounted_for(log: Path, whole: dict[str, PassOutput], order: str) -> None:
    """No event of a site comes twice, none comes from nowhere, and windows count the released."""
    arrived: dict[str, Counter[tuple[Any, ...]]] = {site: Counter() for site in SITES}
    for frame in LogReader(log):
        for each in frame.batch.to_pylist():
            if (each.get("kind") or 0) == Kind.EVENT:
                numbered = (each["source"], each.get("incarnation") or 0, each["seq"], each["ts"])
                arrived[frame.site][numbered] += 1
    emitted = whole[order]
    for site in SITES:
        mine = [json.loads(line) for line in emitted.of_site(site).ordered.splitlines()]
        keys = Counter((e["source"], e.get("incarnation", 0), e["seq"], e["ts"]) for e in mine)
        assert keys <= arrived[site]
        lanes = emitted.counters[site]["lanes"]
        assert sum(lane["arrived"] for lane in lanes) == arrived[site].total()
        dropped = sum(
            lane.get(name, 0)
            for lane in lanes
            for name in ("duplicate", "late_dropped", "residual_dropped", "quarantined_future",
                         "quarantined_jump")
        )  # fmt: skip
        assert len(mine) + dropped == arrived[site].total()
        assert [e["release"] for e in mine] == sorted(e["release"] for e in mine)
        if order != "none":
            assert max(keys.values()) == 1
            refs = [e["ref"] for e in mine if not e["late"]]
            assert refs == sorted(refs)
        else:
            counts = [
                each["value"]["count(*)"] * (1 if each["op"] == "+" else -1)
                for each in map(json.loads, emitted.of_site(site).results.splitlines())
                if each["query"] == "count"
            ]
            lost = emitted.counters[site]["queries"]["count"]
            assert sum(counts) == len(mine) - sum(lost.values()), lost


def trace_of_all_kinds() -> str:
    """Two sites that say the same words at the same instants, and each something of its own."""
    lines = []
    for at in range(60):
        for site, source_ in (("left", "x"), ("right", "x"), ("right", "y")):
            own: dict[str, Any] = {"site": site, "source": source_, "arrival": 10 * at}
            what: dict[str, Any] = {"ts": 10 * at - at % 7, "seq": at ^ (at % 3 == 1)}
            if at == 0:
                what = {"kind": "sync", "offset": len(site) - 4, "delay": 6, "first_seq": 0}
            elif at == 59:
                what = {"kind": "eos"}
            elif at % 13 == 5:
                what = {"kind": "pog", "ts": 10 * at - 9}
            elif at % 13 == 7 and source_ == "x":
                own, what = {"site": site, "arrival": 10 * at}, {"kind": "tick"}
            elif at % 13 == 9:
                what = {"kind": "ibp", "ts": 10 * at, "type": "I", "id": at}
            else:
                what |= {"type": "AB"[at % 2], "attrs": {"v" if site == "left" else "w": at}}
            lines.append(json.dumps(own | what))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("order", ORDERS[::2])
def test_records_of_all_kinds_in_two_sites(order: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(trace_of_all_kinds(), encoding="utf-8")
    frames: list[Frame] = list(TraceRead(tmp_path / "t.jsonl", "ms"))
    with LogWriter(tmp_path / "log") as writer:
        for frame in frames:
            for start in range(0, frame.rows, 7):
                writer.append(frame.slice(start, min(7, frame.rows - start)))
    together = run(tmp_path / "log", order, tmp_path / "all")
    for site, sources in (("left", 1), ("right", 2)):
        alone = rewritten(tmp_path / "log", tmp_path / site, (site,))
        assert run(alone, order, tmp_path / f"{site} alone") == together.of_site(site)
        kinds = together.counters[site]["records"]
        assert {name: kinds[name] for name in ("sync", "pog", "tick", "ibp", "eos")} == {
            "sync": sources, "pog": 5 * sources, "tick": 4, "ibp": 4 * sources,
            "eos": sources,
        }  # fmt: skip
        names = {name for line in together.of_site(site).ordered.splitlines()
                 for name in json.loads(line).get("attrs", {})}  # fmt: skip
        assert names == {"v" if site == "left" else "w"}
    export_ordered_table(tmp_path / "all", tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").num_rows == together.ordered.count("\n")
