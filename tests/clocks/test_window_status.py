"""Windows carry the worst status of the clocks of their events, as those were released (SPEC 2)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import slackwater
from slackwater.engine.core.clocks.epochs import STATUSES
from tests.clocks.test_clock_cases import answers, changes, event, sync

S = 10**9
MINUTE = 60 * S
Record = dict[str, Any]


def world(seed: int) -> list[Record]:
    """Two sources: p has one sync, at 0, q a step in it, too; an event each few seconds, at times
    when it cannot be in another window however wrong its clock is, some of them late.
    """
    chance = random.Random(seed)
    records = [sync(source, 0, skew_error_ppb=1000) for source in "pq"]
    records.append(sync("q", 2 * MINUTE, 3 * S, skew_error_ppb=1000))
    for n in range(60):
        source = chance.choice("pq")
        at = chance.randrange(0, 10 * MINUTE, 10 * S) + chance.choice([4, 5, 6]) * S
        at -= 3 * S if source == "q" and at > 2 * MINUTE else 0
        arrival = (n // 3 + 1) * 30 * S
        records.append(event(source, "A", at, arrival=max(arrival, at + 4 * S)))
    records.sort(key=lambda each: each["arrival"])
    for source in "pq":
        mine = [each for each in records if "type" in each and each["source"] == source]
        for number, each in enumerate(mine):
            each["seq"] = number
    return records


def status_of_each(records: list[Record]) -> dict[tuple[str, int], tuple[int, str]]:
    """By source and number: the time of each event, and the status of its clock, as rows say."""
    found = {}
    for row in answers("SELECT ref", records):
        (one,) = row["events"]
        status = row.get("clock_status", STATUSES[0])
        found[one["source"], one["seq"]] = (one["ref"], status)
    return found


TIMED = [
    "WINDOW TUMBLING 20 s", "WINDOW SLIDING 60 s EVERY 10 s", "WINDOW SLIDING 50 s EVERY 20 s",
    "WINDOW TUMBLING 40 s EMIT ON CHANGE", "WINDOW SESSION 9 s", "WINDOW ROWS 4 EVERY 3",
]  # fmt: skip


@pytest.mark.parametrize("window", TIMED)
@pytest.mark.parametrize("aggregate", ["count(*)", "median(raw_ts)", "sum(raw_ts)"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_window_says_the_worst_status_of_its_events(
    window: str, aggregate: str, seed: int
) -> None:
    records = world(seed)
    each = status_of_each(records)
    text = f"SELECT {aggregate} AS n GROUP BY source {window}"
    said = set[str | None]()
    found = answers(text, records, at_once=seed % 2 == 1)
    for result in found:
        start, end = result["window"]["start"], result["window"]["end"]
        ends = end + 1 if "ROWS" in window else end
        inside = [
            status
            for (source, _), (ref, status) in each.items()
            if source == result["key"]["source"] and start <= ref < ends
        ]
        worst = max(inside, key=STATUSES.index, default=STATUSES[0])
        assert result.get("clock_status", STATUSES[0]) == worst, (result, inside)
        said.add(worst)
    assert said == {"synchronized", "free-running", "disrupted"}


OF_WINDOWS = (
    "CREATE STREAM w AS SELECT count(*) AS n GROUP BY source WINDOW TUMBLING 20 s; "
    "SELECT sum(n) AS n FROM w GROUP BY source WINDOW TUMBLING 60 s"
)
OF_MATCHES = (
    "CREATE STREAM m AS EVENT SEQ(A a) RETURN a.source AS s; "
    "SELECT count(*) AS n FROM m GROUP BY s WINDOW TUMBLING 60 s"
)


@pytest.mark.parametrize("text", [OF_WINDOWS, OF_MATCHES])
def test_windows_over_results_say_what_these_say(text: str, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text("".join(json.dumps(record) + "\n" for record in world(1)))
    plain = "SELECT count(*) AS n GROUP BY source WINDOW TUMBLING 60 s"
    said: list[list[tuple[Any, ...]]] = []
    for each in (plain, text):
        with slackwater.query(trace, each, order="kslack:600s") as found:
            windows = [row for row in found if "window" in row and row["query"] != "w"]
        said.append(
            sorted(
                (row["window"]["start"], *row["key"].values(), row.get("clock_status") or "")
                for row in windows
            )
        )
    assert said[0] == said[1]


@pytest.mark.filterwarnings("ignore::slackwater.SlackwaterWarning")
@pytest.mark.parametrize("known", [True, False])
def test_every_format_says_so_of_windows(tmp_path: Path, known: bool) -> None:
    """Of a clock that is free-running, and of one of which nothing is known."""
    syncs = [sync(source, 0, skew_error_ppb=1000) for source in ("pq" if known else "p")]
    times = [(source, at) for at in (MINUTE, 6 * MINUTE) for source in "pq"]
    records = [*syncs, *(event(source, "A", at + S) for source, at in times)]
    trace = tmp_path / "t.jsonl"
    lines = [json.dumps(record | {"arrival": 10 * MINUTE}) for record in records]
    trace.write_text("\n".join(lines) + "\n")
    expected = [None, "free-running"] if known else ["unknown"] * 2
    text = "SELECT count(*) AS n WINDOW TUMBLING 1 min"
    with slackwater.query(trace, text, order="kslack:1s") as found:
        assert [each.get("clock_status") for each in found] == expected
        for name in ("o.jsonl", "o.parquet", "o.csv"):
            found.write(tmp_path / name)
    written = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [each.get("clock_status") for each in written] == expected
    table = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert [row["clock_status"] for row in table] == expected
    rows = (tmp_path / "o.csv").read_text().splitlines()[1:]
    words = [word or "" for word in expected]
    assert all(word in row for row, word in zip(rows, words, strict=True))


def test_a_late_event_of_a_worse_clock_corrects_a_window() -> None:
    """Although it changes nothing else: it has no value."""
    first = [sync(source, 0, skew_error_ppb=1000) for source in "pq"]
    at, last = 6 * MINUTE, 7 * MINUTE
    again = sync("q", at, skew_error_ppb=1000)
    records = [*first, again, event("q", "A", at + S, attrs={"n": 1}, arrival=at + S),
               event("q", "A", last, attrs={"n": 1}, arrival=last),
               event("p", "A", at + 2 * S, arrival=last + S)]  # fmt: skip
    text = "SELECT sum(n) AS n WINDOW TUMBLING 20 s"
    found = [
        (row["op"], row["value"]["n"], row.get("clock_status"))
        for row in changes(text, records)
        if row["window"]["start"] == at
    ]
    assert found == [("+", 1, None), ("-", 1, None), ("+", 1, "free-running")]
