"""Damage anywhere in what was answered is found when an engine starts, told, and mended."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UserError
from engine.log.files.folder import numbered_files
from engine.log.retention import retire
from engine.log.saved_state import load
from engine.results.answer_lines import AnswerLines, AnswersDamaged
from engine.results.answer_tables import AnswerTables
from engine.results.checked_length import MARKS, CheckedLength
from engine.results.filed_tables import FiledTables
from engine.results.live_beginning import check_begin
from tests.live.test_live_engine import KEYS, QUERIES, Life, lines_at, passed, rows_at
from tests.spark.test_growing_log import Growing, trace

WAYS = ("flip", "hole", "zeros", "short", "gone", "other")


def hurt(path: Path, way: str, random: Random) -> None:
    content = path.read_bytes()
    at = random.randrange(len(content))
    size = random.randint(1, len(content) - at)
    match way:
        case "flip":
            path.write_bytes(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])
        case "hole":
            path.write_bytes(content[:at] + content[at + size :])
        case "zeros":
            path.write_bytes(content[:at] + bytes(size) + content[at + size :])
        case "short":
            path.write_bytes(content[:at])
        case "gone":
            path.unlink()
        case _:
            path.write_bytes(b"{}\n")


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, dict[tuple, bytes]]:
    """A folder with a log and its answers, in lines and tables; the log's files; what is right."""
    folder = tmp_path_factory.mktemp("answered")
    growing = Growing(trace(Random(5).randrange, 150), folder, 7)
    files = len(growing.left)
    growing.grow(files)
    for number in (files // 3, files):
        life = Life(folder)
        life.engine.upto(number)
        life.engine.close()
    return folder, files, passed(folder)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["*.jsonl", "*.parquet"])
def test_what_was_damaged_is_told_and_made_anew(
    answered: tuple[Path, int, dict[tuple, bytes]],
    kind: str, way: str, seed: int, tmp_path: Path,
) -> None:  # fmt: skip
    folder, files, whole = answered
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    random = Random(seed)
    victim = random.choice(sorted((tmp_path / "answers").rglob(kind)))
    before = victim.read_bytes()
    hurt(victim, way, random)
    if victim.exists() and victim.read_bytes() == before:
        return  # zeros for zeros
    life = Life(tmp_path)
    place = victim.name if victim.exists() else victim.name.split(".")[0]
    assert place in life.said[0]
    assert life.said[0].endswith("answers are to be made again from the log's beginning")
    life.engine.upto(files)
    life.engine.close()
    for key, lines in whole.items():
        assert lines_at(tmp_path, key) + lines_at(tmp_path, key, ".end") == lines
        assert len(rows_at(tmp_path, key)) == lines_at(tmp_path, key).count(b"\n")
    again = Life(tmp_path)
    assert (again.said, again.engine.done) == ([], files)


def test_a_flipped_bit_is_mended_where_it_is(
    answered: tuple[Path, int, dict[tuple, bytes]], tmp_path: Path
) -> None:
    folder, files, _ = answered
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    path = max((tmp_path / "answers").rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    life = Life(tmp_path)
    life.engine.upto(files)
    (told,) = [line for line in life.said if "is mended" in line]
    assert told.startswith(f"{path}: was damaged, and is mended: from byte 1000 on; what stood")
    assert path.with_name(f"{path.name}.cut").read_bytes()[:1] == content[1000:1001]


def test_what_the_log_has_no_more_is_left_as_it_is(
    answered: tuple[Path, int, dict[tuple, bytes]], tmp_path: Path
) -> None:
    """The line on the damaged file, then a refusal that says what to do; nothing is removed."""
    folder, files, _ = answered
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    log, answers = tmp_path / "log", tmp_path / "answers"
    assert retire(log, numbered_files(log)[: files - 2], {}, None) is not None
    assert Life(tmp_path).said == []
    for victim in (min(answers.rglob("*.parquet")), min(answers.rglob("*.jsonl"))):
        content = victim.read_bytes()
        victim.unlink()
        there = sorted(answers.rglob("*"))
        with pytest.raises(AnswersDamaged, match="is gone"):
            open_as_saved(tmp_path)
        with pytest.raises(UserError, match=r"a file of answers was damaged \(said above\)"):
            check_begin(log, answers, list(QUERIES))
        assert sorted(answers.rglob("*")) == there
        victim.write_bytes(content)
    assert Life(tmp_path).said == []


def open_as_saved(folder: Path) -> None:
    """As an engine opens what its state names, before it asks ``check_begin``."""
    known = load(folder / "answers" / ".state")["answers"]
    AnswerLines(folder / "answers", list(QUERIES), known["lines"], print)
    AnswerTables(folder / "answers", known["tables"], 0.0, 1, {}, print)


def test_tables_of_another_life_are_looked_at_too(
    answered: tuple[Path, int, dict[tuple, bytes]], tmp_path: Path
) -> None:
    """Of which no checksum is known: pages have their own."""
    folder, _, _ = answered
    shutil.copytree(folder / "answers", tmp_path, dirs_exist_ok=True)
    key = next(key for key in KEYS if len(list((tmp_path / key[0]).glob(f"{key[1]}.rows-*"))) > 1)
    first, *rest = sorted((tmp_path / key[0]).glob(f"{key[1]}.rows-*"))
    content = bytearray(first.read_bytes())
    content[len(content) // 3] ^= 1
    first.write_bytes(content)
    said: list[str] = []
    assert FiledTables(tmp_path / key[0] / key[1], said.append).end == 0
    assert said == [f"{first}: was damaged, and is made anew; kept as {first.name}.damaged"]
    assert not any(path.exists() for path in (first, *rest))
    assert first.with_name(f"{first.name}.damaged").read_bytes() == content


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.binary(min_size=1, max_size=5000), min_size=1, max_size=40),
    st.integers(min_value=0),
    st.integers(min_value=1, max_value=30),
)
def test_no_flipped_bit_is_missed(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], place: int, times: int
) -> None:
    made = CheckedLength()
    content = b"".join(pieces) * times
    for start in range(0, len(content), 3000):
        made.add(content[start : start + 3000])
        made = CheckedLength.of(made.state())
    assert len(made.state()) <= 3 + 2 * MARKS
    path = tmp_path_factory.mktemp("one") / "file"
    path.write_bytes(content + b"what follows")
    assert made.damage(path) == ""
    at = place % len(content)
    path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
    _, start, _, end, *_ = made.damage(path).split()
    assert int(start) <= at < int(end)
    path.write_bytes(content[:at])
    assert made.damage(path) == f"ends at byte {at}, and had {len(content)}"
    path.unlink()
    assert made.damage(path) == "is gone"
