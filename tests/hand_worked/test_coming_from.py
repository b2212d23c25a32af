"""docs/coming-from.md: each query of its table is answered, over one small stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slackwater
from tests.hand_worked.cases import record

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from.md"
EVENTS = [
    record(line)
    for line in (
        "s/A 1 k=1 v=2", "s/A 2 k=1 v=4", "t/B 3 k=1 v=6", "s/C 4 k=1 v=8", "s/A 12 k=2 v=5",
        "t/D 13 k=1 v=1", "t/B 14 k=2 v=3", "s/A 30 k=3 v=9", "s/A 31 k=2 v=7", "s/C 40 k=2 v=1",
    )
]  # fmt: skip
QUERIES = re.findall(
    r"`((?:EVENT|SELECT|CREATE) [^`]*)` \|$", PAGE.read_text("utf-8"), re.MULTILINE
)


@pytest.fixture(name="trace", scope="module")
def _trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slackwater.Input]:
    trace = tmp_path_factory.mktemp("coming_from") / "trace.jsonl"
    trace.write_text("".join(json.dumps(each) + "\n" for each in EVENTS), encoding="utf-8")
    with slackwater.read(trace, time_unit="s") as events:
        yield events


@pytest.mark.parametrize("asked", QUERIES)
def test_each_query_of_the_page_has_an_answer(asked: str, trace: slackwater.Input) -> None:
    assert len(slackwater.query(trace, asked)) > 0


def test_all_rows_of_the_table_but_that_of_options_have_a_query() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert len(QUERIES) == len(rows) - 2 >= 25
