"""Damage anywhere in what was answered is found when an engine starts, reported, and repaired."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.log_folder import numbered_files
from slackwater.engine.log.retention import retire
from slackwater.engine.log.whole_file import load
from slackwater.engine.output.answer_files import AnswerLines, AnswerTables, FiledTables
from slackwater.engine.output.durability import MARKS, AnswersDamaged, DurableBytes
from slackwater.engine.output.run_writer import check_begin
from tests.live.engine_life import Answered, grown, hurt, lines_at, passed, state_of
from tests.live.test_live_engine import KEYS, QUERIES, SETTINGS, live, rows_at


@pytest.fixture(name="right", scope="module")
def _right(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, Answered]:
    """A folder with a log and its answers, in lines and tables; the log's files; what is right."""
    folder = tmp_path_factory.mktemp("answered")
    files = grown(folder)
    for number in (files // 3, files):
        live(folder).end_at(number)
    return folder, files, passed(folder, SETTINGS)


@pytest.fixture(name="damaged")
def _damaged(right: tuple[Path, int, Answered], tmp_path: Path) -> Path:
    """A copy to be damaged."""
    shutil.copytree(right[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize(
    "seed",
    [
        *range(3),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 6)),
        *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(6, 100)),
    ],
)
@pytest.mark.parametrize("kind", ["*.jsonl", "*.parquet"])
def test_damage_is_reported_and_answers_are_made_again(
    right: tuple[Path, int, Answered], damaged: Path, kind: str, seed: int
) -> None:
    _, files, whole = right
    random = Random(seed)
    victim = random.choice(sorted((damaged / "answers").rglob(kind)))
    before = victim.read_bytes()
    while victim.exists() and victim.read_bytes() == before:  # zeros for zeros
        hurt(victim, random)
    life = live(damaged)
    place = victim.name if victim.exists() else victim.name.split(".")[0]
    life.engine.upto(files)  # only then it shows that a file has more than the log gives
    assert place in life.said[0]
    life.end_at(files)
    assert life.written() == whole
    for key in KEYS:
        assert len(rows_at(damaged, key)) == lines_at(damaged, key).count(b"\n")
    again = live(damaged)
    assert (again.said, again.engine.done) == ([], files)


def test_a_flipped_bit_is_mended_where_it_is(
    right: tuple[Path, int, Answered], damaged: Path
) -> None:
    path = max((damaged / "answers").rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    life = live(damaged)
    life.engine.upto(right[1])
    (reported,) = [line for line in life.said if "is repaired" in line]
    assert reported.startswith(f"{path}: was damaged and is repaired: from byte 1000 on; what was")
    assert path.with_name(f"{path.name}.cut").read_bytes()[:1] == content[1000:1001]


def test_what_the_log_has_no_more_is_left_as_it_is(
    right: tuple[Path, int, Answered], damaged: Path
) -> None:
    """The line on the damaged file, then a refusal that says what to do; nothing is removed."""
    log, answers = damaged / "log", damaged / "answers"
    assert retire(log, numbered_files(log)[: right[1] - 2], {}, None) is not None
    assert live(damaged).said == []
    for victim in (min(answers.rglob("*.parquet")), min(answers.rglob("*.jsonl"))):
        content = victim.read_bytes()
        victim.unlink()
        there = sorted(answers.rglob("*"))
        with pytest.raises(AnswersDamaged, match="is gone"):
            open_as_saved(damaged)
        with pytest.raises(UserError, match=r"a file of answers was damaged \(said above\)"):
            check_begin(log, answers, list(QUERIES))
        assert sorted(answers.rglob("*")) == there
        victim.write_bytes(content)
    assert live(damaged).said == []


def open_as_saved(folder: Path) -> None:
    """As an engine opens what its state names, before it asks ``check_begin``."""
    known = (load(state_of(folder)) or {})["answers"]
    AnswerLines(folder / "answers", list(QUERIES), known["lines"], print)
    AnswerTables(folder / "answers", known["tables"], 0.0, 1, {}, print)


def test_tables_of_another_life_are_looked_at_too(damaged: Path) -> None:
    """Of which no checksum is known: pages have their own."""
    answers = damaged / "answers"
    key = next(key for key in KEYS if len(list((answers / key[0]).glob(f"{key[1]}.rows-*"))) > 1)
    first, *rest = sorted((answers / key[0]).glob(f"{key[1]}.rows-*"))
    content = bytearray(first.read_bytes())
    content[len(content) // 3] ^= 1
    first.write_bytes(content)
    said: list[str] = []
    assert FiledTables(answers / key[0] / key[1], said.append).end == 0
    assert said == [
        f"{first}: was damaged and is written again; the damaged file is {first.name}.damaged"
    ]
    assert not any(path.exists() for path in (first, *rest))
    assert first.with_name(f"{first.name}.damaged").read_bytes() == content


@settings(max_examples=30)
@given(
    st.lists(st.binary(min_size=1, max_size=5000), min_size=1, max_size=40),
    st.integers(min_value=0),
    st.integers(min_value=1, max_value=30),
)
def test_no_flipped_bit_is_missed(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], place: int, times: int
) -> None:
    made = DurableBytes()
    content = b"".join(pieces) * times
    for start in range(0, len(content), 3000):
        made.add(content[start : start + 3000])
        made = DurableBytes.of(made.state())
    assert len(made.state()) <= 3 + 2 * MARKS
    path = tmp_path_factory.mktemp("one") / "file"
    path.write_bytes(content + b"what follows")
    assert made.damage(path, grows=True) == ""
    assert made.damage(path) == f"ends at byte {len(content) + 12}, and had {len(content)}"
    at = place % len(content)
    path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
    _, start, _, end, *_ = made.damage(path, grows=True).split()
    assert int(start) <= at < int(end)
    path.write_bytes(content[:at])
    assert made.damage(path) == f"ends at byte {at}, and had {len(content)}"
    path.unlink()
    assert made.damage(path) == "is gone"
