"""The report of anybody's data, and two runs compared: as they are typed."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.apps.report.against import EVENTS as EVENTS_FILE
from slackwater.engine.apps.report.against import compared_events, keep_events
from slackwater.engine.cli.app import run as command

PAIRS = "EVENT SEQ(SHELF s, EXIT e) WHERE s.tag = e.tag WITHIN 10 s"
COUNTS = "SELECT source, count(*) GROUP BY source WINDOW TUMBLING 5 s"
SYNCS = """
{"kind": "sync", "source": "shelf", "offset": 0, "delay": 4, "first_seq": 0, "arrival": 900}
{"kind": "sync", "source": "door", "offset": 2000, "delay": 6, "first_seq": 0, "arrival": 901}
"""
EVENTS = (
    ("shelf", 0, "SHELF", 1000, 1010, "milk"), ("shelf", 2, "SHELF", 1200, 1215, "bread"),
    ("shelf", 1, "SHELF", 1100, 1240, "wine"), ("door", 0, "EXIT", 500, 2520, "milk"),
    ("shelf", 3, "SHELF", 4000, 4010, "gum"), ("door", 1, "EXIT", 2003, 4022, "gum"),
)  # fmt: skip


def shop(*left_out: str) -> str:
    lines = (
        {"source": source, "seq": seq, "type": kind, "ts": ts, "arrival": at, "attrs": {"tag": tag}}
        for source, seq, kind, ts, at, tag in EVENTS
        if tag not in left_out
    )
    return SYNCS.lstrip() + "".join(f"{json.dumps(line)}\n" for line in lines)


@pytest.fixture(autouse=True)
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.jsonl").write_text(shop())
    Path("less.jsonl").write_text(shop("wine", "milk"))


def query(report: str, source: str = "shop.jsonl", *more: str) -> int:
    return command(["query", PAIRS, COUNTS, "--input", source, "--time-unit", "ms", "--out",
                    "x.jsonl", "--quiet", "--report", report, *more])  # fmt: skip


def found(folder: str, name: str = "report.json") -> Any:
    return json.loads((Path(folder) / name).read_text(encoding="utf-8"))


def test_a_query_over_a_trace_has_the_page_without_what_only_the_truth_tells() -> None:
    assert query("story") == 0
    made, page = found("story"), Path("story/report.html").read_text(encoding="utf-8")
    assert made["verdict"]["headline"] == (
        "q1: 2 matches, 1 uncertain; q2: 2 windows, 0 miss events."
    )
    shown = {
        each["name"]: each["shown"].replace("\N{NO-BREAK SPACE}", " ") for each in made["kpis"]
    }
    assert shown["events arrived"] == "6"
    assert shown["q1: matches"] == "2"
    assert not made["clock_error"]["known"]
    assert made["over_time"]["clocks"]["spread_ns"] == 2 * 10**9
    assert "2\N{NO-BREAK SPACE}s apart" in page
    assert "tag=milk" in page
    assert 'id="matches-0-confirmed-0"' in page
    assert {path.name for path in Path("story").iterdir()} == {
        "report.html", "report.json", "results.jsonl", "events.parquet",
    }  # fmt: skip


def test_an_order_has_one_too_and_without_arrivals_nothing_is_reported_in_time() -> None:
    Path("rows.csv").write_text("source,ts,type\na,100,R\na,300,R\nb,200,R\n")
    assert command(["order", "--input", "rows.csv", "--time-unit", "ms", "--report", "story",
                    "--out", "x.jsonl", "--quiet"]) == 0  # fmt: skip
    made, page = found("story"), Path("story/report.html").read_text(encoding="utf-8")
    assert not made["run"]["arrival_given"]
    assert not [each for each in made["kpis"] if each["name"].startswith("held")]
    assert 'id="holds"' not in page
    assert "since the first event" in page or "first event" in page
    assert made["disorder"]["arrived_ref"]["out_of_order"] == 1
    assert 'id="matches"' not in page


def test_events_that_were_dropped_are_reported_and_the_banner_is_amber() -> None:
    rows = [
        ("a", 0, 0, 1),
        ("a", 2, 20, 21),
        ("a", 3, 900, 901),
        ("a", 1, 10, 2000),
        ("a", 4, 1990, 2001),
    ]
    lines = [json.dumps(dict(zip(("source", "seq", "ts", "arrival"), row, strict=True)))
             for row in rows]  # fmt: skip
    Path("late.jsonl").write_text("\n".join(lines) + "\n")
    for order, colour in (("sequence:late=drop,timeout=fixed:10ms", "care"), ("none", "holds")):
        assert command(["order", "--input", "late.jsonl", "--time-unit", "ms", "--order", order,
                        "--report", order[:4], "--out", "x.jsonl", "--quiet"]) == 0  # fmt: skip
        made = found(order[:4])
        page = Path(order[:4], "report.html").read_text(encoding="utf-8")
        assert f'<section id="verdict" class="{colour}">' in page
        shown = {each["name"]: each["shown"] for each in made["kpis"]}
        assert shown.get("dropped as too late") == ("20.0 %" if colour == "care" else None)
        assert ("20.0 % came too late and were dropped" in page) is (colour == "care")


def test_two_queries_are_compared_in_text_page_and_numbers(capfd: Any) -> None:
    assert query("before") == 0
    capfd.readouterr()
    assert query("now", "less.jsonl", "--against", "before") == 0
    reported = capfd.readouterr().err
    assert "events arrived: 6 -> 3  -3 (-50 %)" in reported
    assert "q1: 1 lost; 50.0 % of the earlier results stand" in reported
    assert "now/against.html" in reported
    against = found("now", "against.json")
    of_pairs, of_counts = (against["queries"][name] for name in ("q1", "q2"))
    counts = {name: of_pairs[name] for name in ("both", "lost", "new", "changed")}
    assert counts == {"both": 1, "lost": 1, "new": 0, "changed": 0}
    assert of_pairs["examples"]["lost"] == ["shelf #0, door #0: confirmed"]
    assert of_counts["changed"] == 2
    assert "shelf #0, door #0" in (Path("now") / "against.html").read_text(encoding="utf-8")


def test_the_same_run_against_itself_has_no_change(capfd: Any) -> None:
    assert query("before") == query("now", "shop.jsonl", "--against", "before") == 0
    assert "q1: the same 2 results" in capfd.readouterr().err
    against = found("now", "against.json")
    assert not [each for each in against["kpis"] if each["change"]]
    assert against["queries"]["q2"]["changed"] == 0


def order(report: str, *more: str) -> int:
    return command(["order", "--input", "shop.jsonl", "--time-unit", "ms", "--out", "x.jsonl",
                    "--quiet", "--report", report, *more])  # fmt: skip


def test_two_orders_are_compared_event_by_event(capfd: Any) -> None:
    assert order("before", "--order", "none") == 0
    assert order("now", "--against", "before") == 0
    reported = capfd.readouterr().err
    assert "events: the same 6; let go 161 ms later in the middle" in reported
    events = found("now", "against.json")["events"]
    counts = {name: events[name] for name in ("both", "lost", "new", "changed")}
    assert counts == {"both": 6, "lost": 0, "new": 0, "changed": 0}
    assert events["sooner_ns"]["max"] <= 0  # what is ordered waits
    page = (Path("now") / "against.html").read_text(encoding="utf-8")
    assert "Events lost, new, otherwise ordered" in page
    assert query("asked", "less.jsonl", "--against", "before") == 0
    events = found("asked", "against.json")["events"]
    assert (events["both"], events["lost"]) == (3, 3)
    assert "shelf #0: in order" in events["examples"]["lost"]


def test_a_report_without_its_events_is_compared_by_the_rest() -> None:
    assert order("before", "--order", "none") == 0
    Path("before/events.parquet").unlink()
    assert order("now", "--against", "before") == 0
    assert found("now", "against.json")["events"] is None
    page = (Path("now") / "against.html").read_text(encoding="utf-8")
    assert "kept no events" in page


@pytest.mark.parametrize(
    ("report", "more", "reported"),
    [
        ("story", ["--against", "nowhere"], "--against nowhere: no report.json there"),
        ("story", ["--against", "old"], "was made by another version"),
        ("mine", [], "mine: holds other files (own.txt); choose another"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_before_the_work(
    report: str, more: list[str], reported: str, capfd: Any
) -> None:
    for name, text in (("old/report.json", '{"format": 1}'), ("mine/own.txt", "")):
        Path(name).parent.mkdir()
        Path(name).write_text(text)
    assert query(report, "shop.jsonl", *more) == 2
    assert reported in capfd.readouterr().err
    assert not Path("x.jsonl").exists()


def test_against_needs_a_report(capfd: Any) -> None:
    assert command(["order", "--input", "shop.jsonl", "--against", "before"]) == 2
    assert "name a folder for this one, --report" in capfd.readouterr().err


def test_alerts_are_counted_and_compared() -> None:
    asked = "EVENT SEQ(SHELF s, EXIT e) UNDER CONSTRAINT visit FOR TRACE BY tag AS SHELF, EXIT?"
    words = ["query", asked, "--input", "shop.jsonl", "--time-unit", "ms", "--out", "x.jsonl",
             "--quiet", "--report"]  # fmt: skip
    assert command([*words, "reported"]) == 0
    (table,) = found("reported")["tables"]
    assert table["title"] == "Patterns under a constraint"
    assert table["rows"] == [["q1", 2, 0, 0, 1]]  # the clocks of milk's two readers may be wrong
    assert command([*words, "again", "--against", "reported"]) == 0


REPORT = {"run": {"passes": [{"label": "main"}]}}
Row = tuple[str, int | None, int, int, int, int]
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.one_of(st.none(), st.integers(0, 3)), st.integers(0, 2),
        st.integers(0, 2), st.integers(10, 13), st.integers(0, 3),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


def written(folder: Path, rows: list[Row]) -> None:
    source, seq, ts, ref, release, status = map(list, zip(*rows, strict=True))
    columns = {
        "site": pa.array(["main"] * len(rows)).dictionary_encode(),
        "source": pa.array(source).dictionary_encode(),
        "stream": pa.array(["events"] * len(rows)).dictionary_encode(),
        "incarnation": pa.array([0] * len(rows)), "seq": pa.array(seq, pa.int64()),
        "ts": pa.array(ts), "ref": pa.array(ref), "release": pa.array(release),
        "status": pa.array(status, pa.int8()), "more": pa.array(ts),
    }  # fmt: skip
    (folder / "ordered").mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "ordered" / "part-0.parquet")
    keep_events(folder / "ordered", folder)


def by_name(rows: list[Row]) -> dict[tuple[Any, ...], Row]:
    seen: defaultdict[tuple[Any, ...], int] = defaultdict(int)
    found = {}
    for row in rows:
        name = (row[0], row[1] is None, row[2] if row[1] is None else row[1])
        found[*name, seen[name]] = row
        seen[name] += 1
    return found


@given(ROWS, ROWS)
def test_events_are_paired_by_their_names(before: list[Row], now: list[Row]) -> None:
    with TemporaryDirectory() as scratch:
        folders = [Path(scratch) / of for of in ("before", "now")]
        for folder, rows in zip(folders, (before, now), strict=True):
            written(folder, rows)
            assert "more" not in pq.read_schema(folder / EVENTS_FILE).names
        found = compared_events((folders[0], REPORT), (folders[1], REPORT), timed=True, listed=99)
    assert found is not None
    old, new = by_name(before), by_name(now)
    both = [name for name in new if name in old]
    unlike = [n for n in both if (old[n][3], old[n][5]) != (new[n][3], new[n][5])]
    assert found["both"] == len(both)
    assert found["lost"] == len(old.keys() - new.keys()) == len(found["examples"]["lost"])
    assert found["new"] == len(new.keys() - old.keys()) == len(found["examples"]["new"])
    assert found["changed"] == len(unlike) == len(found["examples"]["changed"])
    sooner = [old[n][4] - new[n][4] for n in both if 3 not in (old[n][5], new[n][5])]
    assert found["sooner_ns"]["max"] == (max(sooner) if sooner else None)


def test_what_changed_is_said(tmp_path: Path) -> None:
    written(tmp_path / "before", [("a", 0, 5, 5, 10, 0), ("a", None, 7, 7, 10, 0)])
    written(tmp_path / "now", [("a", 0, 5, 2_000_005, 11, 3), ("a", None, 7, 7, 10, 2)])
    found = compared_events(
        (tmp_path / "before", REPORT), (tmp_path / "now", REPORT), timed=True, listed=1
    )
    assert found is not None
    assert found["changed"] == 2
    (said,) = found["examples"]["changed"]
    assert said.replace("\N{NO-BREAK SPACE}", " ") == (
        "a #0: in order \N{RIGHTWARDS ARROW} dropped, its time 2 ms later"
    )


def test_events_that_a_table_has_not_are_reported_and_the_banner_is_amber() -> None:
    Path("tags.csv").write_text("tag,room\nmilk,hall\nbread,hall\nwine,hall\n")
    for rows, colour in (("", "care"), ("gum,till\n", "holds")):
        with Path("tags.csv").open("a") as file:
            file.write(rows)
        asked = ("SELECT count(*) GROUP BY tags.room WINDOW TUMBLING 5 s "
                 "LOOKUP tags ON tag = tags.tag")  # fmt: skip
        code = command(["query", asked, "--input", "shop.jsonl", "--table",
                        "tags=tags.csv", "--time-unit", "ms", "--out", "x.jsonl", "--quiet",
                        "--report", f"rep{colour}"])  # fmt: skip
        assert code == 0
        page = Path(f"rep{colour}", "report.html").read_text(encoding="utf-8")
        assert f'<section id="verdict" class="{colour}">' in page
        assert ("2 found no row in the table tags" in page) == (colour == "care")


@pytest.mark.parametrize(("ahead_ms", "word"), [(60_000, "INCOMPLETE"), (0, "ANSWERED")])
def test_excluded_events_come_first_on_the_page(ahead_ms: int, word: str) -> None:
    lines = (
        {"source": source, "type": "A", "ts": at + ahead, "arrival": at + 10}
        for at in range(1000, 6000, 1000)
        for source, ahead in (("right", 0), ("fast", ahead_ms))
    )
    Path("fast.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    given = ["--input", "fast.jsonl", "--time-unit", "ms", "--out", "x.jsonl", "--quiet"]
    assert command(["query", COUNTS, *given, "--report", "fast"]) == 0
    assert f'<p class="word">{word}</p>' in Path("fast/report.html").read_text(encoding="utf-8")
    headline = found("fast")["verdict"]["headline"]
    assert headline.startswith("All 5 events of fast excluded") == bool(ahead_ms)
    assert "All in order" not in headline
