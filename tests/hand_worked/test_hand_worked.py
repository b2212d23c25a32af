"""What a newcomer from Flink, Siddhi or Esper asks, answered by hand and by slackwater.

The files beside this one have the cases; ``tests.hand_worked.cases`` says how they are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slackwater
from tests.hand_worked.cases import Case, cases, record, standing, written

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_answer_is_that_of_the_hand(case: Case, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(each) + "\n" for each in case.records), encoding="utf-8")
    looked_at = {found[1] for each in case.results if (found := re.match(r"[+-] (\w+): ", each))}
    with slackwater.read(trace, time_unit="s") as events:
        answered = [
            written(result, named=bool(looked_at))
            for result in slackwater.query(events, case.query, **case.options).changes()
            if not looked_at or result["query"] in looked_at
        ]
    if case.in_order:
        assert answered == case.results, case.because
    else:
        assert standing(answered) == sorted(case.results), case.because


# ---- docs/coming-from.md: each query of its table is answered, over one small stream ---------
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
    rooms = [{"k": 1, "room": "icu"}, {"k": 2, "room": "er"}]
    assert len(slackwater.query(trace, asked, tables={"tags": rooms})) > 0


def test_all_rows_of_the_table_but_that_of_options_have_a_query() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert len(QUERIES) == len(rows) - 2 >= 25
