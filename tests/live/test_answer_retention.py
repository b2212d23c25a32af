"""Answers that are closed and given up: what is left is the end of what the log gives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from slackwater.engine.log.log_folder import numbered_files
from slackwater.engine.log.retention import Limits
from slackwater.engine.log.whole_file import load, save
from slackwater.engine.output import answer_files
from slackwater.engine.output.answer_retention import AnswerKeeper, closed_files
from tests.live.conftest import Field, until
from tests.live.engine_life import (
    Answered,
    KilledError,
    Life,
    grown,
    hurt,
    lines_at,
    passed,
    state_of,
)
from tests.live.test_answers import PAIRS, answered, asked, lines_of_query
from tests.live.test_engine_restarts import children
from tests.live.test_live_engine import KEYS, SETTINGS, hurt_an_answer
from tests.sinks.receivers import http_server
from tests.spark.test_growing_log import Growing, trace

SEEDS = [
    0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8)),
    *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(8, 60)),
]  # fmt: skip
SMALL = Limits(bytes=1)
NEVER = float("inf")


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_files, "_PART_LEAST", 400)


def life_of(folder: Path, last: float = NEVER, limits: Limits = SMALL) -> Life:
    return Life(folder, SETTINGS, last, tables_every_s=0.0, limits=limits)


def keeper_of(
    folder: Path, limits: Limits, delivered: dict[tuple[str, str], int],
    tell: Callable[[str], None] = lambda _: None,
) -> AnswerKeeper:  # fmt: skip
    def of(query: str, name: str) -> float:
        return delivered.get((query, name.removesuffix(".jsonl")), NEVER)

    queries = [plan.name for plan in SETTINGS.plans]
    return AnswerKeeper(folder / "answers", queries, limits, lambda: of, tell)


def rows_from(folder: Path, key: tuple[str, str]) -> tuple[int, int]:
    """Numbers of the first row in tables, and behind the last; they follow one another."""
    runs = sorted((folder / "answers" / key[0]).glob(f"{key[1]}.rows-*.parquet"))
    numbers = [tuple(map(int, path.stem.split("-")[-2:])) for path in runs]
    assert [end for _, end in numbers[:-1]] == [first for first, _ in numbers[1:]]
    return (numbers[0][0], numbers[-1][1]) if numbers else (0, 0)


def assert_is_the_end(folder: Path, whole: Answered, delivered: dict[tuple[str, str], int]) -> int:
    """Each file is what its name says of the whole; gives how many bytes are gone."""
    gone = 0
    for key in KEYS:
        mine = lines_at(folder, key, "", ".end")
        assert whole[key].endswith(mine)
        gone += len(whole[key]) - len(mine)
        assert len(whole[key]) - len(mine) <= delivered.get(key, 1 << 60)
        for file in closed_files(folder / "answers" / key[0]).get(f"{key[1]}.jsonl", []):
            assert whole[key][: file.end].count(b"\n") == file.lines
            assert whole[key][file.end - 1 : file.end] in (b"\n", b"")
            if file.size:
                assert whole[key][file.begin : file.end] == file.path.read_bytes()
        first, end = rows_from(folder, key)
        missing = len(whole[key]) - len(mine)
        assert first <= whole[key][:missing].count(b"\n")
        assert not end or end == (whole[key][:missing] + lines_at(folder, key)).count(b"\n")
    return gone


@pytest.mark.parametrize("seed", SEEDS)
def test_kills_and_damage_leave_the_end_of_what_the_log_gives(seed: int) -> None:
    random = Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        growing = Growing(trace(random.randrange, 200), folder, 7)
        delivered = dict.fromkeys(random.sample(KEYS, 6), 0)
        while growing.left:
            limits = random.choice([SMALL, SMALL, Limits()])
            life = life_of(folder, random.choice([3, 10, 30, NEVER]), limits)
            with suppress(KilledError):
                life.follow(growing, random, saves=0.6)
            for key in delivered:
                delivered[key] += random.randrange(2000)
            if random.random() < 0.5:
                keeper_of(folder, Limits(bytes=random.randrange(1, 9000)), delivered).step()
            if random.random() < 0.2:
                hurt_an_answer(folder, random)
            if random.random() < 0.1:
                state_of(folder).unlink(missing_ok=True)
        life = life_of(folder)
        life.end_at(growing.there)
        assert assert_is_the_end(folder, passed(folder, SETTINGS), delivered) >= 0
        assert closed_files(folder / "answers" / "w")


@pytest.mark.parametrize(
    "limits", [Limits(bytes=1), pytest.param(Limits(age_ns=60 * 10**9), marks=pytest.mark.slow)]
)
def test_the_oldest_go_but_what_no_sink_has_delivered(limits: Limits, tmp_path: Path) -> None:
    files, said = grown(tmp_path), list[str]()
    for number in range(1, files + 1):
        life = life_of(tmp_path)
        assert (life.said, life.engine.done) == ([], number - 1), "the state is of before a close"
        life.engine.upto(number)
        life.engine.save()
    life.end_at(files)
    whole = passed(tmp_path, SETTINGS)
    first = closed_files(tmp_path / "answers" / "w")["n.jsonl"][0]
    delivered = {("w", "n"): first.end}
    keeper = keeper_of(tmp_path, limits, delivered, said.append)
    now = keeper._now_ns()
    keeper._now_ns = lambda: now + 61 * 10**9
    keeper.step()
    keeper.step()
    gone = assert_is_the_end(tmp_path, whole, delivered)
    assert gone > first.end
    left = closed_files(tmp_path / "answers" / "w")["n.jsonl"]
    assert left[0].begin == first.end
    for key in KEYS:
        files_of = closed_files(tmp_path / "answers" / key[0]).get(f"{key[1]}.jsonl", [])
        assert key == ("w", "n") or [file.size for file in files_of] in ([], [0])
    assert len(said) == 1
    assert "stay until the sinks have delivered them" in said[0]
    again = life_of(tmp_path)
    assert not again.said
    again.end_at(files)
    assert assert_is_the_end(tmp_path, whole, delivered) == gone


def test_a_file_larger_than_what_is_kept_goes_as_a_whole_and_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "answers" / "w" / f"n.jsonl.{1 << 20:012d}-{2 << 20:015d}"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"0\n" * (1 << 20))
    said = list[str]()
    keeper = keeper_of(tmp_path, Limits(bytes=1 << 20), {}, said.append)
    keeper.step()
    keeper.step()
    assert (file.stat().st_size, len(said)) == (0, 1)
    assert said[0].startswith(f"answers: {file} was removed as a whole")
    assert "its 2,097,152 bytes were more than [answers] keep_size" in said[0]


def test_a_log_that_gives_less_opens_closed_files_again(tmp_path: Path) -> None:
    """As after a restore of an older copy; what comes then is not taken for what is closed."""
    files = grown(tmp_path)
    copy = tmp_path / "copy"
    for number in range(1, files + 1):
        life = life_of(tmp_path)
        life.engine.upto(number)
        life.engine.save()
    before = lines_at(tmp_path, ("w", "n"))
    shutil.copytree(tmp_path / "log", copy)
    for file in numbered_files(tmp_path / "log")[files // 2 :]:
        file.path.unlink()
    state_of(tmp_path).unlink()
    less = life_of(tmp_path)
    less.engine.upto(files // 2)
    less.engine.close()
    assert less.written() == passed(tmp_path, SETTINGS)
    cut = (tmp_path / "answers" / "w" / "n.jsonl.cut").read_bytes()
    assert sorted(cut.splitlines()) == sorted(
        before[len(lines_at(tmp_path, ("w", "n"))) :].splitlines()
    )
    assert any("had more than the log gives" in line for line in less.said)
    shutil.rmtree(tmp_path / "log")
    copy.rename(tmp_path / "log")
    more = life_of(tmp_path)
    more.end_at(files)
    assert more.written() == passed(tmp_path, SETTINGS)


def test_a_state_of_a_version_that_closed_no_files_is_gone_on_with(tmp_path: Path) -> None:
    files = grown(tmp_path)
    life = life_of(tmp_path, limits=Limits())
    life.engine.upto(files // 2)
    life.engine.save()
    state = load(state_of(tmp_path))
    del state["answers"]["numbers"]
    save(state_of(tmp_path), state)
    again = life_of(tmp_path)
    assert again.said == []
    assert again.engine.done == files // 2
    again.engine.save()
    again.end_at(files)
    assert_is_the_end(tmp_path, passed(tmp_path, SETTINGS), {})


def test_closed_files_that_are_gone_are_noticed(tmp_path: Path) -> None:
    files = grown(tmp_path)
    life = life_of(tmp_path)
    for number in range(1, files + 1):
        life.engine.upto(number)
        life.engine.save()
    for file in closed_files(tmp_path / "answers" / "w")["n.jsonl"]:
        file.path.unlink()
    again = life_of(tmp_path)
    assert "n.jsonl: the closed files before it are not all there" in again.said[0]
    again.end_at(files)
    assert again.written() == passed(tmp_path, SETTINGS)
    assert json.loads(lines_at(tmp_path, ("w", "n")).splitlines()[0])["op"] == "+"


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4, 60))]
)
def test_damage_in_closed_files_is_reported_at_each_start(seed: int, tmp_path: Path) -> None:
    """Also of a file that was closed after the state was saved; what was given up is no damage."""
    random = Random(seed)
    files = grown(tmp_path)
    for number in range(1, files + 1):
        life = life_of(tmp_path)
        life.engine.upto(number)
        life.engine.save()
        if random.random() < 0.2 and number < files / 2:
            keeper_of(tmp_path, Limits(bytes=9000), {}).step()
            assert life_of(tmp_path).said == []
    _, *middle, newest = closed_files(tmp_path / "answers" / "w")["n.jsonl"]
    victim = (random.choice(middle) if seed % 2 else newest).path
    before = victim.read_bytes()
    hurt(victim, random)
    if not victim.exists() and victim == newest.path:  # then all is made again
        victim.write_bytes(before[:-1])
    elif victim.exists() and victim.read_bytes() == before:
        victim.write_bytes(before.swapcase())
    place = victim.name if victim.exists() else f"n.jsonl.*-{victim.name.split('-')[1]}: is gone"
    for _ in range(2):
        (said,) = life_of(tmp_path).said
        assert place in said
        assert f"move {victim.parent} away" in said
    victim.write_bytes(before)
    assert life_of(tmp_path).said == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 6))]
)
def test_kills_of_a_server_that_keeps_little(field: Field, seed: int) -> None:
    """Of the server or its engine, also while files are closed and removed: a sink gets all once,
    and what is left is the end of what a query gives, of which every byte is where it was.
    """
    random = Random(seed)
    queries = {"q1": PAIRS}
    with http_server() as server:
        sink = f'[[sink]]\nkind = "http"\nurl = "{server.url}"\nretry = "10 ms"\nbatch = 500\n'
        keep = '[answers]\nkeep_size = "1 MiB"\n'
        field.site(asked(queries, more='formats = ["jsonl", "parquet"]') + sink + keep)
        for life in range(4):
            gateway = field.serve()
            agent = field.agent(
                field.agent_file(f"d{life}", field.replay(f"d{life}.jsonl", range(1500), pace=1))
            )
            assert agent.end(None) == 0, agent.text
            for _ in range(2):
                time.sleep(3 * random.random())
                for number in children(gateway.process.pid):
                    os.kill(number, signal.SIGKILL)
            time.sleep(3 * random.random())
            gateway.end(signal.SIGKILL if random.random() < 0.6 else signal.SIGTERM)
        (whole,) = lines_of_query(field, queries).values()
        gateway = field.serve()
        until(lambda: len({e["key"] for e in server.taken}) > len(whole) - 100, "results", 60)
        folder = field.folder / "site.log.answers" / "q1"
        until(lambda: _size(folder) < 3 << 19, "files that are given up", 60)
        assert gateway.end() == 0, gateway.text
    first = {each["key"]: each["result"] for each in reversed(server.taken)}
    keys = sorted(first, key=lambda key: int(key.rpartition("/")[2]))
    content = b"".join(whole)
    closed = closed_files(folder)["main.jsonl"]
    mine = b"".join(file.path.read_bytes() for file in closed)
    mine += answered(field, "q1") + answered(field, "q1", ".end")
    assert content.endswith(mine)
    assert closed[0].begin == len(content) - len(mine) > 0
    ends = len(answered(field, "q1", ".end").splitlines())
    assert [first[key] for key in keys] == [json.loads(line) for line in whole[: len(whole) - ends]]


def _size(folder: Path) -> int:
    """Of all answers, with tables."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.exists())
