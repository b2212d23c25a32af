"""``slackwater.follow``: answers of a live server, each once, in order, as they come."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from threading import Timer

import pytest

import slackwater


def _line(n: int) -> str:
    return json.dumps({"op": "+", "value": {"n": n}}) + "\n"


def _answers(folder: Path, name: str, *numbers: int) -> Path:
    file = folder / f"{name}.jsonl"
    file.parent.mkdir(exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.writelines(map(_line, numbers))
    return file


def _numbers(
    folder: Path, *asked: str | None, positions: dict[str, int] | None = None
) -> list[int]:
    found = slackwater.follow(folder, *asked, wait=False, positions=positions)
    return [answer["value"]["n"] for answer in found]


def test_what_is_there_is_given_by_query_and_site(tmp_path: Path) -> None:
    _answers(tmp_path, "q1/main", 1, 2)
    _answers(tmp_path, "q1/ward%203", 3)
    _answers(tmp_path, "q2/main", 4)
    (tmp_path / "q1" / "main.jsonl.end").write_text(_line(9))
    assert sorted(_numbers(tmp_path)) == [1, 2, 3, 4]
    assert _numbers(tmp_path, "q1", "main") == [1, 2]
    assert _numbers(tmp_path, "q1", "ward 3") == [3]
    assert _numbers(tmp_path, None, "main") == [1, 2, 4]


def test_a_line_that_is_being_written_is_given_when_it_is_whole(tmp_path: Path) -> None:
    file, positions = _answers(tmp_path, "q1/main", 1), dict[str, int]()
    whole = _line(2)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(whole[:7])
        lines.flush()
        assert _numbers(tmp_path, positions=positions) == [1]
        lines.write(whole[7:])
    assert _numbers(tmp_path, positions=positions) == [2]
    assert _numbers(tmp_path, positions=positions) == []
    assert positions == {"q1/main.jsonl": file.stat().st_size}


def test_positions_count_what_was_given_and_no_more(tmp_path: Path) -> None:
    _answers(tmp_path, "q1/main", 1, 2, 3)
    positions: dict[str, int] = {}
    first = next(slackwater.follow(tmp_path, wait=False, positions=positions))
    assert first["value"] == {"n": 1}
    assert _numbers(tmp_path, positions=dict(positions)) == [2, 3]


def test_it_waits_for_more_also_of_queries_that_are_added(tmp_path: Path) -> None:
    _answers(tmp_path, "q1/main", 1)
    later = Timer(0.3, lambda: _answers(tmp_path, "q2/main", 2))
    later.start()
    found = islice(slackwater.follow(tmp_path, every=0.02), 2)
    assert [answer["value"]["n"] for answer in found] == [1, 2]
    later.join()


def test_what_was_removed_before_it_was_read_is_said_once(tmp_path: Path) -> None:
    positions = dict[str, int]()
    for number in range(1, 4):
        file = _answers(tmp_path, "q1/main", number)
        if number == 1:
            assert _numbers(tmp_path, positions=positions) == [1]
        file.rename(file.with_name(f"{file.name}.{number:012d}-{number * len(_line(1)):015d}"))
    for removed in sorted((tmp_path / "q1").iterdir())[:2]:
        removed.unlink()
    _answers(tmp_path, "q1/main", 4)
    with pytest.warns(slackwater.SlackwaterWarning, match=r"31 bytes of .* q1/main\.jsonl were"):
        assert _numbers(tmp_path, positions=positions) == [3, 4]
    assert _numbers(tmp_path) == [3, 4]  # one that begins has missed nothing
    assert _numbers(tmp_path, positions=positions) == []


def test_what_is_no_folder_and_no_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(slackwater.UserError, match=r"site\.log\.answers: no folder of answers"):
        next(slackwater.follow(tmp_path / "site.log.answers"))
    (tmp_path / "q1").mkdir()
    (tmp_path / "q1" / "main.jsonl").write_text(_line(1) + "{\n")
    with pytest.raises(slackwater.UserError, match=r"main\.jsonl: no answer at byte 31"):
        _numbers(tmp_path)


def test_closed_files_are_read_first_and_what_was_removed_is_left_out(tmp_path: Path) -> None:
    positions: dict[str, int] = {}
    sizes = [0]
    for n in range(3):
        file = _answers(tmp_path, "q1/main", 2 * n, 2 * n + 1)
        sizes.append(sizes[-1] + file.stat().st_size)
        if n < 2:
            assert _numbers(tmp_path, positions=positions) == [2 * n, 2 * n + 1]
            file.rename(f"{file}.{2 * n + 2:012d}-{sizes[-1]:015d}")
    assert _numbers(tmp_path) == [*range(6)]
    assert _numbers(tmp_path, positions=positions) == [4, 5]
    assert positions == {"q1/main.jsonl": sizes[-1]}
    assert _numbers(tmp_path, positions={"q1/main.jsonl": sizes[1]}) == [2, 3, 4, 5]
    min((tmp_path / "q1").glob("*-*")).unlink()
    assert _numbers(tmp_path) == [2, 3, 4, 5]
    assert _numbers(tmp_path, positions=positions) == []


def test_what_sinks_could_not_deliver_is_no_answer(tmp_path: Path) -> None:
    _answers(tmp_path, "q1/main", 1)
    _answers(tmp_path, ".sinks/http.dead", 2)
    assert _numbers(tmp_path) == [1]
