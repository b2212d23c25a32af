"""What ``log show`` says, and how inputs are told apart; on examples and on real recordings."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import STRING, Frame
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.log.describe import (
    LatenessCounts,
    describe,
    readable_duration,
    summary_tables,
)
from slackwater.engine.log.input.input_log import input_kind, open_input
from slackwater.engine.log.input.input_read import InputForm, InputKind

_SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = Path(os.environ.get("SLACKWATER_DATA", _SHARED)) / "ooo_dataset_umts"
needs_data = pytest.mark.skipif(
    not (DATA / "d-1.csv.gz").exists(), reason=f"no recordings in {DATA}; set SLACKWATER_DATA"
)
PHONES = {
    "ts": "S.Client.Detection.Time",
    "arrival": "S.Message.received.time.ms",
    "source": "S.Device.ID",
    "seq": "S.Message.ID",
    "site": "S.Session.Name",
}
PHONES_FORM = InputForm("ms", PHONES, ["C.NTP.offset"])


def events(ts: list[int], site: str = "main", first: int = 0) -> Frame:
    columns = {
        "source": pa.array([f"s{i % 2}" for i in range(len(ts))], STRING),
        "seq": pa.array(range(len(ts)), pa.int64()),
        "ts": pa.array(ts, pa.int64()),
        "arrival": pa.array(range(first, first + len(ts)), pa.int64()),
    }
    return Frame(site, pa.RecordBatch.from_pydict(columns))


def test_spec_1_an_event_is_out_of_order_when_an_earlier_arrival_has_a_larger_time() -> None:
    # R19 Fig 2.6's stream: 3, 7 and 8 come after larger ones; equal times are in order.
    summary = describe([events([1, 4, 3, 5, 6, 9, 7, 8, 10, 13, 13])])
    assert summary.out_of_order == 3
    assert [summary.lateness.quantile(q) for q in (0.0, 0.5, 1.0)] == [1, 1, 2]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-5, 5)), min_size=1, max_size=30),
    st.lists(st.integers(1, 4), min_size=30, max_size=30),
)
def test_disorder_is_that_of_the_definition_however_the_log_is_cut(
    stream: list[tuple[str, int]], cuts: list[int]
) -> None:
    frames, late, want = [], [], 0
    for site in "ab":
        times = [ts for name, ts in stream if name == site]
        for at, ts in enumerate(times):
            ahead = [before - ts for before in times[:at] if before > ts]
            want += bool(ahead)
            late += [max(ahead)] if ahead else []
        at = 0
        for cut in cuts:
            if times[at : at + cut]:
                frames.append(events(times[at : at + cut], site, at))
            at += cut
    summary = describe(frames)
    assert summary.out_of_order == want
    assert summary.lateness.largest_ns == max(late, default=0)
    assert summary.lateness.quantile(0.5) == (sorted(late)[(len(late) - 1) // 2] if late else 0)
    for site, found in summary.sites.items():
        times = [ts for name, ts in stream if name == site]
        assert (found.first_ts, found.last_ts) == (min(times), max(times))
        assert (found.first_arrival, found.last_arrival) == (0, len(times) - 1)
        assert found.records == found.events == len(times)


@given(st.lists(st.integers(1, 2**62), min_size=1, max_size=200), st.floats(0.01, 1))
def test_lateness_quantiles_are_never_too_small_and_within_a_percent(
    values: list[int], share: float
) -> None:
    counts = LatenessCounts()
    for start in range(0, len(values), 7):
        counts.add(np.array(values[start : start + 7], np.int64))
    rank = max(1, int(np.ceil(share * len(values))))
    exact = sorted(values)[rank - 1]
    found = counts.quantile(share)
    assert exact <= found <= exact + exact // 100


def test_kinds_sources_and_sites_are_counted() -> None:
    columns = {
        "kind": pa.array([0, 3, 4, 5], pa.int8()),
        "source": pa.array(["a", "b", None, "a"], STRING),
        "seq": pa.array([0, None, None, None], pa.int64()),
        "ts": pa.array([5, 1, None, None], pa.int64()),
        "arrival": pa.array([1, 2, 3, 9], pa.int64()),
    }
    reported = describe(
        [Frame("x", pa.RecordBatch.from_pydict(columns)), events([1], "w")]
    ).as_dict()
    assert reported == {
        "frames": 2, "records": 5, "kinds": {"event": 2, "sync": 1, "tick": 1, "eos": 1},
        "unnumbered": 0, "out_of_order": 0, "lateness_ns": {"50%": 0, "99%": 0, "100%": 0},
        "sites": {
            "w": {"records": 1, "events": 1, "out_of_order": 0, "first_arrival": 0,
                  "last_arrival": 0, "first_ts": 1, "last_ts": 1, "sources": ["s0"]},
            "x": {"records": 4, "events": 1, "out_of_order": 0, "first_arrival": 1,
                  "last_arrival": 9, "first_ts": 5, "last_ts": 5, "sources": ["a", "b"]},
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"), (999, "999 ns"), (1000, "1 us"), (1_500_000_000, "1.5 s"),
        (-90 * 10**9, "-1.5 min"),
        (86400 * 10**9, "1 d"), (1_234_567, "1.234 ms"), (10**6 * 86400 * 10**9, "1,000,000 d"),
    ],
)  # fmt: skip
def test_durations_for_people(ns: int, text: str) -> None:
    assert readable_duration(ns) == text


def shown(*frames: Frame, unit: str = "ns") -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(summary_tables("a [b] log", describe(frames), unit))
    return out.getvalue()


def test_the_table_says_what_matters() -> None:
    text = shown(events([5_000_000, 2_000_000, 9_000_000], "[red]x"), unit="ms")
    for words in (
        "a [b] log",
        "records",
        "1 (33.3 %)",
        "3 ms",
        "first event time [ms]",
        "[red]x",
        "7 ms",
    ):
        assert words in text, words
    assert "late by" not in shown(events([1, 2]))


def test_the_table_stays_short_with_many_sites() -> None:
    text = shown(*(events([1], f"site{n:02d}") for n in range(25)))
    assert "site19" in text
    assert "site20" not in text
    assert "and 5 more sites (--json has them all)" in text


def _log(folder: Path) -> None:
    with LogWriter(folder) as writer:
        writer.append(events([1, 2]))


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"ts": [1]}), sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("t.jsonl", b'{"ts": 1}', "trace"),
        ("t.ndjson", b"not json", "trace"),
        ("t.csv", b"ts\n1\n", "csv"),
        ("t.tsv", b"ts\n1\n", "csv"),
        ("t.txt", b'\xef\xbb\xbf \n{"ts": 1}', "trace"),
        ("t.txt", b"ts;v\n1;2\n", "csv"),
        ("t", b"nonsense", "trace"),
        ("t", b"", "trace"),
        ("t.csv.gz", gzip.compress(b"ts\n1\n", mtime=0), "csv"),
        ("t.gz", gzip.compress(b'{"ts": 1}', mtime=0), "trace"),
        ("t.any", parquet_bytes(), "parquet"),
    ],
)
def test_inputs_are_told_apart(name: str, content: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert input_kind(tmp_path / name) == InputKind(kind)


def test_inputs_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none: cannot be read: No such file"):
        open_input(tmp_path / "none")
    _log(tmp_path / "log")
    (file,) = LogReader(tmp_path / "log").files
    with pytest.raises(UserError, match=r"one file of an arrival log; give its folder, .*/log$"):
        open_input(file)
    with pytest.raises(
        UserError, match="is an arrival log, whose records are as they were received"
    ):
        open_input(tmp_path / "log", InputForm(mapping={"ts": "x"}))
    (tmp_path / "x.parquet").write_bytes(b"PAR1....")
    with pytest.raises(UserError, match=r"x\.parquet: damaged Parquet file"):
        open_input(tmp_path / "x.parquet")
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"abc" * 99)[:20])
    with pytest.raises(UserError, match=r"x\.gz: cannot be read"):
        open_input(tmp_path / "x.gz")


# From the recordings' SOURCE.txt: rows, devices, out-of-order share, lateness median and largest.
@needs_data
@pytest.mark.parametrize(
    ("name", "rows", "devices", "share", "median_ms", "largest_ms"),
    [
        ("d-1", 9600, 8, 16.08, 44, 4544),
        ("d-2", 10800, 9, 33.94, 66, 3457),
        ("d-3", 9600, 8, 34.14, 49, 5449),
    ],
)
def test_recordings_of_phones_have_their_published_disorder(
    name: str, rows: int, devices: int, share: float, median_ms: int, largest_ms: int
) -> None:
    log = open_input(DATA / f"{name}.csv.gz", PHONES_FORM)
    summary = describe(log)
    (site,) = summary.sites
    assert site == name
    assert summary.records == summary.sites[site].events == rows
    assert len(summary.sites[site].sources) == devices
    assert round(100 * summary.out_of_order / rows, 2) == share
    assert summary.lateness.quantile(0.5) // 10**6 == median_ms
    assert summary.lateness.largest_ns == largest_ms * 10**6
    assert (log.bad_count, log.arrival_given) == (0, True)
