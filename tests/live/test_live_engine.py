"""The embedded engine over a growing log, cut, killed and hurt anywhere: a pass over it agrees."""

from __future__ import annotations

import json
import pickle
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.live.embedded import LogWatch
from slackwater.engine.hosts.live.questions import QUERY_FILE, claim
from slackwater.engine.hosts.spark.host import spark_session
from slackwater.engine.log import retention as compaction
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.log.log_folder import numbered_files, retired
from slackwater.engine.log.retention import Limits, beyond, retire
from slackwater.engine.log.whole_file import load, save
from slackwater.engine.operators.grouping.dataflow import Dataflow
from slackwater.engine.operators.grouping.maps import PythonCombine
from slackwater.engine.operators.grouping.operations import GroupingPlan, Stateful
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.answer_files import site_file
from slackwater.engine.output.durability import AnswersDamaged
from slackwater.engine.output.run_writer import check_begin
from slackwater.engine.query import query
from tests.live.engine_life import KilledError, Life, grown, hurt, lines_at, passed, state_of
from tests.planted import Planted
from tests.spark.test_growing_log import QUERIES, TABLES, Growing, tidied, trace

SETTINGS = ChainSettings(
    parse_order("sequence:timeout=fixed:6ns"),
    tuple(query(text, name=name, tables=TABLES) for name, text in QUERIES.items()),
    parse_barrier("immediate"),
    guards=Guards(None),
)
SEEDS = [
    0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5)),
    *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(5, 100)),
]  # fmt: skip
AGAIN = "answers are to be made again from the log's beginning"
KEYS = [(query, site) for query in QUERIES for site in "ns"]


def rows_at(folder: Path, key: tuple[str, str]) -> list[dict[str, Any]]:
    """Rows of the tables, which must follow one another."""
    rows: list[dict[str, Any]] = []
    for path in sorted((folder / "answers" / key[0]).glob(f"{key[1]}.rows-*.parquet")):
        assert int(path.stem.split("-")[-2]) == len(rows)
        rows += pq.read_table(path).to_pylist()
        assert int(path.stem.split("-")[-1]) == len(rows)
    return rows


def live(folder: Path, last: float = float("inf"), every_s: float = 0.0) -> Life:
    """A life that answers in lines and tables."""
    return Life(folder, SETTINGS, last, tables_every_s=every_s)


def hurt_an_answer(folder: Path, random: Random) -> None:
    query, site = random.choice(KEYS)
    path = folder / "answers" / query / f"{site}.jsonl"
    if path.exists() and path.stat().st_size:
        hurt(path, random)


@pytest.mark.parametrize("seed", SEEDS)
def test_kills_and_damage_change_no_answer(seed: int) -> None:
    random = Random(seed)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "FAN", 3)
        folder = Path(name)
        growing = Growing(trace(random.randrange, 150), folder, 7)
        while growing.left:
            life = live(folder, random.choice([3, 10, 30, float("inf")]), random.choice([0.0, 1e9]))
            with suppress(KilledError):
                life.follow(growing, random, saves=0.4)
            if random.random() < 0.3:
                hurt_an_answer(folder, random)
            if random.random() < 0.4:
                tidied(folder / "log")
        life = live(folder)
        life.end_at(growing.there)
        whole = passed(folder, SETTINGS)
        assert sum(map(len, whole.values())) > 1000
        assert life.written() == whole
        for key in KEYS:
            mine = lines_at(folder, key)
            reported = [json.loads(line) for line in mine.splitlines()]
            assert [(r["op"], r["at"]) for r in rows_at(folder, key)] == [
                (line["op"], line["at"]) for line in reported
            ]


@pytest.mark.parametrize("seed", range(2))
def test_what_is_retired_behind_the_saved_state_changes_no_answer(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "FAN", 3)
    random = Random(seed)
    growing = Growing(trace(random.randrange, 150), tmp_path, 7)
    log, there = tmp_path / "log", 0
    while growing.left:
        life = live(tmp_path)
        there += len(growing.left[:4])
        growing.grow(4)
        life.engine.upto(there)
        if random.random() < 0.6:
            life.engine.save()
        if random.random() < 0.5:
            tidied(log)
        found = beyond(log, Limits(bytes=1), 0, life.engine.saved)
        if found.files:
            assert retire(log, found.files, {}, life.engine.saved) is not None
    last = live(tmp_path)
    last.end_at(there)
    assert retired(log).upto > 5
    assert retired(log).unread == 0
    assert not any("made again" in line or "unread" in line for line in last.said)
    shutil.rmtree(log)
    (tmp_path / "all").rename(log)
    assert last.written() == passed(tmp_path, SETTINGS)


def test_behind_what_was_retired_unread_answers_go_on_and_say_so(tmp_path: Path) -> None:
    log, files = tmp_path / "log", grown(tmp_path)
    life = live(tmp_path)
    life.engine.upto(3)
    life.engine.save()
    retire(log, numbered_files(log)[:6], {}, life.engine.saved)
    again = live(tmp_path)
    again.engine.upto(files)
    assert again.said == [
        "answers: the log's files 4 to 6 were retired unread: they lack those",
    ]
    assert again.engine.done == files
    assert retired(log).unread == 3


def test_answers_to_what_is_gone_are_not_replaced(tmp_path: Path) -> None:
    log, answers, files = tmp_path / "log", tmp_path / "answers", grown(tmp_path)
    life = live(tmp_path)
    life.engine.upto(files - 1)
    life.engine.save()
    mine = {"w": {"query": "SELECT ...", "order": "none"}}
    claim(answers, log, mine, {})
    check_begin(log, answers, QUERIES)
    retire(log, numbered_files(log)[: files - 1], {}, None)
    claim(answers, log, mine, {})
    with pytest.raises(UserError, match=r"of which those up to \d+ were retired, and the engine's"):
        check_begin(log, answers, QUERIES)
    shutil.rmtree(answers)
    check_begin(log, answers, QUERIES)
    fresh = live(tmp_path)
    assert "they begin behind them" in fresh.said[0]
    assert fresh.engine.saved == files - 1
    assert live(tmp_path).said == []


def test_lookers_on_get_each_line_once_without_kills(tmp_path: Path) -> None:
    files = grown(tmp_path)
    fed = b""
    for number in range(1, files + 1, 3):
        life = live(tmp_path)
        life.end_at(number)
        fed += b"".join(life.fed)
    written = [line for key in KEYS for line in lines_at(tmp_path, key).splitlines()]
    assert sorted(fed.splitlines()) == sorted(written)


def test_more_than_the_log_gives_is_cut_and_kept(tmp_path: Path) -> None:
    files = grown(tmp_path)
    life = live(tmp_path)
    life.end_at(files)
    path = tmp_path / "answers" / "w" / "n.jsonl"
    before = path.read_bytes()
    path.write_bytes(before + b"more\n")
    again = live(tmp_path)
    again.engine.upto(files)
    assert path.read_bytes() == before
    assert path.with_name("n.jsonl.cut").read_bytes() == b"more\n"
    assert "had more than the log gives" in again.said[0]


def test_a_state_of_other_settings_or_another_log_is_not_gone_on_with(tmp_path: Path) -> None:
    files = grown(tmp_path)
    life = live(tmp_path)
    life.end_at(files)
    state = state_of(tmp_path)
    whole = state.read_bytes()
    assert live(tmp_path).engine.done == files
    state.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    damaged = live(tmp_path)
    assert damaged.engine.done == 0
    assert damaged.said == [f"{state}: is damaged: {AGAIN}"]
    save(state, [1])
    assert "starts from scratch" in live(tmp_path).said[0]
    state.write_bytes(whole)
    last = max((tmp_path / "log").glob("*.parquet"))
    last.unlink()
    other = live(tmp_path)
    assert other.engine.done == 0
    assert "starts from scratch" in other.said[0]


def test_3_2_a_dataflow_goes_on_after_a_restart(tmp_path: Path) -> None:
    files = grown(tmp_path)

    def life() -> Life:
        """Of functions that have just been made, as those of another process are."""
        seen = GroupingPlan("seen", Dataflow((Stateful(PythonCombine(lambda state, item: (
            (state or 0) + 1, [[state, item["v"]]]))),)), ("v",))  # fmt: skip
        return Life(tmp_path, replace(SETTINGS, plans=(seen,)))

    first = life()
    first.engine.upto(files // 2)
    first.engine.save()
    again = life()
    assert again.said == []
    assert again.engine.done == files // 2


def test_attack_01_what_others_put_into_the_state_is_not_run(tmp_path: Path) -> None:
    files = grown(tmp_path)
    life = live(tmp_path)
    life.end_at(files)
    answered = life.written()
    kept = load(state_of(tmp_path))
    assert set(kept["chains"]) == {"n", "s"}
    for planted in (pickle.dumps(Planted(tmp_path / "ran")), b"", kept["chains"]["n"][:-1]):
        save(state_of(tmp_path), kept | {"chains": kept["chains"] | {"s": planted}})
        again = live(tmp_path)
        assert not (tmp_path / "ran").exists()
        assert again.said[0].startswith(f"{state_of(tmp_path)}: the state of site 's' is ")
        assert again.said[0].endswith(f": {AGAIN}")
        assert again.engine.done == 0
        again.end_at(files)
        assert again.written() == answered


def test_a_name_stands_for_one_query_and_one_log(tmp_path: Path) -> None:
    growing = Growing(trace(Random(5).randrange, 40), tmp_path, 7)
    growing.grow(len(growing.left))
    answers, log = tmp_path / "answers", tmp_path / "log"
    mine = {"w": {"query": "SELECT ...", "order": "none"}}
    claim(answers, log, mine, {})
    claim(answers, log, mine, {})
    claim(answers, log, {**mine, "more": {"query": "EVENT ...", "order": "none"}}, {})
    with pytest.raises(UserError, match=r"query w: .*with another order: give the query another"):
        claim(answers, log, {"w": {**mine["w"], "order": "kslack:1s"}}, {})
    with pytest.raises(UserError, match="with another log"):
        claim(answers, tmp_path / "all" / "nowhere", mine, {})
    (answers / "w" / QUERY_FILE).write_text("{")
    with pytest.raises(UserError, match=r"query.json: damaged: move .*w away"):
        claim(answers, log, mine, {})


def test_a_file_that_goes_meanwhile_is_made_anew_from_its_beginning(tmp_path: Path) -> None:
    files = grown(tmp_path)
    life = live(tmp_path)
    life.engine.upto(files - 4)  # site n comes last
    life.engine.save()
    (tmp_path / "answers" / "p" / "n.jsonl").unlink()
    with pytest.raises(AnswersDamaged, match=r"n.jsonl: is gone"):
        life.engine.upto(files)
    again = live(tmp_path)
    again.end_at(files)
    assert again.written() == passed(tmp_path, SETTINGS)


def test_names_of_sites_are_names_of_files() -> None:
    hostile = ["main", "", ".", "..", "../../etc", "a/b", "ä" * 200, "ä" * 199 + "o", "n\0l", "x=y"]
    names = [site_file(site) for site in hostile]
    assert len(set(names)) == len(hostile)
    assert all(len(name) <= 160 and "/" not in name and not name.startswith(".") for name in names)


def test_on_spark_missing_attributes_are_reported_too(tmp_path: Path) -> None:
    """By files of the log; a later life knows what one before it has seen."""
    with LogWriter(tmp_path / "log", 1) as writer:
        for name in "vw":
            (tmp_path / name).write_text(json.dumps({"ts": 1, "attrs": {name: 1}}) + "\n")
            for frame in TraceRead(tmp_path / name):
                writer.append(frame)
    plans = [query(f"SELECT sum({v}) FROM events WINDOW TUMBLING 1 s", name=v) for v in "vw"]
    settings = ChainSettings(parse_order("none"), tuple(plans))

    def life(done: int) -> LogWatch:
        return LogWatch(settings, tmp_path / "log", tmp_path / ".state" / "attributes", done)

    first = life(0)
    assert [line[:8] for line in first.missing()] == ["query v:", "query w:"]
    first.see(0, 1)
    (reported,) = first.missing()
    assert reported == "query w: query line 1, column 12: no event has an attribute 'w'"
    second = life(1)
    assert second.missing() == [reported]
    second.see(1, 2)
    assert second.missing() == life(2).missing() == []
    (tmp_path / ".state" / "attributes").unlink()
    assert life(1).missing() == []  # what file 1 had is not known any more


@pytest.mark.spark
@pytest.mark.slow
def test_a_page_that_spark_has_listed_and_not_begun_is_a_batch_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill falls between Spark's two notes of a batch; then files of the log are merged."""
    monkeypatch.setattr(compaction, "FAN", 6)
    growing = Growing(trace(Random(7).randrange, 150), tmp_path, 7)
    state = state_of(tmp_path)

    def lived() -> Life:
        (tmp_path / "answers" / ".state").mkdir(parents=True, exist_ok=True)
        return Life(tmp_path, SETTINGS, master="local[2]")

    life = lived()
    growing.grow(2)
    life.engine.upto(growing.there)
    sink = (state / "sink").read_bytes()
    growing.grow(3)
    life.engine.upto(growing.there)
    for running in spark_session().streams.active:
        running.stop()
    for noted in ("offsets", "commits"):
        for name in ("1", ".1.crc"):
            (state / "checkpoint" / noted / name).unlink()
    (state / "sink").write_bytes(sink)
    growing.grow(4)
    tidied(tmp_path / "log")
    life = lived()
    life.end_at(growing.there)
    assert not life.failed
    assert life.written() == passed(tmp_path, SETTINGS)
