"""The history of an engine whose log grows: kills change neither answers nor the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.check import HistoryFile
from engine.errors import UserError
from engine.live.embedded import EmbeddedEngine, Place
from engine.live.questions import Questions
from engine.log.files.log_files import log_files
from engine.query import query
from engine.results.answer_lines import AnswerLines
from engine.results.failed_queries import FailedQueries
from engine.results.live_answers import LiveAnswers
from engine.server.site_file import read_site
from tests.check.test_checks import settings
from tests.check.test_history_file import CHECKS, Lines, known, lots, run
from tests.spark.both_hosts import log_of

FILES = 7
"""Records of a log's file; a lot has some ten of them."""
FLAPS = "EVENT SEQ(A a, A b) WHERE b.v = a.v + 1 WITHIN 1 s CHECK flaps (past_count(1 d) < 50)"


class Life:
    """One life of an engine; what is not saved is lost with it."""

    def __init__(self, folder: Path, history: Path) -> None:
        self.said: list[str] = []
        self._answers = folder / "answers"
        plans = tuple(query(text, name=name) for name, text in CHECKS.items())
        chosen = replace(settings(False, "immediate"), plans=plans, history=history)
        place = Place(folder / "log", folder / "answers" / ".state", 1e9)
        self.engine = EmbeddedEngine(place, chosen, self._opened, self.said.append)

    def _opened(self, before: dict[str, Any]) -> LiveAnswers:
        lines = AnswerLines(self._answers, [*CHECKS], before.get("lines", {}), self.said.append)
        failed = FailedQueries(
            self._answers, [*CHECKS], before.get("failed"), again=True, tell=self.said.append,
            changed=lambda _: None,
        )  # fmt: skip
        return LiveAnswers(lines, None, 1, {}, lambda _: None, _once, failed)


def _once(what: Callable[[], Any]) -> Any:
    return what()


def told(folder: Path) -> Lines:
    """As ``run`` gives them."""
    found: Lines = {}
    for name in CHECKS:
        paths = [folder / "answers" / name / f"main.jsonl{ending}" for ending in ("", ".end")]
        lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
        found[name] = [json.dumps(json.loads(line), sort_keys=True) for line in lines]
    return found


def live(
    lot: list[dict[str, Any]], folder: Path, history: Path, random: Random, *, saves: bool = True
) -> Life:
    """Lives of which each ends as a kill, the last one in good order."""
    folder.mkdir()
    log = log_of("".join(json.dumps(one) + "\n" for one in lot), folder, 20, FILES)
    files, done = len(log_files(log)), 0
    while True:
        life = Life(folder, history)
        for _ in range(random.randint(1, 4)):
            done = min(files, done + random.randint(1, 3))
            life.engine.upto(done)
            if saves and random.random() < 0.4:
                life.engine.save()
        if done == files:
            life.engine.close()
            return life


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.deep) for n in (2, 3, 4))])
def test_engines_that_are_killed_leave_the_history_of_runs(tmp_path: Path, seed: int) -> None:
    random, mine, other = Random(seed), tmp_path / "mine.db", tmp_path / "other.db"
    for number, lot in enumerate(lots(seed)):
        life = live(lot, tmp_path / f"life{number}", mine, random)
        assert told(tmp_path / f"life{number}") == run(lot, tmp_path / f"run{number}", other)
        assert known(mine) == known(other)
        assert not any("history" in line or "again" in line for line in life.said)


def test_where_the_beginning_is_gone_it_is_told(tmp_path: Path) -> None:
    given, history = lots(9), tmp_path / "found.db"
    run(given[0] + given[1], tmp_path / "a", history)
    lives = live(given[1], tmp_path / "b", history, Random(1), saves=False)
    assert "nothing is known of before" in lives.said[0]
    assert told(tmp_path / "b") == run(given[1], tmp_path / "c", None)


def test_a_file_that_cannot_be_written_is_told_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, history = lots(3)[0], tmp_path / "found.db"
    log = log_of("".join(json.dumps(one) + "\n" for one in given), tmp_path, 20, FILES)
    files = len(log_files(log))
    life = Life(tmp_path, history)
    with monkeypatch.context() as patched:
        patched.setattr(HistoryFile, "keep", _refuse)
        for done in range(1, files):
            life.engine.upto(done)
            life.engine.save()
    life.engine.upto(files)
    life.engine.close()
    assert [line for line in life.said if "found.db" in line] == [
        "found.db is full; tried again whenever the state is saved", f"{history}: written again",
    ]  # fmt: skip
    run(given, tmp_path / "run", tmp_path / "other.db")
    assert known(history) == known(tmp_path / "other.db")


def _refuse(_file: HistoryFile, _sites: object) -> None:
    raise UserError("found.db is full")


def test_who_takes_it_and_what_hangs_on_it(tmp_path: Path) -> None:
    engine = "[gateway]\nlog = 'l'\n[engine]\nkind = 'KIND'\nhistory = 'h.db'\n"
    text = f"{engine}[[query]]\ntext = '''{FLAPS}'''\n"
    site = tmp_path / "site.toml"
    site.write_text(text.replace("KIND", "spark"))
    with pytest.raises(
        UserError, match=r'site.toml:5: \[engine\] history: is of kind = "embedded"'
    ):
        read_site(site)
    site.write_text(text.replace("KIND", "embedded"))
    mine = read_site(site).engine
    other = read_site(site, history=tmp_path / "other.db").engine
    assert mine is not None
    assert other is not None
    assert mine.questions.chain_settings().history == tmp_path / "h.db"
    assert other.questions.chain_settings().history == tmp_path / "other.db"
    site.write_text(text.replace("KIND", "spark").replace("history = 'h.db'\n", ""))
    with pytest.raises(UserError, match="--history is of kind"):
        read_site(site, history=tmp_path / "h.db")
    site.write_text(
        text.replace("KIND", "embedded").replace(" CHECK flaps (past_count(1 d) < 50)", "")
    )
    with pytest.raises(UserError, match="no query has one"):
        read_site(site)
    plain = ("p", "EVENT SEQ(A a, A b) WITHIN 1 s")
    before = Questions(queries=(plain, ("q", FLAPS))).of_each()
    after = Questions(queries=(plain, ("q", FLAPS)), history="/h.db").of_each()
    assert before["p"] == after["p"]
    assert after["q"] == {**before["q"], "history": "/h.db"}
