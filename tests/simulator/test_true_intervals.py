"""The intervals of a perfect world: SPEC 4.10's golden, at true times and as devices saw them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from edge_agent.abstraction.settings import AbstractSettings
from engine.errors import UserError
from simulator.scenario import SourceSettings
from simulator.true_intervals import made_streams, with_intervals
from simulator.workload import Periodic

SLOW = 1000
"""The device's clock shows so much less."""
VALUES = [55, 70, 95, 80, 110, 120, 90, 60, 30]


def source(**more: object) -> SourceSettings:
    bands = AbstractSettings(
        stream="readings", into="levels", kind="bands", value="celsius", by=("room",),
        bands=("LOW", 50, "MEDIUM", 100, "HIGH"), **more,
    )  # type: ignore[arg-type]  # fmt: skip
    return SourceSettings(name="sensor", workload=Periodic(1), abstract=(bands,))


def truth(rooms: list[str], **columns: object) -> pa.Table:
    """``VALUES`` two apart; another stream's event besides."""
    count = len(VALUES)
    return pa.table(
        {
            "site": ["site"] * (count + 1),
            "source": ["sensor"] * (count + 1),
            "stream": [*["readings"] * count, "doors"],
            "seq": pa.array([*[None] * count, 0], pa.int64()),
            "true_ts": [*(2 * i for i in range(count)), 5],
            "ts": [*(2 * i - SLOW for i in range(count)), 5 - SLOW],
            "type": [*["READ"] * count, "OPEN"],
            "truth.celsius": [*map(float, VALUES), None],
            "truth.room": [*rooms, None],
            **columns,
        }
    )


def rows(found: pa.Table) -> list[tuple[object, ...]]:
    names = ("type", "true_ts", "true_te", "ts", "truth.room", "truth.cut")
    columns = [found[name].to_pylist() for name in names]
    return sorted(zip(*columns, strict=True), key=str)


def test_readings_become_the_intervals_they_stand_for() -> None:
    made = source()
    table = truth(["a"] * 9).set_column(0, "site", pa.array([made.site] * 10))
    found = with_intervals(table, [made])
    assert rows(found) == sorted(
        [
            ("OPEN", 5, None, 5 - SLOW, None, None),
            ("MEDIUM", 0, 8, 0 - SLOW, "a", None),
            ("HIGH", 8, 12, 8 - SLOW, "a", None),
            ("MEDIUM", 12, 16, 12 - SLOW, "a", None),
            ("LOW", 16, 16, 16 - SLOW, "a", "eos"),
        ],
        key=str,
    )
    assert made_streams([made]) == {(made.site, "sensor", "levels")}


def test_rooms_are_apart_and_readings_that_are_kept_stay() -> None:
    made = source(keep=True)
    table = truth(["a", "b"] * 4 + ["a"]).set_column(0, "site", pa.array([made.site] * 10))
    found = with_intervals(table, [made])
    assert sum(type_ == "READ" for type_ in found["type"].to_pylist()) == len(VALUES)
    levels = [row for row in rows(found) if row[0] in {"LOW", "MEDIUM", "HIGH"}]
    assert levels == sorted(
        [
            ("MEDIUM", 0, 8, 0 - SLOW, "a", None),
            ("HIGH", 8, 12, 8 - SLOW, "a", None),
            ("MEDIUM", 12, 16, 12 - SLOW, "a", None),
            ("LOW", 16, 16, 16 - SLOW, "a", "eos"),
            ("MEDIUM", 2, 10, 2 - SLOW, "b", None),
            ("HIGH", 10, 14, 10 - SLOW, "b", None),
            ("MEDIUM", 14, 14, 14 - SLOW, "b", "eos"),
        ],
        key=str,
    )


def test_a_truth_that_lacks_an_attribute_is_named() -> None:
    made = source()
    table = truth(["a"] * 9).set_column(0, "site", pa.array([made.site] * 10))
    with pytest.raises(UserError, match="truth of room"):
        with_intervals(table.drop_columns("truth.room"), [made])
