"""Devices that make intervals of their readings: in the log, and as the truth has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.edge_agent.abstraction.settings import AbstractSettings
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import Codes, MaskedColumn
from slackwater.engine.core.errors import UserError
from slackwater.simulator.run import FrameList, simulate
from slackwater.simulator.scenario import SourceSettings, read_scenario
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.true_intervals import made_streams, with_intervals
from slackwater.simulator.workload import Batch, Periodic, Span

SECOND = 10**9
SPEC_READINGS = [55, 70, 95, 80, 110, 120, 90, 60, 30]
BANDS = {
    "stream": "climate", "into": "bands", "kind": "bands", "value": "celsius",
    "bands": ["LOW", 50, "MEDIUM", 100, "HIGH"], "by": ["shelf"],
}  # fmt: skip


class Readings:
    """The readings of SPEC 4.10 at 2 s steps, ``times`` times as many of each."""

    def __init__(self, times: int = 1) -> None:
        self.times = times

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema("climate", {"celsius": "float", "shelf": "str", "door": "bool"}),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        del seeds, source
        values = np.repeat(np.array(SPEC_READINGS, float), self.times)
        step = 2 * SECOND // self.times
        times = span.start_ns + np.arange(values.size, dtype=np.int64) * step
        ones = np.ones(values.size, np.uint8)
        attrs = {
            "celsius": MaskedColumn(values, ones), "door": ones,
            "shelf": Codes(["s1"], np.zeros(values.size, np.int32)),
        }  # fmt: skip
        yield Batch("climate", times, "READ", attrs)


def run(tmp_path: Path, times: int = 1, **source: Any) -> tuple[list[dict[str, Any]], Any]:
    sink = FrameList()
    scenario = read_scenario(
        {
            "name": "bands", "seed": 1, "duration": "20 s", "start_ns": 0,
            "sources": [{"name": "fridge", "workload": Readings(times), "heartbeat": 0, **source}],
        }
    )  # fmt: skip
    done = simulate(scenario, sink, tmp_path)
    rows = [row for frame in sink.frames for row in frame.batch.to_pylist()]
    return rows, done.manifest


def end(row: dict[str, Any]) -> int:
    te = row.get("te")
    return int(row["ts"] if te is None else te)


def intervals(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (row["type"], row["ts"] // SECOND - 2, end(row) // SECOND - 2, row.get("attrs.cut"))
        for row in rows
        if row.get("kind", 0) == 0 and row.get("stream") == "bands"
    ]


def test_golden_of_spec_4_10_on_a_simulated_device(tmp_path: Path) -> None:
    rows, manifest = run(tmp_path, abstract=[BANDS])
    assert intervals(rows) == [
        ("MEDIUM", 0, 8, None), ("HIGH", 8, 12, None), ("MEDIUM", 12, 16, None),
        ("LOW", 16, 16, "eos"),
    ]  # fmt: skip
    begins = [(row["type"], row["ts"] // SECOND - 2) for row in rows if row.get("kind") == 2]
    assert begins == [("MEDIUM", 0), ("HIGH", 8), ("MEDIUM", 12), ("LOW", 16)]
    events = manifest["events"]
    assert (events["generated"], events["abstracted"], events["made"], events["logged"]) == (
        9, 9, 4, 4,
    )  # fmt: skip


def test_readings_may_be_kept_beside_their_intervals(tmp_path: Path) -> None:
    rows, manifest = run(tmp_path, abstract=[{**BANDS, "keep": True}])
    assert len(intervals(rows)) == 4
    assert manifest["events"]["logged"] == 13


def test_intervals_save_most_of_the_bytes_of_their_readings(tmp_path: Path) -> None:
    _, raw = run(tmp_path, times=50)
    _, abstract = run(tmp_path, times=50, abstract=[BANDS])
    sent = [each["sources"]["main/fridge"]["bytes"] for each in (raw, abstract)]
    assert sent[1] < sent[0] / 10


@pytest.mark.parametrize(("disk", "expected"), [(True, (0, 8)), (False, (4, 8))])
def test_a_device_with_a_disk_goes_on_with_its_open_intervals(
    tmp_path: Path, disk: bool, expected: tuple[int, int]
) -> None:
    rows, _ = run(tmp_path, abstract=[BANDS], restarts=["5 s"], counts_boots=disk)
    assert intervals(rows)[0] == ("MEDIUM", *expected, None)


def test_a_setting_that_does_not_fit_the_stream_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="stream climate has no attribute kelvin"):
        run(tmp_path, abstract=[{**BANDS, "value": "kelvin"}])


def test_presence_ends_by_time_on_a_silent_device(tmp_path: Path) -> None:
    stay = {
        "stream": "climate", "into": "bands", "kind": "presence", "type": "STAY", "gap": "3 s",
        "by": ["shelf", "door"],
    }  # fmt: skip
    rows, _ = run(tmp_path, abstract=[stay], times=1)
    (row,) = (row for row in rows if row.get("stream") == "bands" and row.get("kind", 0) == 0)
    assert (row["type"], end(row) - row["ts"], row["arrival"]) == (
        "STAY", 16 * SECOND, pytest.approx(21 * SECOND, abs=SECOND // 10),
    )  # fmt: skip


SLOW = 1000
"""The device's clock shows so much less."""
VALUES = [55, 70, 95, 80, 110, 120, 90, 60, 30]


def device(**more: object) -> SourceSettings:
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


def in_order(found: pa.Table) -> list[tuple[object, ...]]:
    names = ("type", "true_ts", "true_te", "ts", "truth.room", "truth.cut")
    columns = [found[name].to_pylist() for name in names]
    return sorted(zip(*columns, strict=True), key=str)


def test_readings_become_the_intervals_they_stand_for() -> None:
    made = device()
    table = truth(["a"] * 9).set_column(0, "site", pa.array([made.site] * 10))
    found = with_intervals(table, [made])
    assert in_order(found) == sorted(
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
    made = device(keep=True)
    table = truth(["a", "b"] * 4 + ["a"]).set_column(0, "site", pa.array([made.site] * 10))
    found = with_intervals(table, [made])
    assert sum(type_ == "READ" for type_ in found["type"].to_pylist()) == len(VALUES)
    levels = [row for row in in_order(found) if row[0] in {"LOW", "MEDIUM", "HIGH"}]
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
    made = device()
    table = truth(["a"] * 9).set_column(0, "site", pa.array([made.site] * 10))
    with pytest.raises(UserError, match="truth of room"):
        with_intervals(table.drop_columns("truth.room"), [made])
