"""``--history``: two runs are one, a run done again changes nothing, and who may begin where."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.chain import Chain
from engine.check import HistoryFile, KnownOfSite
from engine.check.history_file import KnownToRun, PastResults
from engine.errors import UserError
from engine.passes.inprocess import key_histories, run_in_process
from engine.passes.options import asked_of_queries
from engine.query import query
from tests.check.test_checks import records, settings
from tests.spark.both_hosts import log_of

LOTS = 3
QUIET = 40
"""Between two lots: longer than any window and any hold, so that they have but history in common.
All of it is still within what rules look back to below."""
CHECKS = {
    "alarm": "EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.id = a.id WITHIN 10 "
    "HISTORY BY a.id CHECK flapping (past_count(90) < 4) HOLD 3 "
    "CHECK seen (since_last(120) < 60) CHECK loaded (near_count(load, 100) < 9) HOLD 5 DROP",
    "load": "SELECT count(*) AS n, sum(v) AS total WHERE id < 2 GROUP BY id WINDOW TUMBLING 8 "
    "CHECK steady (past_count(70) < 5) CHECK quiet (past_count(alarm, 60) < 3) HOLD 4",
}
Lines = dict[str, list[str]]


def lots(seed: int) -> list[list[dict[str, Any]]]:
    """Events apart in time; behind each lot one that closes its windows, and a tick when all of it
    is settled.
    """
    found, begin = [], 0
    for lot in range(LOTS):
        numbered = enumerate(records(seed + 100 * lot, 60), 1_000 * lot)
        made = [
            one | {"ts": one["ts"] + begin, "arrival": one["arrival"] + begin, "seq": seq}
            for seq, one in numbered
        ]
        end = max(one["arrival"] for one in made)
        last = {"type": "Z", "ts": end + 20, "arrival": end + 20, "seq": 1_000 * lot + len(made)}
        made += [last | {"attrs": {"id": 9, "v": 0}}, {"kind": "tick", "arrival": end + QUIET - 1}]
        begin = end + QUIET
        found.append(made)
    return found


def run(made: Sequence[dict[str, Any]], folder: Path, history: Path | None, cut: int = 20) -> Lines:
    folder.mkdir()
    log = log_of("".join(json.dumps(one) + "\n" for one in made), folder, cut, 7)
    plans = tuple(query(text, name=name) for name, text in CHECKS.items())
    chosen = replace(settings(False, "immediate"), plans=plans, history=history)
    run_in_process(log, chosen, folder / "out")
    return told(folder / "out")


def told(folder: Path) -> Lines:
    from engine.results.export import read_results  # noqa: PLC0415 - of this helper alone

    found: Lines = {name: [] for name in CHECKS}
    for kind in ("matches", "windows"):
        for one in read_results(folder, kind):
            found[one["query"]].append(json.dumps(one, sort_keys=True))
    return found


def known(history: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(history) as base:
        return base.execute(
            "SELECT site, query, key, identity, at, gone FROM results ORDER BY 1, 2, 5, 4"
        ).fetchall()


SLOW, DEEP = pytest.mark.slow, pytest.mark.deep


@pytest.mark.parametrize(
    "seed",
    [1, pytest.param(2, marks=SLOW), *(pytest.param(seed, marks=DEEP) for seed in range(3, 9))],
)
def test_runs_one_after_another_are_one_run(tmp_path: Path, seed: int) -> None:
    given = lots(seed)
    whole = run([one for lot in given for one in lot], tmp_path / "whole", None)
    history = tmp_path / "found.db"
    parts = [run(lot, tmp_path / f"lot{at}", history) for at, lot in enumerate(given)]
    assert {name: [line for part in parts for line in part[name]] for name in CHECKS} == whole
    alone = [run(lot, tmp_path / f"alone{at}", None) for at, lot in enumerate(given)]
    assert alone[0] == parts[0]
    assert alone[1:] != parts[1:]  # the history made a difference


@pytest.mark.parametrize("again", [(0, 0, 1, 1), pytest.param((0, 1, 1, 2, 2, 2), marks=SLOW)])
def test_a_run_done_again_changes_nothing(tmp_path: Path, again: tuple[int, ...]) -> None:
    given, history = lots(5), tmp_path / "found.db"
    first: dict[int, tuple[Lines, list[tuple[Any, ...]]]] = {}
    for number, lot in enumerate(again):
        results = run(given[lot], tmp_path / str(number), history, 1 + 20 * (number % 2))
        assert first.setdefault(lot, (results, known(history))) == (results, known(history))


def test_a_log_that_has_grown_is_done_again(tmp_path: Path) -> None:
    given = lots(7)
    grown, history, other = given[1] + given[2], tmp_path / "found.db", tmp_path / "other.db"
    run(given[0], tmp_path / "a", history)
    run(given[1], tmp_path / "b", history)
    found = run(grown, tmp_path / "c", history)
    run(given[0], tmp_path / "d", other)
    assert run(grown, tmp_path / "e", other) == found
    assert known(other) == known(history)


def test_a_run_that_breaks_off_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, history = lots(8), tmp_path / "found.db"
    run(given[0], tmp_path / "a", history)
    before = known(history)
    with monkeypatch.context() as patched:
        patched.setattr(Chain, "finish", lambda _chain: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(given[1], tmp_path / "b", history)
    assert known(history) == before
    kept = HistoryFile.keep

    def keep_and_break(self: HistoryFile, sites: Any) -> None:
        broken = {site: each._replace(until_ns="soon") for site, each in sites.items()}
        kept(self, {**sites, **{f"{site}2": each for site, each in broken.items()}})

    with monkeypatch.context() as patched:
        patched.setattr(HistoryFile, "keep", keep_and_break)
        with pytest.raises(TypeError):
            run(given[1], tmp_path / "c", history)
    assert known(history) == before


def test_a_log_that_begins_before_the_last_one_ended_is_refused(tmp_path: Path) -> None:
    given, history = lots(9), tmp_path / "found.db"
    run(given[0], tmp_path / "a", history)
    run(given[1], tmp_path / "b", history)
    with pytest.raises(UserError, match="the last run with it read what arrived at 'main'"):
        run(given[0], tmp_path / "c", history)
    (tmp_path / "text.db").write_text("no database, but longer than a hundred bytes" * 9)
    with pytest.raises(UserError, match=r"text\.db: not a history"):
        run(given[0], tmp_path / "d", tmp_path / "text.db")


def test_it_is_bounded_and_listed_by_key(tmp_path: Path) -> None:
    given, history = lots(4), tmp_path / "found.db"
    for at, lot in enumerate(given):
        run(lot, tmp_path / f"lot{at}", history)
    rows = known(history)
    begin = given[-1][0]["arrival"]
    assert min(row[4] for row in rows) >= begin - 120 - 5
    standing = [row for row in rows if row[5] == 2**63 - 1]
    listed = list(key_histories(history))
    assert sum(each.results for each in listed) == len(standing)
    assert {(each.query, each.plain_key) for each in listed} == {
        (query, str(key)) for query in CHECKS for key in (0, 1)
    }
    one = listed[0]
    mine = [row[4] for row in standing if row[1:3] == (one.query, one.key)]
    assert (one.results, one.first_ns, one.last_ns) == (len(mine), min(mine), max(mine))
    with pytest.raises(UserError, match="no such file"):
        list(key_histories(tmp_path / "none.db"))


def foreign(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as base:
        base.executescript(";".join(statements))
    return path


WAL = "PRAGMA journal_mode = WAL"
TABLE = "CREATE TABLE passwords (site TEXT)"


@pytest.mark.parametrize(
    "statements",
    [
        (TABLE,), (WAL, TABLE), ("PRAGMA user_version = 1", TABLE),
        ("PRAGMA application_id = 7", "CREATE TABLE spans (site TEXT)"),
        ("PRAGMA user_version = 1", "CREATE TABLE results (site TEXT)"),
    ],
)  # fmt: skip
def test_3_1_a_database_of_another_program_is_refused_and_stays_as_it_is(
    tmp_path: Path, statements: tuple[str, ...]
) -> None:
    path = foreign(tmp_path / "own.db", *statements)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    file = HistoryFile(path)
    for asked in (lambda: list(file.rows()), lambda: file.before("s", 1), lambda: file.keep({})):
        with pytest.raises(UserError, match=r"own\.db: not a history of slackwater"):
            asked()
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_3_1_listing_a_history_writes_nothing(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "found?.db#1")
    file.path.touch()
    assert list(file.rows()) == []
    assert not file.path.stat().st_size
    one = PastResults(["[1]"], *(np.array([value]) for value in (5, 7, 2**63 - 1)))
    file.keep({"s": KnownOfSite(1, 9, {"q": KnownToRun(one, 100)})})
    whole = file.path.read_bytes()
    file.path.chmod(0o400)
    assert list(file.rows()) == [("s", "q", "[1]", 1, 7, 7)]
    assert file.path.read_bytes() == whole
    assert [each.name for each in tmp_path.iterdir()] == [file.path.name]


def test_3_1_a_history_whose_writer_was_killed_is_read_as_it_was_before(tmp_path: Path) -> None:
    path = tmp_path / "found.db"
    one = PastResults(["[1]"], *(np.array([value]) for value in (5, 7, 2**63 - 1)))
    HistoryFile(path).keep({"s": KnownOfSite(1, 9, {"q": KnownToRun(one, 100)})})
    writer = (
        "import os, sqlite3, sys\n"
        "base = sqlite3.connect(sys.argv[1])\n"
        "base.execute('PRAGMA cache_size = 1')\n"
        "base.execute('DELETE FROM results')\n"
        "base.executemany('INSERT INTO spans VALUES (?, 1, 1)', ((str(i),) for i in range(9999)))\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", writer, path], check=True)
    assert (tmp_path / "found.db-journal").stat().st_size
    assert list(HistoryFile(path).rows()) == [("s", "q", "[1]", 1, 7, 7)]


def test_it_is_refused_where_it_says_nothing(tmp_path: Path) -> None:
    plain, checked = query("EVENT SEQ(A a, B b) WITHIN 5"), query(CHECKS["load"], name="load")
    with pytest.raises(UserError, match="no query has one"):
        asked_of_queries((plain,), "ns", history=tmp_path / "x")
    with pytest.raises(UserError, match="checkpoint"):
        asked_of_queries((checked,), "ns", history=tmp_path / "x", on_spark=True)
