"""The score of the bookstore sees what is wrong: results made by hand against a small truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.core.frame import Frame
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.scenario import Pass, Score
from slackwater.scenarios.bookstore.alarm_scoring import score_run
from tests.results.written import write_results

MS = 10**6
W = 100 * MS
READS = [
    # source, type, tag, true time [ms], in the log
    ("shelf-1", "SHELF", 1, 10, True),  # 1: stolen
    ("exit-1", "EXIT", 1, 50, True),
    ("exit-1", "EXIT", 1, 51, True),
    ("shelf-1", "SHELF", 2, 10, True),  # 2: bought
    ("counter-1", "COUNTER", 2, 30, True),
    ("exit-1", "EXIT", 2, 60, True),
    ("shelf-1", "SHELF", 3, 10, True),  # 3: bought, and no counter saw it
    ("exit-1", "EXIT", 3, 70, True),
    ("shelf-1", "SHELF", 4, 10, False),  # 4: stolen, and the read is lost
    ("exit-1", "EXIT", 4, 80, True),
    ("shelf-1", "SHELF", 5, 10, True),  # 5: stolen, after more than WITHIN
    ("exit-1", "EXIT", 5, 120, True),
]
FATES = {1: "stolen", 2: "bought", 3: "bought", 4: "stolen", 5: "stolen"}
EAGER, SURE = (
    Pass("immediate", "none", barrier="immediate"),
    Pass("punctuation", "none", barrier="punctuation"),
)


def numbered() -> list[dict[str, Any]]:
    next_seq: dict[str, int] = {}
    rows = []
    for source, zone, tag, true_ms, logged in READS:
        seq = next_seq.get(source, 0)
        next_seq[source] = seq + 1
        rows.append({"source": source, "seq": seq, "type": zone, "truth.tag": tag,
                     "true_ts": true_ms * MS, "logged": logged})  # fmt: skip
    return rows


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    rows = numbered()
    (tmp_path / "truth").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "truth" / "events.parquet")
    exits = {row["truth.tag"]: row["true_ts"] for row in rows if row["type"] == "EXIT"}
    books = [{"tag": tag, "fate": fate, "exit_ns": exits[tag] - MS} for tag, fate in FATES.items()]
    pq.write_table(pa.Table.from_pylist(books), tmp_path / "truth" / "books.parquet")
    there = [row for row in rows if row["logged"]]
    names = pa.array([row["source"] for row in there]).dictionary_encode()
    columns = {
        "source": names,
        "seq": pa.array([row["seq"] for row in there]),
        "ts": pa.array([row["true_ts"] for row in there]),
        "arrival": pa.array(range(len(there))),
    }
    with LogWriter(tmp_path / "log") as writer:
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        writer.append(Frame("main", batch))
    return tmp_path


def match(tag: int, at_ms: float, op: str = "+", certainty: str = "confirmed", exit_: int = 0,
          query: str = "thefts") -> dict[str, Any]:  # fmt: skip
    """A match of the tag's shelf read with its ``exit_``-th exit read."""
    mine = [row for row in numbered() if row["truth.tag"] == tag]
    pair = [next(row for row in mine if row["type"] == "SHELF"),
            [row for row in mine if row["type"] == "EXIT"][exit_]]  # fmt: skip
    events = [
        {"site": "main", "stream": "reads", "source": row["source"], "seq": row["seq"]}
        for row in pair
    ]
    return {"op": op, "query": query, "site": "main", "at": round(at_ms * MS), "known_at": 0,
            "certainty": certainty, "probability": 1.0, "events": events}  # fmt: skip


def scored(directory: Path, broken: int = 0, **results: list[dict[str, Any]]) -> Score:
    passes = [each for each in (SURE, EAGER) if each.label in results]
    for each in passes:
        place = directory / "runs" / each.label
        write_results(PartStore(place), 0, results[each.label])
        counters = {"sites": {"main": {"queries": {"thefts": {"promises_broken": broken}}}}}
        (place / "counters.json").write_text(json.dumps(counters))
    return score_run(directory, passes, W)


def holds(score: Score) -> list[bool]:
    return [claim.holds for claim in score.claims]


GOOD = [match(1, 200), match(1, 201, exit_=1), match(3, 210)]


def test_what_is_right_holds(directory: Path) -> None:
    eager = [match(1, 52), match(1, 53, exit_=1), match(2, 62), match(3, 72), match(2, 90, "-")]
    score = scored(directory, punctuation=GOOD, immediate=eager)
    assert holds(score) == [True] * 4
    barriers = score.facts["barriers"]
    assert barriers["immediate"] == {
        "delay_ms_p50": 2.0,  # the book came to the exit at 50 ms
        "emitted": 3,
        "thefts_missed": 0,
        "false_raised": 1,
        "false_confirmed": 1,
        "false_final": 0,
        "matches_emitted": 4,
        "matches_retracted": 1,
        "promises_broken": 0,
        "final": [1, 3],
    }
    assert barriers["punctuation"]["delay_ms_p50"] == 150.0
    assert (score.facts["thefts"], score.facts["thefts_arrived"]) == (3, 1)
    assert "faster by 148 ms" in score.claims[3].text
    assert [(series.name, series.x, series.y) for series in score.charts[0].series] == [
        ("punctuation", (150.0,), (0.0,)),
        ("immediate", (2.0,), (1.0,)),
    ]
    json.dumps(dict(score.facts))


def test_the_reads_table_counts_by_fate(directory: Path) -> None:
    _, seen = scored(directory, punctuation=GOOD).tables
    assert seen.rows == (
        ("bought", 2, 5, 2, 1, 2, 1, 1),
        ("stolen", 3, 7, 3, 0, 3, 2, 1),
        ("put back", 0, 0, 0, 0, 0, 0, 0),
    )


def test_a_theft_that_is_taken_back_is_missed(directory: Path) -> None:
    gone = [*GOOD, match(1, 300, "-"), match(1, 300, "-", exit_=1)]
    score = scored(directory, punctuation=gone, immediate=GOOD)
    assert holds(score) == [False, False, False, False]
    assert "punctuation misses 1" in score.claims[0].detail


def test_an_alarm_stands_while_one_of_its_matches_does(directory: Path) -> None:
    part = [*GOOD, match(1, 300, "-")]
    score = scored(directory, punctuation=part)
    assert score.facts["barriers"]["punctuation"]["thefts_missed"] == 0
    assert score.facts["barriers"]["punctuation"]["final"] == [1, 3]


def test_a_false_alarm_of_the_conservative_barrier_fails(directory: Path) -> None:
    score = scored(directory, punctuation=[*GOOD, match(2, 220)], immediate=GOOD)
    assert holds(score)[1:3] == [False, False]
    unsure = scored(directory, punctuation=[*GOOD, match(2, 220, certainty="uncertain")])
    assert holds(unsure) == [True, True, True]
    assert unsure.facts["barriers"]["punctuation"]["false_raised"] == 1


def test_a_false_alarm_that_stays_is_no_fair_price(directory: Path) -> None:
    score = scored(
        directory, punctuation=GOOD, immediate=[match(1, 52), match(2, 62), match(3, 72)]
    )
    assert holds(score) == [True, False, True, False]


def test_a_barrier_that_broke_its_promise_need_not_agree(directory: Path) -> None:
    score = scored(directory, broken=2, punctuation=[match(1, 200)])
    assert score.claims[1].text.startswith("All 0 barriers")
    assert holds(score) == [True, True, True]


def test_other_queries_are_not_counted(directory: Path) -> None:
    score = scored(directory, punctuation=[*GOOD, match(2, 1, query="other")])
    assert score.facts["barriers"]["punctuation"]["matches_emitted"] == 3
