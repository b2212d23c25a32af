"""What who comes from Flink, Siddhi or Esper writes first, and the remedy that each is told.

``habits_of_others.txt`` holds query => last line of the message; each was read by a person.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import UserError
from engine.query.analysis.cascade import read_statements

TOLD = Path(__file__).with_name("habits_of_others.txt").read_text("utf-8")
CASES = [tuple(entry.rstrip("\n").split("\n=>\n")) for entry in TOLD.split("\n\n")]


@pytest.mark.parametrize(("text", "remedy"), CASES, ids=[text[:60] for text, _ in CASES])
def test_the_message_ends_with_the_remedy(text: str, remedy: str) -> None:
    with pytest.raises(UserError) as error:
        read_statements([text])
    assert str(error.value).split("\n")[-1] == f"  {remedy}"
