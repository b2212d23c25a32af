"""The bookstore before any engine: plan, reads, log and truth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent.records import Kind
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.arrival_log import LogReader
from slackwater.scenarios.bookstore import Bookstore
from slackwater.scenarios.bookstore.alarm_truth import ShopRead, ShopTruth, tags_of_matches
from slackwater.scenarios.bookstore.network import opened
from slackwater.scenarios.bookstore.reads import GAP_NS, cut_at_gaps, presences_of
from slackwater.scenarios.bookstore.shop import HOUR, SECOND, WITHIN_NS, Fate, Visit, plan_books

SMALL = {"duration": "3 h", "shoppers": "40", "thefts": "6", "compression": "600"}
WITHIN_RUN_NS = WITHIN_NS // 600
Made = Callable[..., tuple[Path, dict[str, Any]]]


@pytest.fixture(scope="module", name="made")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Makes a small shop's log; ``made(seed="2")`` one of other options, each once."""
    known: dict[tuple[Any, ...], tuple[Path, dict[str, Any]]] = {}

    def make(again: int = 0, **options: str) -> tuple[Path, dict[str, Any]]:
        key = (again, *sorted(options.items()))
        if key not in known:
            directory = tmp_path_factory.mktemp("bookstore")
            known[key] = (directory, Bookstore().make(directory, SMALL | options, directory))
        return known[key]

    return make


def rows_of(directory: Path) -> list[dict[str, Any]]:
    rows = [row for frame in LogReader(directory / "log") for row in frame.batch.to_pylist()]
    return [{"kind": Kind.EVENT, "type": None} | row for row in rows]


# --- the plan


@pytest.mark.parametrize("seed", range(5))
def test_books_go_the_way_of_their_fate(seed: int) -> None:
    shop = opened(8 * HOUR, 360)
    books = plan_books(shop, 60, 9, np.random.default_rng(seed))
    assert [book.tag for book in books] == list(range(len(books)))
    stolen = [book for book in books if book.fate is Fate.STOLEN]
    assert len({book.shopper for book in stolen}) == len(stolen) == 9
    assert {book.shopper for book in books} == set(range(60))
    for book in books:
        assert (book.counter is not None) == (book.fate is Fate.BOUGHT)
        assert (book.exit is None) == (book.fate is Fate.PUT_BACK)
        if book.counter is not None and book.exit is not None:
            assert book.shelf.end_ns < book.counter.start_ns
            assert book.counter.start_ns < book.exit.start_ns
        if book.exit is not None:
            assert 0 < book.exit.start_ns - book.shelf.end_ns < WITHIN_NS
            assert book.exit.end_ns < shop.opening_ns


# --- reads


@settings(max_examples=30, deadline=None)
@given(reads=st.lists(st.integers(0, 60), unique=True), gap=st.integers(1, 9))
def test_presences_against_one_read_after_the_other(reads: list[int], gap: int) -> None:
    runs: list[list[int]] = []
    for read in sorted(reads):
        if runs and read - runs[-1][-1] <= gap:
            runs[-1].append(read)
        else:
            runs.append([read])
    first, last = cut_at_gaps(np.array(sorted(reads), np.int64), gap)
    assert first.tolist() == [run[0] for run in runs]
    assert last.tolist() == [run[-1] for run in runs]


def test_antennas_tell_the_same_tag_and_may_miss_it() -> None:
    generator = np.random.default_rng(1)
    visit = Visit(0, 100 * SECOND, 120 * SECOND)
    visits_seen = [presences_of(visit, 0.0, generator) for _ in range(200)]
    assert all({0, 1} == set(each.antenna.tolist()) for each in visits_seen)
    assert max(each.antenna.size for each in visits_seen) > 2, "missed answers cut presences"
    for each in visits_seen:
        assert np.all(each.first_ns >= visit.start_ns)
        assert np.all(each.last_ns < visit.end_ns)
        for antenna in (0, 1):
            mine = each.antenna == antenna
            assert np.all(each.first_ns[mine][1:] - each.last_ns[mine][:-1] > GAP_NS)
    missed = [presences_of(visit, 0.5, generator).antenna for _ in range(400)]
    unseen = sum(each.size == 0 for each in missed)
    assert 60 < unseen < 140, "both antennas miss a quarter"


def test_of_a_long_visit_the_end_is_reported() -> None:
    seen = presences_of(Visit(0, 0, 5 * HOUR), 0.0, np.random.default_rng(1))
    assert seen.last_ns.max() > 5 * HOUR - SECOND
    assert seen.first_ns.min() >= 5 * HOUR - 30 * SECOND


# --- the log


def test_a_seed_decides_everything(made: Made) -> None:
    first, again, other = made(), made(again=1), made(seed="2")
    assert first[1] == again[1]
    for name in ("events.parquet", "clocks.parquet", "books.parquet"):
        assert (first[0] / "truth" / name).read_bytes() == (again[0] / "truth" / name).read_bytes()
    assert first[1]["log_sha256"] != other[1]["log_sha256"]


def test_every_read_reaches_the_log(made: Made) -> None:
    directory, manifest = made()
    sums = manifest["events"]
    assert sums["generated"] == sums["accepted"] == sums["logged"] > 200
    truth = ShopTruth.read(directory)
    assert truth.arrived == truth.reads.keys()
    rows = [row for row in rows_of(directory) if row["kind"] == Kind.EVENT]
    assert {row["type"] for row in rows} == {"SHELF", "COUNTER", "EXIT"}
    for row in rows:
        read = truth.reads[row["source"], row["seq"]]
        assert (row["type"], row["attrs.tag"]) == (read.zone, read.tag)
        assert row["source"].startswith(read.zone.lower())


def test_reads_that_no_antenna_misses_tell_exactly_the_thefts(made: Made) -> None:
    for seed in ("1", "2", "3"):
        directory, _ = made(missed="0", seed=seed)
        truth = ShopTruth.read(directory)
        assert len(truth.stolen) == 6
        assert truth.answers(WITHIN_RUN_NS, arrived=True) == truth.stolen


def test_counters_that_see_nothing_make_every_customer_a_thief(made: Made) -> None:
    directory, _ = made(missed="0.9")
    truth = ShopTruth.read(directory)
    answers = truth.answers(WITHIN_RUN_NS, arrived=False)
    assert answers - truth.stolen, "a counter missed a book"
    assert truth.stolen - answers, "a shelf or an exit missed one"


def test_the_books_on_disk_are_those_of_the_truth(made: Made) -> None:
    directory, _ = made()
    books = pq.read_table(directory / "truth" / "books.parquet").to_pylist()
    truth = ShopTruth.read(directory)
    assert {book["tag"] for book in books if book["fate"] == "stolen"} == truth.stolen
    for book in books:
        times = [book[name] for name in ("taken_ns", "counter_ns", "exit_ns")]
        known = [each for each in times if each is not None]
        assert known == sorted(known)
        reads = [each.true_ns for each in truth.reads.values() if each.tag == book["tag"]]
        assert all(each < (book["exit_ns"] or book["taken_ns"]) + 10**10 for each in reads)


@pytest.mark.parametrize("pog", ["0", "1"])
def test_promises_hold_and_have_their_share(made: Made, pog: str) -> None:
    directory, manifest = made(pog=pog, heartbeat="0 s")
    pogs = manifest["rows"]["pog"]
    # Each of eleven readers promises its type when it is switched on.
    assert pogs == 11 if pog == "0" else pogs > manifest["rows"]["event"] // 2
    promised: dict[str, int] = {}
    for row in rows_of(directory):
        if row["kind"] == Kind.POG:
            promised[row["source"]] = max(promised.get(row["source"], row["ts"]), row["ts"])
        elif row["kind"] == Kind.EVENT:
            assert row["ts"] >= promised.get(row["source"], row["ts"])


def test_the_network_makes_counters_late(made: Made) -> None:
    def late(network: str) -> int:
        truth_of: dict[tuple[str, int], int] = {}
        for row in rows_of(made(network=network)[0]):
            if row["kind"] == Kind.EVENT:
                truth_of.setdefault((row["type"], row["attrs.tag"]), row["arrival"])
        paid = [tag for zone, tag in truth_of if zone == "COUNTER" and ("EXIT", tag) in truth_of]
        return sum(truth_of["COUNTER", tag] > truth_of["EXIT", tag] for tag in paid)

    assert late("lan") == 0
    assert late("congested") > late("lan")


# --- the answers, against another way of finding them


@settings(max_examples=100, deadline=None)
@given(
    reads=st.lists(
        st.builds(
            ShopRead,
            st.sampled_from(["SHELF", "COUNTER", "EXIT"]),
            st.integers(0, 2),
            st.integers(0, 12),
        ),
        max_size=10,
    ),
    within=st.integers(1, 12),
)
def test_answers_against_a_scan_in_order_of_time(reads: list[ShopRead], within: int) -> None:
    found = set()
    for tag in {each.tag for each in reads}:
        since: list[int] = []  # shelf reads that no counter read has followed
        at = sorted({each.true_ns for each in reads if each.tag == tag})
        for now in at:
            zones = {each.zone for each in reads if (each.tag, each.true_ns) == (tag, now)}
            if "EXIT" in zones and any(now - taken <= within for taken in since):
                found.add(tag)
            if "COUNTER" in zones:
                since = []
            if "SHELF" in zones:
                since.append(now)
    assert tags_of_matches(reads, within) == found


# --- bad input


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"network": "lora"}, "use one of mixed, lan, wifi, congested"),
        ({"thefts": "41"}, r"must lie in 0..shoppers \(40\)"),
        ({"shoppers": "0"}, "shoppers=0: must lie in"),
        ({"duration": "1 h"}, "more than 90 min"),
        ({"compression": "0"}, "must lie in 1..3600"),
        ({"pog": "1.5"}, "pog=1.5: must lie in 0..1"),
        ({"missed": "-1"}, "missed=-1.0: must lie in 0..1"),
        ({"connections": "0"}, "connections=0: must lie in 1..64"),
        ({"heartbeat": "5"}, "give a unit"),
        ({"tefts": "3"}, "did you mean thefts"),
    ],
)
def test_bad_options_are_reported_by_name(wrong: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        Bookstore().make(tmp_path / "run", SMALL | wrong, tmp_path)


def test_bad_barriers_are_reported_by_name() -> None:
    with pytest.raises(UserError, match="bounds=soon"):
        Bookstore().passes({"bounds": "1 s, soon"})


def test_passes_name_their_barriers() -> None:
    passes = Bookstore().passes({"bounds": "1500 ms", "holds": ""})
    assert [(each.label, each.order, each.barrier) for each in passes] == [
        ("punctuation", "none", "punctuation"),
        ("immediate", "none", "immediate"),
        ("bounded-1500ms", "none", "bounded:1500ms"),
        ("adaptive", "none", "adaptive"),
        ("punctuation-ordered", "none", "punctuation,ordered"),
    ]
