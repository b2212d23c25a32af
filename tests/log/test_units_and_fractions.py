"""The unit of times is checked whatever odd ones are among them; fractions go to the nearest ns."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.edge_agent.units import NS_PER
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.input.input_log import open_input
from slackwater.engine.log.input.input_read import InputForm

MS = 1_700_000_000_000


def _ts(path: Path, unit: str | None = None) -> list[int]:
    return [
        ts for frame in open_input(path, InputForm(unit))
        for ts in frame.batch.column("ts").to_pylist()
    ]  # fmt: skip


def _files(folder: Path, texts: list[str]) -> list[Path]:
    csv, jsonl = folder / "t.csv", folder / "t.jsonl"
    csv.write_text("ts,v\n" + "".join(f"{text},1\n" for text in texts), encoding="utf-8")
    jsonl.write_text("".join(f'{{"ts": {text}, "v": 1}}\n' for text in texts), encoding="utf-8")
    return [csv, jsonl]


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([0, MS, MS + 1, MS + 2], "lines {2}, {3}, {4} are such, but line {1} is no date in any"),
        ([MS, MS + 1, 0, MS + 2], "lines {1}, {2}, {4} are such, but line {3} is no date in any"),
        ([7012, 8012, MS, MS + 1000], "lines {3}, {4} are such, but lines {1}, {2} are no dates"),
        (
            [MS, MS + 1000, MS // 1000, MS + 2000, MS // 1000 + 1],
            "lines {1}, {2}, {4} are such, but lines {3}, {5} are dates in s",
        ),
    ],
)
def test_case_21_one_odd_time_switches_no_check_off(
    times: list[int], said: str, tmp_path: Path
) -> None:
    for path in _files(tmp_path, [str(each) for each in times]):
        with pytest.raises(UserError) as refused:
            _ts(path)
        before = 1 if path.suffix == ".csv" else 0
        lines = {number: number + before for number in range(1, len(times) + 1)}
        assert "give --time-unit ms" in str(refused.value)
        assert said.format(None, *lines.values()) in str(refused.value)


@pytest.mark.parametrize("unit", ["ms", None])
def test_dates_of_another_unit_are_bad_lines(unit: str | None, tmp_path: Path) -> None:
    scale = 1 if unit else 1_000_000
    times = [str(MS * scale), str((MS + 1) * scale), str(MS // 1000), str((MS + 2) * scale)]
    for path in _files(tmp_path, times):
        line = 4 if path.suffix == ".csv" else 3
        with pytest.raises(UserError, match=rf":{line}: .* in which most are dates, .* in s;"):
            _ts(path, unit)
        read = open_input(path, InputForm(unit), "skip")
        assert sum(frame.rows for frame in read) == 3
        assert read.bad_count == 1


@pytest.mark.parametrize("many", [10, pytest.param(70_000, marks=pytest.mark.slow)])
def test_half_a_file_in_another_unit_is_bad_lines(many: int, tmp_path: Path) -> None:
    """Also where all of a part that is read at once are in it."""
    texts = [*(str((MS + n) * 1000) for n in range(many)), *(str(MS + n) for n in range(many))]
    for path in _files(tmp_path, texts):
        read = open_input(path, InputForm("us"), "skip")
        assert sum(frame.rows for frame in read) == many
        assert read.bad_count == many


def test_files_of_several_units_are_refused(tmp_path: Path) -> None:
    fine, coarse = (tmp_path / f"{unit}.jsonl" for unit in ("us", "ms"))
    fine.write_text(f'{{"ts": {MS * 1000}}}\n', encoding="utf-8")
    coarse.write_text(f'{{"ts": {MS}}}\n', encoding="utf-8")
    for paths, unit, said in (
        ((fine, coarse), "us", "ms.jsonl:1: .* in which most are dates, .* in ms;"),
        ((coarse, fine), "us", "us.jsonl:1: .* but those before it are dates in ms;"),
        ((coarse, fine), "ms", "us.jsonl:1: .* in which most are dates, .* in us;"),
    ):
        with pytest.raises(UserError, match=said):
            list(open_input([str(path) for path in paths], InputForm(unit)))


@pytest.mark.parametrize(
    "times",
    [
        [n * 100_000_000 for n in range(100)],  # from 0 on, through what would be dates in s
        [0, 1_200_000_000, 1_250_000_000, 5_000_000_000, 9_000_000_000],
        [0, MS * 1_000_000, MS * 1_000_000 + 1],
        [0, MS],
    ],
)
def test_times_that_count_ns_stay_so(times: list[int], tmp_path: Path) -> None:
    for path in _files(tmp_path, [str(each) for each in times]):
        assert _ts(path) == times


def test_a_zero_is_a_time_where_the_unit_is_given(tmp_path: Path) -> None:
    for path in _files(tmp_path, ["0", str(MS), str(MS + 1)]):
        assert _ts(path, "ms") == [0, MS * 1_000_000, (MS + 1) * 1_000_000]


@pytest.mark.parametrize(("number", "ns"), [("3e-06", 3), ("4.25", 4_250_000), ('"7"', 7 * 10**6)])
def test_durations_are_numbers_of_any_form(number: str, ns: int, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = '{{"kind": "sync", "source": "s", "offset": {}, "delay": 2, "arrival": 1}}\n'
    path.write_text(line.format(number), encoding="utf-8")
    assert [
        frame.batch.column("offset").to_pylist() for frame in open_input(path, InputForm("ms"))
    ] == [[ns]]
    path.write_text(line.format('"2026-03-01"'), encoding="utf-8")
    with pytest.raises(UserError, match="is not a number"):
        list(open_input(path, InputForm("ms")))


FRACTIONS = st.tuples(
    st.sampled_from(["us", "ms", "s", "min", "h"]),
    st.integers(-1_000_000, 1_000_000),
    st.text("0123456789", min_size=1, max_size=17),
)


@example(("us", -1, "0005"))
@given(FRACTIONS)
def test_fractions_go_to_the_nearest_ns(
    tmp_path_factory: pytest.TempPathFactory, fraction: tuple[str, int, str]
) -> None:
    unit, whole, digits = fraction
    text = f"{whole}.{digits}"
    exact = (Decimal(text) * NS_PER[unit]).quantize(Decimal(1), ROUND_HALF_UP)
    for path in _files(tmp_path_factory.mktemp("t"), [text]):
        assert _ts(path, unit) == [int(exact)]


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1551129661.954561233", 1_551_129_661_954_561_233),
        ("1551129661.95456123352050781250", 1_551_129_661_954_561_234),
        ("1.551129663E9", 1_551_129_663_000_000_000),
        ("1.5511296630000000015E9", 1_551_129_663_000_000_002),
        ("0.0000000006", 1),
        ("1.9999999996", 2_000_000_000),
        ("0.0000000004", 0),
        ("1." + "9" * 300, 2_000_000_000),
    ],
)
def test_case_21_fractions_of_seconds(text: str, ns: int, tmp_path: Path) -> None:
    for path in _files(tmp_path, [text]):
        assert _ts(path, "s") == [ns]
    nested = tmp_path / "n.jsonl"
    nested.write_text(f'{{"head": {{"t": {text}}}, "w": 0.12345678}}\n', encoding="utf-8")
    read = open_input(nested, InputForm("s", {"ts": "head.t"}))
    assert [frame.batch.column("ts").to_pylist() for frame in read] == [[ns]]
    document = tmp_path / "d.json"
    document.write_text(json.dumps([{"ts": 1.5}]), encoding="utf-8")
    assert _ts(document, "s") == [1_500_000_000]
