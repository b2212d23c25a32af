"""What a newcomer from Flink, Siddhi or Esper asks, answered by hand and by slackwater.

The files beside this one have the cases; ``tests.hand_worked.cases`` says how they are written.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import slackwater
from tests.hand_worked.cases import Case, cases, standing, written

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_answer_is_that_of_the_hand(case: Case, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(each) + "\n" for each in case.records), encoding="utf-8")
    looked_at = {found[1] for each in case.results if (found := re.match(r"[+-] (\w+): ", each))}
    with slackwater.read(trace, time_unit="s") as events:
        answered = [
            written(result, named=bool(looked_at))
            for result in slackwater.query(events, case.query, **case.options)
            if not looked_at or result["query"] in looked_at
        ]
    if case.in_order:
        assert answered == case.results, case.because
    else:
        assert standing(answered) == sorted(case.results), case.because


def test_there_are_sixty_of_them_each_with_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
    for tool in ("Flink", "Siddhi", "Esper"):
        assert sum(tool in case.habit for case in CASES) >= 20, tool
