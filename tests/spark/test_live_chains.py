"""Chains that stay in a worker between batches, states made smaller, payloads past the JVM."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row

from bench.workload import FRAME_ROWS, event_frames, pattern_stream, sync_frame
from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.chain.state_bytes import StateDamagedError
from slackwater.engine.hosts.spark import chain_state
from slackwater.engine.hosts.spark import chain_state as processor
from slackwater.engine.hosts.spark.chain_state import (
    LEAST,
    LiveChains,
    SiteProcessor,
    digest_of,
    packed,
    unpacked,
)
from slackwater.engine.hosts.spark.host import log_processor
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.table_files import table_of_bytes
from slackwater.engine.query import query
from tests.planted import Planted
from tests.spark.pretend_state import Store

SETTINGS = ChainSettings(
    parse_order("none"),
    (query("EVENT SEQ(A a, !C c, B b) WHERE a.key = b.key AND c.key = a.key WITHIN 5 s"),),
    parse_barrier("bounded:1s"),
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Four files of one frame."""
    with LogWriter(tmp_path / "log", rows_per_file=FRAME_ROWS) as writer:
        for made in pattern_stream(4 * FRAME_ROWS, 5):
            writer.append(sync_frame(5, int(made["ts"].min()) - 1, int(made["arrival"][0]), 0))
            for frame in event_frames(made, 5):
                writer.append(frame)
    return tmp_path / "log"


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> LiveChains:
    fresh = LiveChains()
    monkeypatch.setattr(chain_state, "LIVE", fresh)
    return fresh


def _batches(log: Path) -> list[list[Row]]:
    """One file each, then the end."""
    batches = [
        [
            Row(site="main", batch=number, file=file.name, place=place, rows=rows)
            for place, rows in enumerate(pq.read_table(file, columns=["rows"])["rows"].to_pylist())
        ]
        for number, file in enumerate(sorted(log.glob("*.parquet")))
    ]
    return [*batches, [Row(site="main", batch=len(batches), file="end", place=0, rows=0)]]


def _task(log: Path, settings: ChainSettings = SETTINGS, *, files: bool = False) -> SiteProcessor:
    return log_processor(settings, log, files=files)


def _restored_each_time(log: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[Row]]:
    store, given = Store(), []
    for rows in _batches(log):
        monkeypatch.setattr(chain_state, "LIVE", LiveChains())
        given.append(store.run(_task(log), rows))
    assert store.reads["chain"] == len(given) - 1
    return given


def test_a_worker_that_goes_on_reads_no_state_and_gives_the_same(
    log: Path, live: LiveChains, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    given = [store.run(_task(log), rows) for rows in _batches(log)]
    assert [len(rows) for rows in given] == [4, 1, 1, 1, 2]  # few records at first
    assert store.reads["chain"] == 0
    assert live is chain_state.LIVE
    assert given == _restored_each_time(log, monkeypatch)


@pytest.mark.usefixtures("live")
def test_a_batch_done_again_starts_from_the_state_not_from_what_failed(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, given = Store(), []
    for rows in _batches(log):
        failed = store.run(_task(log), rows, kept=False)
        given.append(store.run(_task(log), rows))
        assert failed == given[-1]
    assert given == _restored_each_time(log, monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("live")
def test_a_batch_that_broke_off_inside_leaves_no_chain_behind(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *_ = _batches(log)
    store = Store()
    store.run(_task(log), first)
    with monkeypatch.context() as broken:
        broken.setattr(Chain, "snapshot", lambda _self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.run(_task(log), second, kept=False)
    again = store.run(_task(log), second)
    assert store.reads["chain"] == 1
    assert again == _restored_each_time(log, monkeypatch)[1]


@pytest.mark.usefixtures("live")
def test_another_query_finds_no_chain_even_of_an_equal_snapshot(log: Path) -> None:
    first, second, *_ = _batches(log)
    store = Store()
    store.run(_task(log), first)
    other = ChainSettings(SETTINGS.order, SETTINGS.plans, parse_barrier("bounded:2s"))
    store.run(_task(log, other), second)
    assert store.reads["chain"] == 1


@pytest.mark.usefixtures("live")
def test_attack_01_a_state_that_others_put_there_is_refused(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *_ = _batches(log)
    store = Store()
    store.run(_task(log), first)
    (snapshot,) = store._values["chain"] or (b"",)
    planted = pickle.dumps(Planted(log.parent / "ran"))
    for content, digest in (
        (snapshot, None), (snapshot, b"other"), (snapshot[:-1], digest_of(snapshot[:-1])),
        (planted, digest_of(planted)), (packed(planted), digest_of(packed(planted))),
    ):  # fmt: skip
        store._values |= {"chain": (content,), "digest": None if digest is None else (digest, 0)}
        monkeypatch.setattr(chain_state, "LIVE", LiveChains())
        with pytest.raises(UserError, match=r"the state of site 'main' in Spark's checkpoint is "):
            store.run(_task(log), second, kept=False)
    assert not (log.parent / "ran").exists()


def test_live_chains_are_bounded_and_the_last_ones_stay() -> None:
    # Small ones count for what a chain takes at least: three of them are as much as may stay.
    chains, limit = [Chain(SETTINGS, f"s{number}") for number in range(4)], 3 * LEAST
    live = LiveChains(limit)
    for chain in chains:
        live.keep("run", chain, b"now", size=10)
    assert live.take("run", "s0", b"now") is None
    assert live.take("run", "s3", b"now") is chains[3]
    assert live.take("run", "s3", b"now") is None  # who takes it owns it
    assert live.take("run", "s2", b"before") is None
    assert live.take("other", "s1", b"now") is None
    live.keep("run", chains[0], b"now", size=limit + 1)
    assert live.take("run", "s0", b"now") is None
    live.keep("run", chains[0], b"now", size=limit)
    assert live.take("run", "s0", b"now") is chains[0]


@pytest.mark.slow
def test_a_large_table_is_several_rows(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, batches = Store(), _batches(log)
    whole = store.run(_task(log, files=True), batches[0], kept=False)
    monkeypatch.setattr(processor, "_PAYLOAD_BYTES", 1)
    single = store.run(_task(log, files=True), batches[0])
    assert [row.number for row in single] == list(range(len(single)))
    assert {row.rows for row in single} == {1}
    assert len(single) == sum(row.rows for row in whole) > len(whole)
    assert _tables(single) == _tables(whole)


def _tables(rows: list[Row]) -> list[dict[str, Any]]:
    tables = [table_of_bytes(bytes(row.payload)) for row in rows]
    return [record for table in tables for record in table.to_pylist()]


def test_what_was_packed_comes_back_and_is_smaller() -> None:
    state = b"events and stacks " * 10_000
    assert unpacked(packed(state)) == state
    assert len(packed(state)) < len(state) // 20
    assert unpacked(packed(b"")) == b""


def test_a_checkpoint_of_an_earlier_version_is_refused() -> None:
    with pytest.raises(StateDamagedError, match="is not of this version"):
        unpacked(b"\x80\x05a pickle")
