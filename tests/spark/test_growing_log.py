"""A log that grows while it is read, and between runs: both hosts, with Spark's part pretended."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pyspark.sql import Row

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.options import read_tables
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.hosts.spark import host
from slackwater.engine.hosts.spark.host import run_on_spark
from slackwater.engine.log import retention as compaction
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.ordered_stream import export_ordered_jsonl
from slackwater.engine.output.spark_parts import SparkParts
from slackwater.engine.output.table_files import table_bytes
from slackwater.engine.query import query
from tests.spark.both_hosts import answers
from tests.spark.pretend_state import CrashError, PretendSpark, sink

QUERIES = {
    "p": "EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.id = a.id WITHIN 20 ns",
    "w": "SELECT count(*), sum(v) AS s, count(DISTINCT v) GROUP BY id ORDER BY s DESC LIMIT 2 "
    "WINDOW TUMBLING 8 ns",
    "s": "SELECT avg(v * 3), max(v) AS m GROUP BY id HAVING m > 2 WINDOW SLIDING 12 ns EVERY 5 ns",
    "q": "SELECT count(*), max(v), last(type), min_by(source, v) GROUP BY id WINDOW SESSION 4 ns",
    "r": "SELECT count(*), sum(v) GROUP BY id WINDOW ROWS 4 EVERY 2",
    "l": "EVENT SEQ(A a, B b) LOOKUP t ON b.v = t.v WHERE t.least <= a.v WITHIN 9 ns "
    "RETURN a.v AS y, t.name AS z",
}
TABLES = read_tables({"t": [{"v": v, "least": 8 - v, "name": f"n{v // 2}"} for v in range(8)]})
SETTINGS = ChainSettings(
    parse_order("sequence:timeout=fixed:6ns"),
    tuple(query(text, name=name, tables=TABLES) for name, text in QUERIES.items()),
    parse_barrier("bounded:5ns"),
    guards=Guards(None),
    ordered="full",
    aside="full",
)
SPILLED = ChainSettings(
    parse_order("none"), SETTINGS.plans[:1], parse_barrier("bounded:5ns"), guards=Guards(None),
    spill=SpillSettings(None, 8, 4, pending=2, wait_ns=10),
)  # fmt: skip


def trace(draw: Callable[[int], int], events: int) -> str:
    """Two sites of two sources; ``draw(n)``: one of 0 .. n - 1."""
    numbers = dict.fromkeys((site + source for site in "ns" for source in "xy"), 0)
    lines = []
    for arrival in range(events):
        place = "ns"[draw(2)] + "xy"[draw(2)]
        lost = draw(8) == 0
        record = {
            "site": place[0], "source": place[1], "seq": numbers[place] + lost,
            "type": "AABC"[draw(4)], "ts": max(0, arrival - draw(8)), "arrival": arrival,
            "attrs": {"id": draw(2), "v": draw(9)},
        }  # fmt: skip
        numbers[place] += 1 + lost
        lines.append(json.dumps(record) + "\n")
    return "".join(lines)


class Growing:
    """A log of which only the first files are ``there`` yet; ``grow`` adds further ones."""

    def __init__(self, text: str, folder: Path, rows_per_file: int) -> None:
        (folder / "t.jsonl").write_text(text, encoding="utf-8")
        with LogWriter(folder / "all", rows_per_file) as writer:
            for frame in TraceRead(folder / "t.jsonl"):
                for start in range(0, frame.rows, 2):
                    writer.append(frame.slice(start, min(2, frame.rows - start)))
        self.left = LogReader(folder / "all").files
        self.there = 0
        self.log = folder / "log"
        self.log.mkdir()

    def grow(self, files: int) -> None:
        for file in self.left[:files]:
            shutil.copy2(file, self.log)
            self.there += 1
        self.left = self.left[files:]


def tidied(log: Path) -> None:
    """Small files are merged, and removed."""
    while files := compaction.due(log):
        compaction.merge(files)
    assert compaction.swept(log)


def given_by(parts: Path, settings: ChainSettings) -> tuple[str, str, dict[str, Any]]:
    """Results, ordered stream, and counters that no host and no cut may change."""
    ordered = parts.parent / "ordered.jsonl"
    if settings.ordered != "no":
        export_ordered_jsonl(parts, ordered)
    sites = json.loads((parts / "counters.json").read_bytes())["sites"]
    for site in sites.values():
        site.pop("buffered_max_bytes")
        for counts in site["queries"].values():
            for name in ("chunk_loads", "turns", "looked_at", "stack_moves"):
                counts.pop(name, None)
    return answers(parts, QUERIES), ordered.read_text() if ordered.exists() else "", sites


def in_process(log: Path, settings: ChainSettings, folder: Path) -> tuple[str, str, dict[str, Any]]:
    if settings.spill is not None:
        settings = replace(settings, spill=replace(settings.spill, folder=folder / "chunks"))
    run_in_process(log, settings, folder / "here")
    return given_by(folder / "here", settings)


@pytest.fixture(name="spark")
def _spark(monkeypatch: pytest.MonkeyPatch) -> PretendSpark:
    pretend = PretendSpark()
    monkeypatch.setattr(host, "_micro_batches", pretend)
    return pretend


@pytest.fixture(name="growing")
def _growing(tmp_path: Path) -> Growing:
    numbers = iter(range(7, 10**9, 13))
    growing = Growing(trace(lambda n: next(numbers) % n, 60), tmp_path, 6)
    assert len(growing.left) == 10
    growing.grow(6)
    return growing


@pytest.mark.slow  # a minute; the next ones say the same of one log each
@hypothesis_settings(max_examples=20)
@given(st.data())
def test_after_every_call_the_answers_are_those_of_the_log_as_it_was_then(
    data: st.DataObject,
) -> None:
    settings = data.draw(st.sampled_from([SETTINGS, SPILLED]))
    choice = st.integers(0, 1000)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder, spark = Path(name), PretendSpark()
        patch.setattr(host, "_micro_batches", spark)
        patch.setattr(compaction, "FAN", 3)
        events = data.draw(st.integers(10, 60))
        growing = Growing(trace(lambda n: data.draw(choice) % n, events), folder, 4)
        growing.grow(data.draw(st.integers(1, 8)))
        while True:
            size = data.draw(st.integers(1, 3))
            if data.draw(st.booleans()):
                tidied(growing.log)
            if data.draw(st.booleans()):
                spark.crash_at = data.draw(st.integers(0, 12)), data.draw(st.booleans())
            try:
                run_on_spark(growing.log, settings, folder / "there", files_per_batch=size)
            except CrashError:
                growing.grow(data.draw(st.integers(0, 2)))
                continue
            spark.crash_at = None
            there = given_by(folder / "there", settings)
            assert there == in_process(growing.log, settings, folder)
            if not growing.left:
                break
            growing.grow(data.draw(st.integers(1, 4)))


def test_files_that_come_during_a_run_are_for_the_next_one(
    growing: Growing, spark: PretendSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = in_process(growing.log, SETTINGS, tmp_path)

    def micro_batches(*arguments: Any) -> Any:
        growing.grow(4)
        return spark(*arguments)

    monkeypatch.setattr(host, "_micro_batches", micro_batches)
    run_on_spark(growing.log, SETTINGS, tmp_path / "there", files_per_batch=2)
    assert given_by(tmp_path / "there", SETTINGS) == before
    run_on_spark(growing.log, SETTINGS, tmp_path / "there", files_per_batch=2)
    after = in_process(growing.log, SETTINGS, tmp_path)
    assert given_by(tmp_path / "there", SETTINGS) == after != before


def test_in_process_a_log_that_grows_is_read_as_it_was(
    growing: Growing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = in_process(growing.log, SETTINGS, tmp_path)
    monkeypatch.setattr("slackwater.engine.hosts.pipeline._ROWS_PER_BATCH", 6)
    run_in_process(growing.log, SETTINGS, tmp_path / "grown", lambda _rows: growing.grow(1))
    assert not growing.left
    assert given_by(tmp_path / "grown", SETTINGS) == before


@pytest.mark.slow
def test_the_end_is_not_eaten_by_the_first_of_two_runs(
    growing: Growing, spark: PretendSpark, tmp_path: Path
) -> None:
    for _ in range(3):
        run_on_spark(growing.log, SETTINGS, tmp_path / "there", files_per_batch=8)
        expected = in_process(growing.log, SETTINGS, tmp_path)
        assert given_by(tmp_path / "there", SETTINGS) == expected
        growing.grow(2)
    del spark


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_part_of_the_results_that_is_gone_or_changed_is_named(
    growing: Growing, tmp_path: Path
) -> None:
    """A changed byte is named, or changes nothing, as one in the name of a file's program."""
    there = tmp_path / "there"
    run_on_spark(growing.log, SETTINGS, there, files_per_batch=2)
    expected = in_process(growing.log, SETTINGS, tmp_path)
    files = sorted((there / "spark").rglob("*.parquet"))
    assert len({file.parent.name for file in files}) >= 5
    log = there / "spark" / "_spark_metadata"
    named: list[str] = []
    for part in (*files, log / "2.compact"):  # which has all that was in 0 and 1, too
        content = part.read_bytes()
        part.unlink()
        with pytest.raises(UserError, match=f"{part.stem}.*: is gone.*or remove .*there to start"):
            run_on_spark(growing.log, SETTINGS, there, files_per_batch=2)
        for hurt in (content[:-1], content + b"more"):
            part.write_bytes(hurt)
            how = r"(ends at byte|is damaged)"
            with pytest.raises(UserError, match=rf"{part.name}: {how}.*or remove .*there to start"):
                run_on_spark(growing.log, SETTINGS, there, files_per_batch=2)
        for place in range(3, len(content), len(content) // 9):
            flipped = bytearray(content)
            flipped[place] ^= 4
            part.write_bytes(flipped)
            try:
                run_on_spark(growing.log, SETTINGS, there, files_per_batch=2)
            except UserError as error:
                named.append(str(error))
            else:
                assert given_by(there, SETTINGS) == expected
        part.write_bytes(content)
    assert len(named) > 4 * len(files)
    assert all(f"or remove {there} to start" in line for line in named)
    run_on_spark(growing.log, SETTINGS, there, files_per_batch=2)
    assert given_by(there, SETTINGS) == expected


@pytest.mark.usefixtures("spark")
def test_an_export_reads_each_row_group_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_bytes(pa.table({"position": [0], "query": ["q"]}))
    rows = [
        Row(site=f"s{n:02d}", batch=0, number=0, last=False, kind="matches", rows=1, payload=table)
        for n in range(60)
    ]
    sink(tmp_path / "spark", rows, 0)
    parts = SparkParts(tmp_path)
    batches, opened, reads = parts.open("matches"), parts.opened, list[Path]()

    def counted(path: Path) -> Any:
        reads.append(path)
        return opened(path)

    monkeypatch.setattr(parts, "opened", counted)
    (only,) = batches.tables(sorted(batches.sites))
    assert (only[0], len(only[1])) == (0, 60)
    assert len(reads) == 60 // 3  # rows of a row group


@pytest.mark.usefixtures("spark")
def test_a_file_of_the_log_that_was_read_and_is_gone_or_another_is_named(
    growing: Growing, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    run_on_spark(growing.log, SETTINGS, there, files_per_batch=2)
    first, second, *_ = LogReader(growing.log).files
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(UserError, match=f"{second.name} of the log is missing; restore it"):
        run_on_spark(growing.log, SETTINGS, there)
    shutil.copy2(first, second)
    with pytest.raises(UserError, match=f"{second.name}: is a copy of"):
        run_on_spark(growing.log, SETTINGS, there)
    second.write_bytes(kept)
    shutil.copy2(first, first.with_name("frames-0.parquet"))
    with pytest.raises(UserError, match=r"frames-0.parquet"):
        run_on_spark(growing.log, SETTINGS, there)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_hosts_may_take_turns_in_one_folder(growing: Growing, tmp_path: Path) -> None:
    both = tmp_path / "both"
    other = replace(SETTINGS, barrier=parse_barrier("immediate"))
    for settings in (SETTINGS, other):
        expected = in_process(growing.log, settings, tmp_path)
        for run in (run_on_spark, run_in_process, run_on_spark, run_in_process):
            run(growing.log, settings, both)
            assert given_by(both, settings) == expected


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_what_else_lies_in_a_logs_folder_is_not_read(growing: Growing, tmp_path: Path) -> None:
    (growing.log / "manifest.json").write_text("{}")
    (growing.log / "truth").mkdir()
    shutil.copy2(LogReader(growing.log).files[0], growing.log / "truth" / "t.parquet")
    run_on_spark(growing.log, SETTINGS, tmp_path / "there")
    expected = in_process(growing.log, SETTINGS, tmp_path)
    assert given_by(tmp_path / "there", SETTINGS) == expected


def test_one_run_at_a_time_in_a_folder(growing: Growing, tmp_path: Path) -> None:
    def second(_rows: int) -> None:
        for run in (run_on_spark, run_in_process):
            with pytest.raises(UserError, match="another run is at work in this folder"):
                run(growing.log, SETTINGS, tmp_path / "there")

    run_in_process(growing.log, SETTINGS, tmp_path / "there", second)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_files_of_a_log_have_the_order_of_their_names_whatever_their_times(
    growing: Growing, tmp_path: Path
) -> None:
    before = [path.read_bytes() for path in LogReader(growing.log).files]
    for number, path in enumerate(LogReader(growing.log).files):
        os.utime(path, (1_700_000_000 - number,) * 2)  # backwards, as a careless copy may have them
    times = [path.stat().st_mtime_ns for path in LogReader(growing.log).files]
    run_on_spark(growing.log, SETTINGS, tmp_path / "there", files_per_batch=1)
    expected = in_process(growing.log, SETTINGS, tmp_path)
    assert given_by(tmp_path / "there", SETTINGS) == expected
    files = LogReader(growing.log).files
    assert [path.stat().st_mtime_ns for path in files] == times  # the user's files stay as they are
    assert [path.read_bytes() for path in files] == before


def test_the_reading_list_ends_once_whatever_the_cut(growing: Growing, tmp_path: Path) -> None:
    for size in (1, 2, 4, 5, 6, 7):
        folder = tmp_path / f"list {size}"
        facts = host.ReadingList(folder).extend(LogReader(growing.log), size)
        assert host.ReadingList(folder).extend(LogReader(growing.log), size) == facts
        pages = [pq.read_table(path).to_pylist() for path in sorted(folder.iterdir())]
        assert len(pages) == facts.batches == -(-6 // size)
        ends = [[row["site"] for row in page if not row["rows"]] for page in pages]
        assert ends == [*([] for _ in pages[1:]), ["n", "s"]]
        assert facts.rows == 36


def test_a_file_restored_before_its_turn_is_listed_anew(growing: Growing, tmp_path: Path) -> None:
    """Whatever part of it was damaged when the list was made; what was read must stay as it was."""
    listed, folder = host.ReadingList(tmp_path / "list"), tmp_path / "list"
    files = LogReader(growing.log).files
    whole = files[3].read_bytes()
    spoiled = bytearray(whole)
    spoiled[len(whole) // 3] ^= 0x10
    files[3].write_bytes(spoiled)
    facts = listed.extend(LogReader(growing.log), 2)
    files[3].write_bytes(whole)
    with pytest.raises(UserError, match="has changed since this run has read it: restore it"):
        listed.extend(LogReader(growing.log), 2, 2)
    before = [path.stat().st_mtime_ns for path in sorted(folder.iterdir())]
    assert listed.extend(LogReader(growing.log), 2, 1) == facts
    after = [path.stat().st_mtime_ns for path in sorted(folder.iterdir())]
    assert after[0] == before[0]
    assert after == sorted(set(after))  # Spark takes them by their times
    host.ReadingList(tmp_path / "whole").extend(LogReader(growing.log), 2)
    for path in sorted(folder.iterdir()):
        assert pq.read_table(path).equals(pq.read_table(tmp_path / "whole" / path.name))
    assert listed.extend(LogReader(growing.log), 2, facts.batches) == facts
