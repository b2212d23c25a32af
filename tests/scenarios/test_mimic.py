"""``mimic``: tables made by hand against goldens, and the real ones where they are."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.edge_agent.units import NS_PER
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.order.base import Guards
from slackwater.engine.scenario import Score
from slackwater.scenarios.mimic import Mimic
from slackwater.scenarios.mimic.answers import asked_again, true_counts
from slackwater.scenarios.mimic.importing import charted_frames, source_counts, truth_table
from slackwater.scenarios.mimic.recording import (
    DAY_NS,
    SHIFT_DAYS,
    TABLES,
    ChartedEvents,
    read_charted,
)

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_recording = pytest.mark.skipif(
    not (RECORDED / "mimic_iv_demo" / "hosp" / "labevents.csv.gz").is_file(),
    reason="the MIMIC-IV demo is not on this machine",
)
Row = Mapping[str, Any]
Tables = dict[str, list[Row]]
Write = Callable[..., Path]
ENGINE_TIMES_END = 2**62
ITEMS = [{"itemid": 7, "label": "Potassium", "fluid": "Blood"}, {"itemid": 8, "label": "Sodium"}]
ICU_ITEMS = [{"itemid": 70, "label": "Foley"}, {"itemid": 71, "label": "Heparin"}]
COLUMNS = {
    "labevents": ("labevent_id", "subject_id", "itemid", "charttime", "storetime", "value",
                  "valuenum", "valueuom"),
    "inputevents": ("subject_id", "starttime", "endtime", "storetime", "itemid", "amount",
                    "amountuom"),
    "procedureevents": ("subject_id", "starttime", "endtime", "storetime", "itemid", "value",
                        "valueuom"),
    "outputevents": ("subject_id", "charttime", "storetime", "itemid", "value", "valueuom"),
    "datetimeevents": ("subject_id", "charttime", "storetime", "itemid", "value", "valueuom"),
    "d_labitems": ("itemid", "label", "fluid"),
    "d_items": ("itemid", "label"),
}  # fmt: skip


def at(text: str) -> int:
    """A time of the files, as the log has it [ns]."""
    moved = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() - 86_400 * SHIFT_DAYS
    return round(moved) * 10**9


def lab(patient: int, charted: str, filed: str | None, item: int = 7, value: Any = 4.0) -> Row:
    return {
        "labevent_id": 1, "subject_id": patient, "itemid": item, "charttime": charted,
        "storetime": filed, "value": "text, quoted", "valuenum": value, "valueuom": "mEq/L",
    }  # fmt: skip


def output(patient: int, charted: str, filed: str, value: float = 60) -> Row:
    return {
        "subject_id": patient, "charttime": charted, "storetime": filed, "itemid": 70,
        "value": value, "valueuom": "ml",
    }  # fmt: skip


@pytest.fixture
def ward() -> Tables:
    """Patient 2's night; patient 1 has one value.

    Filed in the order 03:00, 05:00, 04:00 and a fourth that was never filed; an output charted at
    17:42 for 18:00, and an infusion filed when it was over.
    """
    return {
        "labevents": [
            lab(2, "2150-01-02 05:00:00", "2150-01-02 06:00:00", value=4.5),
            lab(2, "2150-01-02 03:00:00", "2150-01-02 03:30:00"),
            lab(2, "2150-01-02 04:00:00", "2150-01-02 07:00:00", item=8, value=None),
            lab(2, "2150-01-02 05:30:00", None),
            lab(1, "2110-05-05 00:00:00", "2110-05-05 00:00:30"),
        ],
        "inputevents": [
            {"subject_id": 2, "starttime": "2150-01-02 02:00:00", "endtime": "2150-01-02 06:00:00",
             "storetime": "2150-01-02 06:00:00", "itemid": 71, "amount": 1.5, "amountuom": "units"},
        ],
        "procedureevents": [],
        "outputevents": [output(2, "2150-01-02 18:00:00", "2150-01-02 17:42:00")],
        "datetimeevents": [
            {"subject_id": 2, "charttime": "2150-01-02 20:00:00",
             "storetime": "2150-01-02 20:00:00", "itemid": 70, "value": "2150-01-01 00:00:00",
             "valueuom": "Date"},
        ],
    }  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the tables; gives the folder to pass as ``data``."""

    def to_files(tables: Tables, *, zipped: bool = True, without: Sequence[str] = ()) -> Path:
        known = {"d_labitems": ITEMS, "d_items": ICU_ITEMS} | tables
        for name, rows in known.items():
            folder = "hosp" if name in ("labevents", "d_labitems") else "icu"
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, COLUMNS[name])
            writer.writeheader()
            writer.writerows(rows)
            path = tmp_path / "data" / "mimic_iv_demo" / folder / f"{name}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            plain = text.getvalue().encode()
            if name in without:
                continue
            if zipped:
                path.with_suffix(".csv.gz").write_bytes(gzip.compress(plain))
            else:
                path.write_bytes(plain)
        return tmp_path / "data"

    return to_files


def records_of(charted: ChartedEvents) -> list[dict[str, Any]]:
    return [
        {"site": frame.site, **row}
        for frame in charted_frames(charted)
        for row in frame.batch.to_pylist()
    ]


def test_golden_records(write: Write, ward: Tables) -> None:
    rows = records_of(read_charted(write(ward)))
    assert rows[0] == {
        "site": "p1", "source": "labevents", "stream": "labevents", "seq": None,
        "type": "Potassium", "ts": at("2110-05-05 00:00:00"), "te": at("2110-05-05 00:00:00"),
        "arrival": at("2110-05-05 00:00:30"), "attrs.value": 4.0, "attrs.unit": "mEq/L",
    }  # fmt: skip
    charted = [(row["site"], row["source"], row["type"], row["attrs.value"]) for row in rows[1:]]
    assert charted == [
        ("p2", "labevents", "Potassium", 4.0),
        ("p2", "labevents", "Potassium", 4.5),  # at one instant the laboratory goes first
        ("p2", "inputevents", "Heparin", 1.5),
        ("p2", "labevents", "Sodium", None),
        ("p2", "outputevents", "Foley", 60.0),
        ("p2", "datetimeevents", "Foley", None),
    ]
    infusion = rows[3]
    assert (infusion["ts"], infusion["te"]) == (
        at("2150-01-02 02:00:00"), at("2150-01-02 06:00:00"),
    )  # fmt: skip
    assert all(row["te"] == row["ts"] for row in rows if row is not infusion)


def test_rows_of_one_instant_stay_in_the_files_order(write: Write) -> None:
    filed = "2150-01-02 06:00:00"
    rows = [lab(2, f"2150-01-02 05:{minute}:00", filed) for minute in (40, 10, 30)]
    ts = read_charted(write({name: [] for name in TABLES} | {"labevents": rows})).ts
    assert [(each - ts[0]) // NS_PER["min"] for each in ts.tolist()] == [0, -30, -10]


def test_what_was_never_filed_is_counted_and_left_out(write: Write, ward: Tables) -> None:
    charted = read_charted(write(ward))
    assert charted.unfiled == dict.fromkeys(TABLES, 0) | {"labevents": 1}
    assert len(charted) == 7
    assert source_counts(charted) == {
        "p1/labevents": 1, "p2/labevents": 3, "p2/inputevents": 1, "p2/outputevents": 1,
        "p2/datetimeevents": 1,
    }  # fmt: skip


def test_times_are_moved_by_whole_weeks_into_what_the_engine_can_hold() -> None:
    assert SHIFT_DAYS % 7 == 0
    assert at("2202-12-31 23:59:59") < ENGINE_TIMES_END < at("2250-01-01 00:00:00")
    midnight = datetime(2150, 1, 2, tzinfo=UTC).timestamp() * 1e9
    assert at("2150-01-02 00:00:00") == midnight - SHIFT_DAYS * DAY_NS
    assert at("2150-01-02 00:00:00") % DAY_NS == 0


def test_frames_are_short_whole_and_know_only_their_own_words(write: Write) -> None:
    rows = [
        lab(patient, "2150-01-02 05:00:00", "2150-01-02 06:00:00", item=7 if patient < 3 else 8)
        for patient in [2] * 1500 + [3] * 10
    ]
    charted = read_charted(write({name: [] for name in TABLES} | {"labevents": rows}))
    frames = list(charted_frames(charted))
    assert [(each.site, each.rows) for each in frames] == [("p2", 1024), ("p2", 476), ("p3", 10)]
    for frame in frames:
        words = frame.batch.column("type").dictionary.to_pylist()
        assert words == ["Potassium" if frame.site == "p2" else "Sodium"]


def test_plain_files_are_read_too(write: Write, ward: Tables) -> None:
    assert len(read_charted(write(ward, zipped=False))) == 7


@pytest.mark.parametrize("absent", ["labevents", "outputevents", "d_items"])
def test_an_absent_table_says_how_to_get_it(
    absent: str, write: Write, ward: Tables, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        Mimic().make(tmp_path / "run", {}, write(ward, without=[absent]))
    for word in (f"{absent}.csv.gz", "PhysioNet", "mimic_iv_demo", "SLACKWATER_DATA"):
        assert word in str(error.value)
    assert not (tmp_path / "run" / "log").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"itemid": 99}, "itemid 99 is not in d_labitems"),
        ({"charttime": None}, "1 rows have no charttime"),
        ({"subject_id": None}, "1 rows have no subject_id"),
        ({"charttime": "yesterday"}, "not the recording that was expected"),
        ({"valuenum": "high"}, "not the recording that was expected"),
    ],
)
def test_a_damaged_table_is_named(change: Row, said: str, write: Write, ward: Tables) -> None:
    ward["labevents"][1] = {**ward["labevents"][1], **change}
    with pytest.raises(UserError) as error:
        read_charted(write(ward))
    assert "labevents.csv.gz" in str(error.value)
    assert said in str(error.value)


def test_tables_without_events(write: Write) -> None:
    with pytest.raises(UserError, match="hold no filed events"):
        read_charted(write({name: [] for name in TABLES}))


@pytest.mark.parametrize("slack", ["8", "long"])
def test_a_slack_needs_a_unit(slack: str) -> None:
    with pytest.raises(UserError, match=f"--set slack={slack}"):
        Mimic().passes({"slack": slack})


def test_true_counts_equal_the_slow_twin(write: Write, ward: Tables) -> None:
    table = truth_table(read_charted(write(ward)))
    slow: dict[str, dict[tuple[str, int], int]] = {"laboratory": {}, "potassium": {}, "outputs": {}}
    for row in table.to_pylist():
        day = row["site"], row["ts"] // DAY_NS * DAY_NS
        names = {"labevents": ["laboratory"], "outputevents": ["outputs"]}.get(row["source"], [])
        names += ["potassium"] if row["type"] == "Potassium" else []
        for name in names:
            slow[name][day] = slow[name].get(day, 0) + 1
    assert true_counts(table) == slow
    assert sum(slow["potassium"].values()) == 3


# ---- runs --------------------------------------------------------------------------------------


def test_what_is_charted_ahead_depends_on_the_guard(
    run: Callable[..., Score], write: Write, ward: Tables, tmp_path: Path
) -> None:
    """By hand: one output 18 min ahead; 04:00 comes after 05:00. An infusion goes by its end."""
    score = run(Mimic(), tmp_path / "run", {}, write(ward))
    faithful, price, guard, accounted, revisions = score.claims
    assert not faithful.holds, "another recording must not pass for the published one"
    assert [price.holds, guard.holds, accounted.holds] == [True] * 3
    assert not revisions.holds, "nothing is taken back here, so waiting saves nothing"
    assert score.facts["unfiled"]["labevents"] == 1
    answers = score.facts["answers"]
    assert answers["1 s"]["quarantined"] == {"laboratory": 0, "outputs": 1}
    assert answers["1 s"]["wrong"] == {"laboratory": 0, "potassium": 0, "outputs": 1}
    assert answers["1 h"]["wrong"] == {"laboratory": 0, "potassium": 0, "outputs": 0}
    of_order = {each["order"]: each for each in score.facts["measured"]}
    assert (of_order["none"]["disorder_after"], of_order["none"]["arrived"]) == (1, 7)
    assert of_order["kslack:8h"]["disorder_after"] == 0
    assert of_order["kslack:1h"]["late"] == 1  # 02:00, when the clock had been at 05:00
    filings = score.facts["filings"]
    assert filings["labevents"]["disorder"] == 1
    assert filings["outputevents"]["ahead"] == 1
    assert filings["inputevents"]["delays_ns"] == (4 * NS_PER["h"],) * 4
    assert filings["procedureevents"]["events"] == 0
    json.dumps(dict(score.facts))


def test_a_value_that_comes_days_later_is_counted_as_too_late(
    run: Callable[..., Score], write: Write, ward: Tables, tmp_path: Path
) -> None:
    ward["labevents"] += [
        lab(2, f"2150-01-0{day} 12:00:00", f"2150-01-0{day} 13:00:00") for day in range(3, 8)
    ]
    ward["labevents"].append(lab(2, "2150-01-02 12:00:00", "2150-01-08 12:00:00"))
    score = run(Mimic(), tmp_path / "run", {}, write(ward))
    answers = score.facts["answers"]["1 h"]
    assert answers["too_late"] == {"laboratory": 1, "outputs": 0}
    assert answers["lacking"] == {"laboratory": 1, "outputs": 0}
    assert answers["wrong"]["laboratory"] == answers["wrong"]["potassium"] == 1
    assert score.claims[3].holds, "what is lacking is accounted for"


def test_without_an_order_results_are_taken_back(
    run: Callable[..., Score], write: Write, ward: Tables, tmp_path: Path
) -> None:
    """At 00:10 of the next day yesterday's count is emitted; a value of 23:00 corrects it."""
    ward["labevents"] += [
        lab(2, "2150-01-03 00:10:00", "2150-01-03 00:20:00"),
        lab(2, "2150-01-03 00:45:00", "2150-01-03 00:50:00"),
        lab(2, "2150-01-02 23:00:00", "2150-01-03 01:00:00"),
    ]
    directory = tmp_path / "run"
    score = run(Mimic(), directory, {}, write(ward))
    answers = score.facts["answers"]
    assert answers["none"]["retracted"] == {"laboratory": 1, "potassium": 1, "outputs": 0}
    assert answers["1 h"]["retracted"] == {"laboratory": 0, "potassium": 0, "outputs": 0}
    assert score.claims[4].holds
    truth = true_counts(truth_table(read_charted(write(ward))))
    again = asked_again(directory / "log", "kslack:30min", Guards(), truth)
    assert again.retracted == {"laboratory": 1, "potassium": 1, "outputs": 0}
    assert again.wrong == {"laboratory": 0, "potassium": 0, "outputs": 1}


@needs_recording
def test_source_txt_tables() -> None:
    """SOURCE.txt: disorder by patient and table, 992 rows without a filing time, charting ahead."""
    charted = read_charted(RECORDED)
    assert len(charted) == 107_727 - 992 + 20_404 + 1_468 + 9_362 + 15_280
    assert charted.unfiled == dict.fromkeys(TABLES, 0) | {"labevents": 992}
    delay_min = (charted.arrival - charted.ts) // NS_PER["min"]
    least = {
        name: int(delay_min[charted.table == code].min())
        for code, name in enumerate(charted.tables)
    }
    assert least == {
        "labevents": 0, "inputevents": -30, "procedureevents": -20, "outputevents": -62,
        "datetimeevents": -1320,
    }  # fmt: skip
    assert int(charted.te.max()) < ENGINE_TIMES_END
    assert int(charted.arrival.max()) < ENGINE_TIMES_END
    assert len(np.unique(charted.patient)) == 100
    disorder = dict.fromkeys(charted.tables, 0)
    for code, name in enumerate(charted.tables):
        mine = charted.table == code
        for patient in np.unique(charted.patient):
            ts = charted.ts[mine & (charted.patient == patient)]
            disorder[name] += int((ts[1:] < np.maximum.accumulate(ts)[:-1]).sum())
    rows = np.bincount(charted.table)
    percent = [round(100 * late / of, 2) for late, of in zip(disorder.values(), rows, strict=True)]
    assert percent == [17.71, 31.42, 41.01, 12.48, 11.24]


@pytest.mark.slow
@needs_recording
def test_source_txt_disorder_and_the_daily_counts_of_real_patients(
    run: Callable[..., Score], tmp_path: Path
) -> None:
    """SOURCE.txt: 17.71 / 31.42 / 41.01 / 12.48 / 11.24 % out of order by patient and table."""
    score = run(Mimic(), tmp_path, {}, RECORDED)
    assert [claim.holds for claim in score.claims] == [True] * 5
    of_order = {each["order"]: each for each in score.facts["measured"]}
    assert of_order["none"]["disorder_after"] == 48_120
    left = {name: of_order[f"kslack:{name}"]["disorder_after"] for name in ("1h", "8h", "168h")}
    assert left == {"1h": 10_197, "8h": 638, "168h": 2}
    # Infusions that are filed more than an hour before they end are ahead of their time.
    assert {each["quarantined"] for each in of_order.values()} == {3_745}
    answers = score.facts["answers"]
    # A day closes when the slack of 8 h says; what comes after the horizon beyond that is too late.
    assert answers["1 s"]["wrong"] == {"laboratory": 25, "potassium": 0, "outputs": 400}
    assert answers["1 h"]["wrong"] == {"laboratory": 25, "potassium": 0, "outputs": 1}
    assert sum(answers["1 s"]["quarantined"].values()) == 1_457
    assert sum(each.rows for each in LogReader(tmp_path / "log")) == 153_249
    for table in score.tables:
        assert all(len(row) == len(table.headings) for row in table.rows)
