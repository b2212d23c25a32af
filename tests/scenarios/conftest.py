"""Fixtures of the scenarios' tests: a whole run without Spark, and a recording made by hand."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.scenario import RunnableScenario, Score

Row = Mapping[str, Any]


def run_scenario(
    scenario: RunnableScenario, directory: Path, options: Mapping[str, Any], data: Path
) -> Score:
    """Makes the log, runs every pass in this process, and scores."""
    scenario.make(directory, options, data)
    plans = tuple(query(text, name=name) for name, text in scenario.queries(options).items())
    for number, each in enumerate(scenario.passes(options)):
        settings = ChainSettings(
            parse_order(each.order),
            plans if number == 0 or each.barrier else (),
            None if each.barrier is None else parse_barrier(each.barrier),
            guards=each.guards,
            ordered="bare",
        )
        run_in_process(directory / "log", settings, directory / "runs" / each.label)
    return scenario.score(directory, options)


@pytest.fixture(scope="session")
def run() -> Callable[..., Score]:
    return run_scenario


HEADER = (
    "S.Message.received.time.ms", "S.Http.Content.Length", "S.Device.ID", "S.Message.ID",
    "S.Client.Detection.Time", "S.Client.Last.Clock.Synch.Time", "C.Send.Time", "C.Arrival.Time",
    "C.NTP.offset", "C.Server.Message.Processed.Time", "A.Duration.round.trip",
    "A.Time.to.previous.Client.sequence.send.time",
)  # fmt: skip


def message(device: str, seq: int, detected: int, arrival: int, offset: int, **other: Any) -> Row:
    """One row of a recording; times in ms, ``detected`` on the corrected clock."""
    row = {
        "S.Message.received.time.ms": arrival,
        "S.Http.Content.Length": 264,
        "S.Device.ID": device,
        "S.Message.ID": seq,
        "S.Client.Detection.Time": detected,
        "S.Client.Last.Clock.Synch.Time": 1_000_000,
        "C.Send.Time": detected + 4,
        "C.Arrival.Time": arrival + 20,
        "C.NTP.offset": offset,
        "C.Server.Message.Processed.Time": arrival,
        "A.Duration.round.trip": arrival + 20 - detected - 4,
        "A.Time.to.previous.Client.sequence.send.time": "NA",
    }
    return row | other


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """Writes a recording; gives the folder to pass as ``data``."""

    def write(rows: Sequence[Row], name: str = "d-1", *, zipped: bool = True) -> Path:
        folder = tmp_path / "data" / "ooo_dataset_umts"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.csv{'.gz' if zipped else ''}"
        text = io.StringIO(newline="")
        names = rows[0].keys() if rows else HEADER
        writer = csv.DictWriter(text, names, delimiter=";", quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows(rows)
        plain = text.getvalue().encode()
        path.write_bytes(gzip.compress(plain) if zipped else plain)
        return tmp_path / "data"

    return write


@pytest.fixture
def two_phones() -> list[Row]:
    """Forty messages of two phones, 500 ms apart, one 30 s fast and one 2 s slow, some held up."""
    rows = []
    for seq in range(20):
        held_ms = 900 if seq % 5 == 3 else 0
        fast = 1_010_000 + 500 * seq
        rows.append(message("fast", seq, fast, fast + 40 + held_ms, -30_000))
        slow = 1_010_100 + 500 * seq
        rows.append(message("slow", seq, slow, slow + 60, 2_000))
    return sorted(rows, key=lambda row: int(row["S.Message.received.time.ms"]))
