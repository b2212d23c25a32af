"""``slackwater order``: the goldens of SPEC 2 and 3, its exact output, its options."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater

Record = dict[str, Any]

QUIET = ("--in-process", "--quiet")
FIXED_10 = "sequence:timeout=fixed:10"


def numbered(seqs: list[int], **given: Any) -> list[Record]:
    """Numbers of one source, arriving one after another from 0 on; event time = 10 * number."""
    return [
        {"source": "a", "seq": seq, "ts": 10 * seq, "arrival": at} | given
        for at, seq in enumerate(seqs)
    ]


GOLDEN = numbered([1, 2, 4, 5, 6, 3, 7])


def test_spec_3_1_golden_fixed_10(cli: Any, trace: Any) -> None:
    ran = cli("order", "--input", trace(*GOLDEN), "--order", FIXED_10, "--in-process")
    assert (ran.code, ran.err, ran.left) == (0, "7 events in process\n", {})
    assert [(each["seq"], each["release"]) for each in ran.lines] == [
        (1, 0), (2, 1), (3, 5), (4, 5), (5, 5), (6, 5), (7, 6),
    ]  # fmt: skip


@pytest.mark.parametrize(("late", "last"), [("drop", [(6, 6)]), ("pass", [(2, 5), (6, 6)])])
def test_spec_3_1_golden_r19(late: str, last: list[tuple[int, int]], cli: Any, trace: Any) -> None:
    announced = {"kind": "sync", "source": "a", "first_seq": 0, "arrival": 0}
    name = trace(announced, *numbered([0, 1, 3, 4, 5, 2, 6]))
    ran = cli("order", "--input", name, "--order", f"sequence:timeout=r19,late={late}",
              "--in-process")  # fmt: skip
    assert ran.err == "7 events in process: 1 late\n"
    found = [(each["seq"], each["release"]) for each in ran.lines]
    assert found == [(0, 0), (1, 1), (3, 3), (4, 3), (5, 4), *last]
    assert [each["seq"] for each in ran.lines if each["late"]] == [2] * (late == "pass")


def test_spec_3_2_heads_are_compared_by_ref_and_ties_by_source(cli: Any, trace: Any) -> None:
    syncs = [
        {"kind": "sync", "source": name, "first_seq": 0, "offset": offset, "delay": 0, "arrival": 0}
        for name, offset in (("b", 0), ("a", 5))
    ]
    events = [
        {"source": source, "ts": ts, "arrival": at}
        for source, ts, at in (("b", 10, 1), ("a", 5, 2), ("b", 12, 3), ("a", 6, 4))
    ]
    ran = cli("order", "--input", trace(*syncs, *events), "--order", FIXED_10, *QUIET)
    found = [(each["source"], each["ref"], each["release"]) for each in ran.lines]
    # a's 10 goes first when it comes; b's 10 when a shows 11 (its head may be smaller till then).
    assert found == [("a", 10, 2), ("b", 10, 4), ("a", 11, 4), ("b", 12, 4)]


@pytest.mark.parametrize(("promise", "release"), [(11, 3), (10, 9)])
def test_spec_3_2_a_punctuation_beyond_the_head_unblocks(
    promise: int, release: int, cli: Any, trace: Any
) -> None:
    records = [
        {"source": "a", "ts": 1, "arrival": 0},
        {"source": "b", "ts": 2, "arrival": 1},
        {"source": "b", "ts": 10, "arrival": 2},
        {"kind": "pog", "source": "a", "ts": promise, "arrival": 3},
        {"source": "a", "ts": 20, "arrival": 9},
    ]
    ran = cli("order", "--input", trace(*records), "--order", "sequence:timeout=fixed:50", *QUIET)
    assert {each["ts"]: each["release"] for each in ran.lines}[10] == release


def test_spec_2_golden_an_hour_off(cli: Any, trace: Any) -> None:
    hour = 3_600_000
    records = [
        {"kind": "sync", "source": "slow", "offset": hour, "delay": 10, "arrival": 0},
        {"source": "slow", "ts": 7, "arrival": hour + 8},
    ]
    ran = cli("order", "--input", trace(*records), "--time-unit", "ms", *QUIET)
    assert [each["ref"] for each in ran.lines] == [hour + 7]


EVERYTHING: list[Record] = [
    {"site": "shop", "stream": "reads", "source": "door", "seq": 4, "type": "IN", "ts": 5, "te": 9,
     "id": "i7", "arrival": 11, "attrs": {"tag": "x", "power": -60, "ok": True, "v": 0.5}},
    {"ts": 3, "arrival": 11},
]  # fmt: skip


def test_design_order_writes_trace_records_with_ref_release_and_late(cli: Any, trace: Any) -> None:
    ran = cli("order", "--input", trace(*EVERYTHING), *QUIET)
    plain, full = ran.out.splitlines()
    assert plain == (
        '{"source": "s0", "seq": 0, "ts": 3, "arrival": 11, "ref": 3, "release": 11, "late": false}'
    )
    assert full == (
        '{"site": "shop", "stream": "reads", "source": "door", "seq": 4, "type": "IN", "ts": 5, '
        '"te": 9, "arrival": 11, "ref": 5, "release": 11, "late": false, "id": "i7", '
        '"attrs": {"ok": true, "power": -60, "tag": "x", "v": 0.5}}'
    )


def test_design_order_columns_of_parquet(cli: Any, trace: Any) -> None:
    ran = cli("order", "--input", trace(*EVERYTHING), "--out", "o.parquet", *QUIET)
    assert (ran.code, ran.out, set(ran.left)) == (0, "", {"o.parquet"})
    table = pq.read_table("o.parquet")
    integers = ("seq", "incarnation", "ts", "te", "arrival", "ref", "release")
    assert {name: table.schema.field(name).type for name in table.schema.names} == {
        **dict.fromkeys(("site", "stream", "source", "type", "id", "attrs.tag"), pa.string()),
        **dict.fromkeys((*integers, "attrs.power"), pa.int64()),
        **dict.fromkeys(("late", "attrs.ok"), pa.bool_()),
        "attrs.v": pa.float64(),
    }
    assert table.column("site").to_pylist() == ["main", "shop"]
    assert table.column("attrs.tag").to_pylist() == [None, "x"]


def test_a_file_holds_what_standard_output_would(cli: Any, trace: Any) -> None:
    name = trace(*GOLDEN)
    shown = cli("order", "--input", name, "--order", FIXED_10, *QUIET)
    ran = cli("order", "--input", name, "--order", FIXED_10, "--out", "o.jsonl", "--in-process")
    assert (ran.code, ran.out, ran.err) == (0, "", "7 events in process\n")
    assert ran.left == {"o.jsonl": shown.out.encode()}


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "min", "h"])
def test_times_are_in_the_unit_of_the_trace_and_so_are_bare_durations(
    unit: str, cli: Any, trace: Any
) -> None:
    latency = "sequence:timeout=fixed:10,latency=1000"
    records = [*GOLDEN, {"source": "a", "seq": 9, "ts": 90, "arrival": 7},
               {"kind": "tick", "arrival": 40}]  # fmt: skip
    ran = cli("order", "--input", trace(*records), "--order", latency, "--time-unit", unit,
              "--guard", "off", *QUIET)  # fmt: skip
    assert [(each["ts"], each["ref"], each["arrival"], each["release"]) for each in ran.lines][
        2:
    ] == [(30, 30, 5, 5), (40, 40, 2, 5), (50, 50, 3, 5), (60, 60, 4, 5), (70, 70, 6, 6),
          (90, 90, 7, 17)]  # fmt: skip


def test_order_none_is_the_arrival_order(cli: Any, trace: Any) -> None:
    ran = cli("order", "--input", trace(*GOLDEN), "--order", "none", *QUIET)
    assert [each["seq"] for each in ran.lines] == [1, 2, 4, 5, 6, 3, 7]
    assert all(each["release"] == each["arrival"] for each in ran.lines)


@pytest.mark.parametrize(
    ("guard", "kept"),
    [((), 2), (("--guard", "1999999999"), 2), (("--guard", "2s"), 3), (("--guard", "off"), 3)],
)
def test_the_guard_quarantines_what_lies_beyond_it(
    guard: tuple[str, ...], kept: int, cli: Any, trace: Any
) -> None:
    name = trace(*({"ts": ts, "arrival": at} for at, ts in ((5, 1), (6, 2_000_000_006), (7, 7))))
    ran = cli("order", "--input", name, "--order", "none", "--in-process", *guard)
    assert len(ran.lines) == kept
    if kept == 3:
        assert ran.err == "3 events in process\n"
        return
    verdict, summary = ran.err.splitlines()
    assert verdict == (
        "warning: 1 of 3 events of s0 excluded: they are stamped up to 2 s after they arrived, the "
        "others are not; correct these times, or let them in with --guard off"
    )
    assert summary == "3 events in process: 1 quarantined"


def test_line_numbers_as_arrivals_are_no_instants_and_guard_nothing(cli: Any, trace: Any) -> None:
    ran = cli("order", "--input", trace({"ts": 10**18}), *QUIET)
    assert [each["ts"] for each in ran.lines] == [10**18]


BAD = ('{"ts": 1}', "nope", '{"ts": 2}', "", '{"ts": 3.5}')


@pytest.mark.parametrize(
    ("options", "letters"),
    [
        ((), "t.jsonl.bad.jsonl"),
        (("--out", "o.jsonl"), "o.jsonl.bad.jsonl"),
        (("--dead-letter", "dead"), "dead"),
        (("--dead-letter", "dead", "--out", "o.parquet"), "dead"),
    ],
)
def test_on_bad_skip_keeps_the_bad_lines(
    options: tuple[str, ...], letters: str, cli: Any, trace: Any
) -> None:
    ran = cli("order", "--input", trace(*BAD), "--on-bad", "skip", "--in-process", *options)
    assert (ran.code, ran.err) == (
        0,
        f"2 bad lines skipped, kept in {letters}\n2 events in process\n",
    )
    kept = [json.loads(line) for line in Path(letters).read_text().splitlines()]
    assert [(each["line"], each["text"]) for each in kept] == [(2, "nope"), (5, '{"ts": 3.5}')]
    assert all(each["reason"] for each in kept)


def test_on_bad_skip_leaves_no_file_without_bad_lines(cli: Any, trace: Any) -> None:
    ran = cli("order", "--input", trace('{"ts": 1}'), "--on-bad", "skip", *QUIET)
    assert (ran.code, ran.err, ran.left) == (0, "", {})


def test_a_log_is_read_as_its_trace_is(cli: Any, trace: Any) -> None:
    name = trace(*GOLDEN, *numbered([1, 3, 2], site="other", source="z"))
    assert cli("log", "import", name, "--out", "a.log").code == 0
    from_trace, from_log = (cli("order", "--input", each, *QUIET) for each in (name, "a.log"))
    assert from_log.out == from_trace.out
    assert [each.get("site") for each in from_log.lines] == [None] * 7 + ["other"] * 3
    assert Path("a.log/frames-000000000001.parquet").exists()


def test_standard_input_and_csv(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(json.dumps(each) for each in GOLDEN).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    shown = cli("order", "--input", "-", "--order", FIXED_10, *QUIET)
    rows = [f"{each['seq']},{each['ts']},{each['arrival']},a" for each in GOLDEN]
    Path("t.csv").write_text("\n".join(["seq,when,arrival,who", *rows]))
    mapped = cli("order", "--input", "t.csv", "--map", "ts=when", "--map", "source=who",
                 "--order", FIXED_10, *QUIET)  # fmt: skip
    assert mapped.out == shown.out
    assert [each["seq"] for each in mapped.lines] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("name", ["o.jsonl", "o.parquet"])
def test_a_trace_without_events_gives_an_empty_file(name: str, cli: Any, trace: Any) -> None:
    ran = cli("order", "--input", trace({"kind": "tick", "arrival": 5}), "--out", name, *QUIET)
    assert (ran.code, ran.err) == (0, "")
    if name.endswith("parquet"):
        assert pq.read_table(name).num_rows == 0
    else:
        assert Path(name).read_bytes() == b""


def test_a_work_folder_is_used_again_by_the_same_input_alone(
    cli: Callable[..., Any], trace: Any
) -> None:
    again = ("--order", FIXED_10, "--work", "w", *QUIET)
    first = cli("order", "--input", trace(*GOLDEN), *again)
    second = cli("order", "--input", trace(*GOLDEN), *again)
    assert (second.code, second.out) == (0, first.out)
    fewer = cli("order", "--input", trace(*GOLDEN), "--order", "none", *again[2:])
    assert [each["seq"] for each in fewer.lines] == [1, 2, 4, 5, 6, 3, 7]
    other = cli("order", "--input", trace(*GOLDEN[:3]), *again)
    assert (other.code, other.out) == (2, "")
    assert other.err == ("slackwater: w/log: is the log of another input; choose another --work\n")
    assert cli("order", "--input", trace(*GOLDEN), *again).out == first.out


def test_a_source_of_which_nothing_is_known_is_named(cli: Any, trace: Any) -> None:
    events = [{"source": name, "ts": ts, "arrival": ts} for name, ts in (("a", 1), ("b", 2))]
    ran = cli("order", "--input", trace(*events), *QUIET)
    assert ran.err.startswith("warning: nothing is known of the clocks of a, b: ")
    assert "mixed" not in ran.lines[0]
    for clock in ("exact", "a=0s"):
        assert cli("order", "--input", trace(*events), "--clock", clock, *QUIET).err == ""
    assert cli("order", "--input", trace(events[0]), *QUIET).err == ""
    with pytest.warns(UserWarning, match="nothing is known of the clocks of a, b"):
        slackwater.order({"source": ["a", "b"], "ts": [1, 2]}).close()
