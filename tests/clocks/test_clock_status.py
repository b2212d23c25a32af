"""Results carry the worst status of their clocks, in the words of ClockBound (SPEC 2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import slackwater
from tests.clocks.test_clock_cases import answers, event, sync

S = 10**9
MINUTE = 60 * S
Record = dict[str, Any]
PAIR = "EVENT SEQ(A a, B b) WITHIN 1 s"


def pair(at: int, **more: Any) -> list[Record]:
    """An A of p and a B of q, 0.1 s apart."""
    return [event("p", "A", at, **more), event("q", "B", at + S // 10, **more)]


def statuses(records: list[Record], **settings: Any) -> list[str | None]:
    return [each.get("clock_status") for each in answers(PAIR, records, **settings)]


def syncs(**more: Any) -> list[Record]:
    return [sync(source, 0, skew_error_ppb=1000, **more) for source in "pq"]


def test_a_synchronized_clock_says_nothing() -> None:
    assert statuses([*syncs(), *pair(4 * MINUTE)]) == [None]
    assert statuses(pair(MINUTE)) == [None]  # exact clocks


@pytest.mark.parametrize("at", [6 * MINUTE, -6 * MINUTE])
def test_far_from_its_sync_a_clock_is_free_running(at: int) -> None:
    assert statuses([*syncs(), *pair(at)]) == ["free-running"]
    # The offset of p never ages, as its sync states.
    never = [sync("p", 0), syncs()[1], *pair(at)]
    assert statuses(never) == ["free-running"]
    assert statuses([sync("p", 0), sync("q", 0), *pair(at)]) == [None]


def test_between_the_syncs_of_a_step_a_clock_is_disrupted() -> None:
    step = sync("p", MINUTE, 5 * S, skew_error_ppb=1000)
    assert statuses([*syncs(), step, *pair(MINUTE // 2)]) == ["disrupted"]
    late = [event("p", "A", 2 * MINUTE), event("q", "B", 2 * MINUTE + 5 * S + S // 10)]
    assert statuses([*syncs(), step, *late]) == [None]


def test_a_refuted_clock_is_disrupted_until_its_next_sync() -> None:
    early = event("p", "C", MINUTE, arrival=MINUTE - S // 2)
    records = [*syncs(), early, *pair(MINUTE + 2 * S, arrival=MINUTE + 3 * S)]
    assert statuses(records, guard=S) == ["disrupted"]
    again = sync("p", MINUTE + 4 * S, skew_error_ppb=1000, arrival=MINUTE + 4 * S)
    later = pair(MINUTE + 5 * S, arrival=MINUTE + 6 * S)
    assert statuses([*syncs(), early, again, *later], guard=S) == [None]


@pytest.mark.filterwarnings("ignore::slackwater.SlackwaterWarning")
@pytest.mark.parametrize("known", [True, False])
def test_every_format_says_so(tmp_path: Path, known: bool) -> None:
    """Of a clock that is free-running, and of one of which nothing is known."""
    first = sync("p", 0, skew_error_ppb=1000)
    records = [first, *(syncs()[1:] if known else []), *pair(MINUTE), *pair(6 * MINUTE)]
    trace = tmp_path / "t.jsonl"
    lines = [json.dumps(record | {"arrival": 10 * MINUTE}) for record in records]
    trace.write_text("\n".join(lines) + "\n")
    expected = [None, "free-running"] if known else ["unknown"] * 2
    with slackwater.query(trace, PAIR, order="kslack:1s") as found:
        assert [each.get("clock_status") for each in found] == expected
        for name in ("o.jsonl", "o.parquet", "o.csv"):
            found.write(tmp_path / name)
    written = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [each.get("clock_status") for each in written] == expected
    words = [word or "" for word in expected]
    table = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert [row["clock_status"] for row in table] == expected
    rows = (tmp_path / "o.csv").read_text().splitlines()[1:]
    assert all(word in row for row, word in zip(rows, words, strict=True))


TOTALS = (
    "CREATE STREAM w AS SELECT sum(n) AS s {} WINDOW TUMBLING 1 s; SELECT sum(s) AS s FROM w {}"
)
OF_SEVERAL = [
    "SELECT count(*) AS s {} WINDOW TUMBLING 1 s",
    "SELECT count(*) AS s {} WHERE n = 1 WINDOW TUMBLING 1 s",
    TOTALS.format("{} GROUP BY source", "WINDOW TUMBLING 2 s"),
]
OF_ONE = [
    "SELECT count(*) AS s {} WHERE source = 'p' WINDOW TUMBLING 1 s",
    "SELECT count(*) AS s {} WHERE type IN ('A') OR 'C' = type WINDOW TUMBLING 1 s",
    "SELECT count(*) AS s {} WHERE NOT (type = 'B' OR n > 7) WINDOW TUMBLING 1 s",
    TOTALS.format("{} GROUP BY source", "WHERE source != 'q' WINDOW TUMBLING 2 s"),
    TOTALS.format("{} WHERE type = 'A'", "WINDOW TUMBLING 2 s"),
]


@pytest.mark.filterwarnings("ignore::slackwater.SlackwaterWarning")
@pytest.mark.parametrize("text", OF_SEVERAL + OF_ONE)
@pytest.mark.parametrize("stream", ["", "FROM mine"])
@pytest.mark.parametrize("synced", [None, "first", "last"])
def test_windows_of_a_file_that_may_have_an_unknown_clocks_event_are_unknown(
    tmp_path: Path, text: str, stream: str, synced: str | None
) -> None:
    """Those, too, that end long before the first event of q comes."""
    events = [event("p", "A", n * S, arrival=n * S, attrs={"n": 1}, stream="mine")
              for n in range(1, 4)]  # fmt: skip
    events.append(event("q", "B", 60 * S, arrival=60 * S, attrs={"n": 1}, stream="mine"))
    events.append(event("r", "A", 61 * S, arrival=61 * S, attrs={"n": 1}, stream="theirs"))
    syncs_ = [sync(source, 0) for source in "pqr"]
    after = [each | {"arrival": 62 * S} for each in syncs_]
    records = {None: events, "first": [*syncs_, *events], "last": [*events, *after]}[synced]
    trace = tmp_path / "t.jsonl"
    trace.write_text("".join(json.dumps(record) + "\n" for record in records))
    with slackwater.query(trace, text.format(stream), order="kslack:1s") as found:
        rows = [row.get("certainty") for row in found if row["query"] != "w"]
    is_one = text in OF_ONE and (stream or "source = 'p'" in text)
    assert rows
    assert all((word == "unknown") == (synced != "first" and not is_one) for word in rows)
