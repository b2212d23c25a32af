"""Of a clock without sync, declaration or estimate nothing is confirmed (SPEC 2)."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater import SlackwaterWarning
from slackwater.engine.core.clocks.choice import read_clock
from slackwater.engine.core.errors import UserError

Record = dict[str, Any]
CASES = Path("/work/shared/cases/own-files")
APART = [
    {"type": "A", "source": "a", "ts": 1000, "arrival": 1100},
    {"type": "B", "source": "b", "ts": 1001, "arrival": 1101},
    {"type": "A", "source": "b", "ts": 2000, "arrival": 2100},
    {"type": "B", "source": "b", "ts": 2001, "arrival": 2101},
]
"""An A and a B of two sources, 1 ns apart, and of one."""
PAIR = "EVENT SEQ(A a, B b) WITHIN 10 ns"
WARNS = "nothing is known of the clock"


def written(path: Path, records: list[Record]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def answers(query: str, records: list[Record], path: Path, **options: Any) -> list[Record]:
    options = {"order": "kslack:100ns"} | options
    return list(slackwater.query(written(path / "t.jsonl", records), query, **options))


def certainties(found: list[Record]) -> list[str]:
    return [each["certainty"] for each in found]


@pytest.mark.parametrize(
    "query",
    [
        PAIR,
        "EVENT SEQ(A a, B b) WHERE a.ts < b.ts WITHIN 10 ns",
        "EVENT AND(A a, B b) WITHIN 10 ns",
        "EVENT SEQ(A a, B{1,2} b[]) WITHIN 10 ns",
        "EVENT ISEQ[A.te < B.ts](A, B) WITHIN 10 ns",
    ],
)
@pytest.mark.parametrize("order", ["sequence", "kslack:100ns", "none"])
def test_two_sources_without_a_sync_are_unknown_one_is_certain(
    tmp_path: Path, query: str, order: str
) -> None:
    with pytest.warns(SlackwaterWarning, match="clocks of a, b.*clock="):
        found = answers(query, APART, tmp_path, order=order)
    assert certainties(found) == ["unknown", "confirmed"]
    assert [each["probability"] for each in found] == [None, 1.0]


@pytest.mark.parametrize("clock", ["exact", ["exact"], ["a=0s", "b=0s±0ns"]])
def test_what_the_user_says_is_known(tmp_path: Path, clock: Any) -> None:
    assert certainties(answers(PAIR, APART, tmp_path, clock=clock)) == ["confirmed"] * 2


def test_an_offset_that_is_stated_moves_and_bounds(tmp_path: Path) -> None:
    """b is 3 ns ahead: its event came 2 ns before that of a, or after it by another 1 ns."""
    assert len(answers(PAIR, APART, tmp_path, clock="b=-3ns")) == 1
    found = answers(PAIR, APART, tmp_path, clock=["a=0ns", "b=-1ns±3ns"])
    assert certainties(found) == ["uncertain", "confirmed"]


def test_all_other_offsets_are_against_the_one_clock_of_which_nothing_is_said(
    tmp_path: Path,
) -> None:
    assert certainties(answers(PAIR, APART, tmp_path, clock="b=0ns")) == ["confirmed"] * 2


def test_a_single_source_is_as_certain_as_ever(tmp_path: Path) -> None:
    one = [record | {"source": "b"} for record in APART]
    assert certainties(answers(PAIR, one, tmp_path)) == ["confirmed"] * 2


def test_sources_of_one_clock_are_one(tmp_path: Path) -> None:
    one = [record | {"clock": "wall"} for record in APART]
    assert certainties(answers(PAIR, one, tmp_path)) == ["confirmed"] * 2


def test_a_sync_makes_a_clock_known(tmp_path: Path) -> None:
    syncs = [
        {"kind": "sync", "source": source, "offset": 0, "delay": 0, "ts": 0, "arrival": 0}
        for source in "ab"
    ]
    assert certainties(answers(PAIR, [*syncs, *APART], tmp_path)) == ["confirmed"] * 2


@pytest.mark.filterwarnings("ignore::slackwater.SlackwaterWarning")
def test_a_negated_step_is_of_any_clock_unless_it_is_tied_to_a_source(tmp_path: Path) -> None:
    query = "EVENT SEQ(A a, !C c, B b) WHERE {} WITHIN 10 ns"
    other = {"type": "C", "source": "c", "ts": 9000, "arrival": 9100}
    free = answers(query.format("a.source = b.source"), [*APART, other], tmp_path)
    tied = answers(query.format("a.source = b.source AND c.source = a.source"),
                   [*APART, other], tmp_path)  # fmt: skip
    assert certainties(free) == ["unknown"]
    assert certainties(tied) == ["confirmed"]


@pytest.mark.filterwarnings("ignore::slackwater.SlackwaterWarning")
@pytest.mark.parametrize("window", ["TUMBLING 10 ns", "ROWS 2", "SESSION 5 ns"])
def test_a_window_over_several_clocks_has_no_bounds(tmp_path: Path, window: str) -> None:
    found = answers(f"SELECT count(*) WINDOW {window}", APART, tmp_path)
    assert certainties(found) == ["unknown"] * 2
    assert [(each["low"], each["high"], each.get("bounds")) for each in found] == [(None,) * 3] * 2
    assert [each["value"] for each in found] == [{"count(*)": 2}] * 2
    by_source = answers(f"SELECT count(*) GROUP BY source WINDOW {window}", APART, tmp_path)
    assert "unknown" not in {each.get("certainty") for each in by_source}


@pytest.mark.filterwarnings("ignore::slackwater.SlackwaterWarning")
def test_results_of_unknown_results_are_unknown(tmp_path: Path) -> None:
    query = "CREATE STREAM p AS " + PAIR + "; EVENT SEQ(p x, p y) WITHIN 2 us"
    found = answers(query, APART, tmp_path)
    assert certainties([each for each in found if each["query"] != "p"]) == ["unknown"]


@pytest.mark.filterwarnings("ignore::slackwater.SlackwaterWarning")
def test_a_table_says_so_too(tmp_path: Path) -> None:
    found = slackwater.query(written(tmp_path / "t.jsonl", APART), PAIR, order="kslack:100ns")
    table = found.to_arrow()
    assert table.column("certainty").to_pylist() == ["unknown", "confirmed"]
    assert table.column("probability").to_pylist() == [None, 1.0]


def test_what_cannot_be_read_says_how_to_write_it(tmp_path: Path) -> None:
    for text, where in (("nonsense", "--clock nonsense"), ("b=x", "--clock b=x"),
                        (str(tmp_path / "no.toml"), "cannot be read")):  # fmt: skip
        with pytest.raises(UserError, match=where):
            read_clock(text)
    (tmp_path / "c.toml").write_text('badge = "-3.2s±0.1s"\n"r/wall" = "1ms +- 2us"\n')
    right = read_clock(["door=exact", "badge=-3.2s"])
    assert right == read_clock(["door=0s", "badge=-3.2s±0s"])
    assert not right.exact, "of other clocks nothing is said"
    choice = read_clock([str(tmp_path / "c.toml"), "x=5"], "ms")
    assert choice.declared == (
        ("badge", -3_200_000_000, 100_000_000), ("r/wall", 1_000_000, 2_000), ("x", 5_000_000, 0),
    )  # fmt: skip


@pytest.mark.skipif(not CASES.exists(), reason="no shared cases")
def test_own_files_08_door_and_badge(tmp_path: Path) -> None:
    """The badge server is 3.2 s fast: 15 alarms are true; of 46 nobody knows without a clock."""
    rows = []
    for name in ("door", "badge"):
        with (CASES / f"08_{name}.csv").open() as file:
            rows += [(row["time"], row["event"], name, row["room"]) for row in csv.DictReader(file)]
    both = tmp_path / "both.csv"
    both.write_text("ts,type,source,room\n" + "".join(",".join(row) + "\n" for row in sorted(rows)))
    query = "EVENT SEQ(door_open d, !badge b) WHERE d.room = b.room WITHIN 5 s"

    def net(**clock: Any) -> dict[str, int]:
        found: dict[str, int] = {}
        for each in slackwater.query(both, query, order="kslack:10s", **clock):
            sign = 1 if each["op"] == "+" else -1
            found[each["certainty"]] = found.get(each["certainty"], 0) + sign
        return found

    with pytest.warns(SlackwaterWarning, match=WARNS):
        assert net() == {"unknown": 46}
    assert net(clock="exact") == {"confirmed": 46}
    assert net(clock="badge=-3.2s±0.1s") == {"confirmed": 15}
    files = [str(CASES / f"08_{name}.csv") for name in ("door", "badge")]
    with pytest.warns(SlackwaterWarning, match="the clocks of 08_badge, 08_door"):
        found = slackwater.query(files, query, mapping={"ts": "time", "type": "event"})
    assert {each["certainty"] for each in found} == {"unknown"}
