"""The comparison over all recordings: one page of those present, and lines about the rest."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.edge_agent import records as r
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.apps.compare.measure import measure_many
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.order.registry import parse_order
from slackwater.scenarios import soccer
from slackwater.scenarios.orders import measure_sites, order_table, plain
from slackwater.scenarios.phones import Phones
from slackwater.scenarios.recordings import HTML, JSON, RECORDINGS, compare_recordings, main

Rows = list[dict[str, Any]]


@pytest.fixture
def phones_data(record: Callable[..., Path], two_phones: Sequence[Any]) -> Path:
    """Session d-1, made by hand, and no other recording."""
    return record(two_phones)


def test_the_page_shows_what_is_there_and_names_what_is_not(
    phones_data: Path, tmp_path: Path
) -> None:
    chosen = [each for each in RECORDINGS if each.name in ("d-1", "d-2", "mimic")]
    found = compare_recordings(phones_data, tmp_path / "out", chosen)
    assert json.loads((tmp_path / "out" / JSON).read_bytes()) == json.loads(json.dumps(found))
    page = (tmp_path / "out" / HTML).read_text(encoding="utf-8")
    first, *others = found["recordings"].values()
    assert [each["order"] for each in first["orders"]] == list(chosen[0].orders)
    assert first["orders"][0]["disorder_before"] == 4  # see the golden of the phones' scenario
    assert first["verdict"]["suits"] is not None
    assert first["verdict"]["headline"] in page
    assert "4 of 40 events out of order on arrival (10.0 %); future guard 1s." in page
    for each in others:
        assert "the recording is not there" in each["left_out"]
        assert each["left_out"].split(":")[0] in page


def test_no_recording_at_all_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="holds none of the recordings"):
        compare_recordings(tmp_path / "nowhere", tmp_path / "out", RECORDINGS[:2])
    monkeypatch.setenv("SLACKWATER_DATA", str(tmp_path / "nowhere"))
    assert main([str(tmp_path / "out"), "--only", "imst"]) == 2
    said = capsys.readouterr().err
    assert "LoRaWAN imst: a board indoors" in said
    assert "CampusIoT/datasets" in said
    assert not (tmp_path / "out").exists()


def test_the_command_writes_the_page(
    phones_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("SLACKWATER_DATA", str(phones_data))
    assert main([str(tmp_path / "out"), "--only", "d-1"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out' / HTML}\n"


def test_every_recording_names_orders_and_options_that_exist() -> None:
    names = [each.name for each in RECORDINGS]
    assert len(set(names)) == len(names)
    for each in RECORDINGS:
        parsed = [parse_order(order) for order in each.orders]
        assert len(set(map(repr, parsed))) == len(parsed), each.name
        assert set(each.options) <= set(each.scenario.options())


def test_sites_measured_apart_equal_logs_of_their_own(
    record: Callable[..., Path], two_phones: Sequence[Any], tmp_path: Path
) -> None:
    orders = ["none", "sequence:latency=6s", "kslack:500ms"]
    for name, rows in (("d-1", two_phones), ("d-2", two_phones[:30])):
        data = record(rows, name)
    both, alone = tmp_path / "both", tmp_path / "alone"
    for folder, sessions in ((both, "d-1,d-2"), (alone, "d-2")):
        folder.mkdir()
        Phones().make(folder, {"sessions": sessions}, data)
    found = measure_sites(both / "log", orders)
    assert list(found) == ["d-1", "d-2"]
    assert plain(found["d-2"]) == plain(measure_many(alone / "log", orders)[1])
    assert [each.arrived for each in found["d-1"]] == [40] * 3
    table = order_table("d-1", found["d-1"], "ms")
    assert table.title == "d-1: 4 of 40 events out of order on arrival (10.0 %)"
    of_order = {row[0]: dict(zip(table.headings, row, strict=True)) for row in table.rows}
    none, patient, slack = (of_order[order] for order in orders)
    assert (none["in place"], none["left"], none["disorder removed"]) == ("90.0 %", 4, "0 %")
    assert (patient["in place"], patient["left"], patient["disorder removed"]) == (
        "100 %",
        0,
        "100 %",
    )
    assert (none["missing"], patient["missing"]) == (None, 0)
    assert (none["max [ms]"], slack["late"]) == ("0", 4)


def test_soccer_over_a_recorded_network(tmp_path: Path) -> None:
    """A recording whose round trips all take 200 ms: messages take half of it, one way."""
    folder = tmp_path / "data" / "net_cicv5g"
    folder.mkdir(parents=True)
    rows = "".join(f"r1,{at},200\n" for at in range(0, 60_000, 55))
    text = f"run,pub_time_ms,rtt_ms\n{rows}".encode()
    (folder / "cicv5g_rtt.csv.gz").write_bytes(gzip.compress(text))
    options = next(each.options for each in RECORDINGS if each.name == "soccer")
    made = tmp_path / "run"
    made.mkdir()
    soccer.scenario().make(made, {**options, "duration": "500 ms"}, tmp_path / "data")
    keys = ["source", "seq"]
    truth = pq.read_table(made / "truth" / "events.parquet", columns=[*keys, "true_ts"])
    logged = [frame.batch.to_pylist() for frame in LogReader(made / "log")]
    events = [row for rows in logged for row in rows if row.get("kind", 0) == r.Kind.EVENT]
    arrived = pa.table({name: [row[name] for row in events] for name in (*keys, "arrival")})
    known = truth.set_column(0, "source", truth["source"].cast(pa.string()))
    both = arrived.join(known, keys, join_type="inner")
    transit_ns = both["arrival"].to_numpy() - both["true_ts"].to_numpy()
    assert both.num_rows > 1_000
    assert int(transit_ns.min()) >= 100 * NS_PER["ms"]
    assert int(np.median(transit_ns)) < 150 * NS_PER["ms"]


def test_soccer_without_the_recorded_network_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cicv5g_rtt\.csv\.gz") as error:
        soccer.scenario().make(tmp_path / "run", {"delay": "recorded"}, tmp_path)
    assert "SLACKWATER_DATA" in str(error.value)
