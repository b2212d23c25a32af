"""Run directories made by hand, as a scenario, the simulator and the engine would leave them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.scenario import Claim, Pass, Score, Table

MS = 10**6
SECOND = 10**9
START_NS = 1_767_225_600 * SECOND
COUNTERS = (
    "arrived", "in_order", "residual", "late_passed", "late_dropped", "duplicate",
    "quarantined_future", "quarantined_jump", "missing_total", "missing_filled",
    "residual_dropped", "gap_timeout", "idle_timeout",
)  # fmt: skip


@dataclass
class Run:
    """A run directory; call ``write`` once, then change its files as a test wants.

    Each source makes an event per ``period_ns``; one in ``lose_every`` is lost, delays are
    exponential. ``sequence`` releases in order of ref with the latest arrival so far.
    """

    directory: Path
    sources: tuple[str, ...] = ("s0", "s1", "s2")
    events: int = 200
    lose_every: int = 20
    period_ns: int = 10 * MS
    truth: bool = True
    sites: tuple[str, ...] = ("main",)
    unc_ns: int = 4 * MS
    passes: tuple[Pass, ...] = (Pass("sequence", "sequence"), Pass("none", "none"))
    score: Score = field(default_factory=lambda: Score((Claim("All is well", holds=True),)))
    queries: dict[str, str] = field(default_factory=dict)
    title: str = "A run"

    def write(self) -> Run:
        self.directory.mkdir(parents=True, exist_ok=True)
        generator = np.random.default_rng(7)
        made = [
            self._source(generator, site, place, source)
            for site in self.sites
            for place, source in enumerate(self.sources)
        ]
        events = {
            name: np.concatenate([np.asarray(each[name]) for each in made]) for name in made[0]
        }
        if self.truth:
            (self.directory / "truth").mkdir()
            names = ("site", "source", "stream", "seq", "incarnation", "true_ts", "ts")
            truth = pa.table({name: events[name] for name in names})
            pq.write_table(truth, self.directory / "truth" / "events.parquet")
        arrived = {name: column[~events["lost"]] for name, column in events.items()}
        for each in self.passes:
            self._pass(each, arrived)
        (self.directory / "manifest.json").write_text(json.dumps(self._manifest(events)))
        return self

    def _source(self, generator: Any, site: str, place: int, source: str) -> dict[str, Any]:
        n = self.events
        true_ts = START_NS + place * MS + np.arange(n) * self.period_ns
        error = (generator.normal(0, 1, n) * MS).astype(np.int64)
        number = np.arange(n)
        return {
            "site": np.full(n, site, object),
            "source": np.full(n, source, object),
            "stream": np.full(n, "events", object),
            "type": np.full(n, "reading", object),
            "seq": number,
            "incarnation": np.zeros(n, np.int64),
            "true_ts": true_ts,
            "ts": true_ts - place * 5 * MS,
            "ref": true_ts + error,
            "lost": number % self.lose_every == self.lose_every - 1,
            "arrival": true_ts + 2 * MS + (generator.exponential(12, n) * MS).astype(np.int64),
        }

    def _pass(self, each: Pass, arrived: dict[str, np.ndarray]) -> None:
        folder = self.directory / "runs" / each.label / "ordered"
        folder.mkdir(parents=True)
        by = "arrival" if each.order == "none" else "ref"
        order = np.lexsort((arrived[by], arrived["site"]))
        rows = {name: column[order] for name, column in arrived.items()}
        rows["release"] = rows["arrival"].copy()
        for site in self.sites:
            mine = rows["site"] == site
            rows["release"][mine] = np.maximum.accumulate(rows["arrival"][mine])
        names = (
            "site", "stream", "source", "type", "seq", "incarnation", "ts", "ref", "arrival",
            "release",
        )  # fmt: skip
        table = pa.table({name: rows[name] for name in names}).append_column(
            "te", pa.array(rows["ts"])
        )
        n = table.num_rows
        table = table.append_column("unc", pa.array(np.full(n, self.unc_ns, np.int64)))
        table = table.append_column("status", pa.array(np.zeros(n, np.int8)))
        half = n // 2
        pq.write_table(table.slice(0, half), folder / "batch-000000000000-0.parquet")
        pq.write_table(table.slice(half), folder / "batch-000000000001-0.parquet")
        lanes = {site: [self._lane(site, each, name, rows) for name in self.sources]
                 for site in self.sites}  # fmt: skip
        counters = {
            "order": each.order, "seconds": 0.5, "events": n, "host": "in-process",
            "sites": {
                site: {
                    "t_a": 2 * self.unc_ns,
                    "buffered_max": 17,
                    "records": {"event": sum(lane["arrived"] for lane in lanes[site]), "sync": 3},
                    "lanes": lanes[site],
                    "last_arrival": int(rows["arrival"].max(initial=0)),
                    "quarantined": [],
                    "queries": {name: {"windows": 3} for name in self.queries},
                }
                for site in self.sites
            },
        }  # fmt: skip
        (folder.parent / "counters.json").write_text(json.dumps(counters))

    def _lane(self, site: str, each: Pass, source: str, rows: dict[str, Any]) -> dict[str, Any]:
        n = int(((rows["source"] == source) & (rows["site"] == site)).sum())
        lost = self.events - n if each.order != "none" else 0
        counts = dict.fromkeys(COUNTERS, 0)
        counts |= {"arrived": n, "in_order": n, "missing_total": lost, "idle": False}
        return {"source": source, "stream": "events", **counts}

    def _manifest(self, events: dict[str, np.ndarray]) -> dict[str, Any]:
        if not self.truth:
            return {"scenario": "test", "log_sha256": "ab" * 32, "versions": {"python": "3.11"}}
        accounts = {}
        for source in self.sources:
            mine = events["source"] == source
            n, lost = int(mine.sum()), int(events["lost"][mine].sum())
            links = {"entered": n, "left": n - lost, "copied": 0, "lost": lost, "cut": 0,
                     "queue_dropped": 0}  # fmt: skip
            accounts[source] = {
                "generated": n, "accepted": n, "refused_by_agent": {}, "forgotten": 0,
                "not_polled": 0, "link_events": links, "closed": 0, "under_way": 0,
                "delivered": n - lost, "known": 0, "refused_by_gateway": 0, "unheard": 0,
                "logged": n - lost, "missing": lost,
            }  # fmt: skip
        return {
            "scenario": "test", "seed": 7, "versions": {"python": "3.11"},
            "log_sha256": "ab" * 32, "options": {"name": "test"}, "events_by_source": accounts,
        }  # fmt: skip

    def results(self, *lines: dict[str, Any]) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.directory / "results.jsonl").write_text(text)

    def change_json(self, name: str, change: Callable[[Any], None]) -> None:
        """Lets ``change`` edit a JSON file of the run in place."""
        path = self.directory / name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))


def window(start: int, value: float, **given: Any) -> dict[str, Any]:
    """A result line of a window of 1 s that starts ``start`` s after the beginning."""
    at = START_NS + start * SECOND
    return {
        "op": "+", "query": "speed", "site": "main", "at": at + SECOND + 30 * MS,
        "window": {"start": at, "end": at + SECOND}, "key": {}, "value": {"avg(v)": value},
        "low": {"avg(v)": value - 1}, "middle": {"avg(v)": value}, "high": {"avg(v)": value + 1},
        "certain": 90, "ambiguous": 10, "missing": 0, **given,
    }  # fmt: skip


def match(second: float, certainty: str = "confirmed", **given: Any) -> dict[str, Any]:
    """A result line of a match of two events, ``second`` s after the beginning."""
    ref = START_NS + int(second * SECOND)
    events = [
        {"site": "main", "stream": "events", "source": source, "seq": int(second * 100), "ts": ref,
         "type": "reading", "te": ref, "ref": ref - back, "attrs": {}}
        for source, back in (("s0", 5 * MS), ("s1", 0))
    ]  # fmt: skip
    return {
        "op": "+", "query": "goal", "site": "main", "at": ref + 40 * MS, "known_at": ref + 40 * MS,
        "certainty": certainty, "probability": 1.0 if certainty == "confirmed" else 0.7,
        "events": events, **given,
    }  # fmt: skip


@pytest.fixture
def rich_run(tmp_path: Path) -> Run:
    """A run with everything: three sources, two passes, windows, matches, truth, a table."""
    speeds = [10.0, 12.0, 11.0]
    truth = [{"start": START_NS + n * SECOND, "key": {}, "value": {"avg(v)": speed}}
             for n, speed in enumerate([10.5, 15.0, 11.5])]  # fmt: skip
    score = Score(
        (Claim("Every goal was found", True, "2 of 2"), Claim("Nothing was invented", True)),
        (Table("Goals", ("goal", "found"), (("first", "yes"), ("second", "yes")), "A note."),),
        {
            "windows_truth": {"speed": truth},
            "true_matches": [
                {"at_ref_ns": START_NS + SECOND // 2},
                {"at_ref_ns": START_NS + SECOND},
            ],
        },
    )
    queries = {"speed": "SELECT avg(v) FROM events WINDOW TUMBLING 1 s", "goal": "EVENT SEQ(A, B)"}
    run = Run(tmp_path / "run", score=score, queries=queries, title="A rich run").write()
    run.results(
        *(window(n, speed) for n, speed in enumerate(speeds)),
        match(0.5),
        match(1.0, "uncertain"),
        match(1.5),
        match(1.5, op="-"),
    )
    return run
