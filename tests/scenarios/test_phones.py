"""``phones``: recordings made by hand against goldens, and the real ones where they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.scenario import Score
from slackwater.scenarios.phones import Phones
from slackwater.scenarios.phones.importing import phone_table, session_frames
from slackwater.scenarios.phones.recording import MS, Session, read_session

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data"
ONE = {"sessions": "d-1"}
needs_recording = pytest.mark.skipif(
    not (RECORDED / "ooo_dataset_umts" / "d-1.csv.gz").is_file(),
    reason="the OoO-Dataset is not on this machine",
)


def records_of(session: Session) -> list[dict[str, Any]]:
    return [row for frame in session_frames(session) for row in frame.batch.to_pylist()]


def test_event_time_is_what_the_phone_showed(
    record: Callable[..., Path], two_phones: list[Any]
) -> None:
    """Own clock = corrected time - offset (server minus phone), and adding it gives sense."""
    session = read_session(record(two_phones), "d-1")
    fast = session.device == session.devices.index("fast")
    assert session.ts[fast][0] == (1_010_000 + 30_000) * MS
    assert session.ts[~fast][0] == (1_010_100 - 2_000) * MS
    assert (session.ts + session.offset == session.detected).all()
    assert (session.arrival - session.ts - session.offset).min() == 40 * MS


def test_golden_records(record: Callable[..., Path], two_phones: list[Any]) -> None:
    rows = records_of(read_session(record(two_phones), "d-1"))
    assert rows[0] == {
        "kind": r.Kind.SYNC, "source": "fast", "seq": None, "type": None,
        "ts": (1_000_000 + 30_000) * MS, "arrival": 1_010_000 * MS, "offset": -30_000 * MS,
        "delay": 56 * MS, "first_seq": 0, "precision": 2 * MS, "skew_error_ppb": 50_000,
        "attrs.bytes": None, "attrs.queued_ms": None,
    }  # fmt: skip
    assert rows[1] == {
        "kind": r.Kind.EVENT, "source": "fast", "seq": 0, "type": "message",
        "ts": 1_040_000 * MS, "arrival": 1_010_040 * MS, "offset": None, "delay": None,
        "first_seq": None, "precision": None, "skew_error_ppb": None,
        "attrs.bytes": 264, "attrs.queued_ms": 4,
    }  # fmt: skip
    assert (rows[2]["kind"], rows[2]["source"]) == (r.Kind.SYNC, "slow")
    arrivals = [row["arrival"] for row in rows]
    assert arrivals == sorted(arrivals)
    assert len(rows) == 42


def test_frames_are_short_and_whole(record: Callable[..., Path], two_phones: list[Any]) -> None:
    many = []
    for copy in range(60):
        for row in two_phones:
            moved = {
                name: int(row[name]) + 20_000 * copy
                for name in ("S.Message.received.time.ms", "S.Client.Detection.Time",
                             "C.Send.Time", "C.Arrival.Time", "C.Server.Message.Processed.Time")
            }  # fmt: skip
            many.append({**row, **moved, "S.Message.ID": int(row["S.Message.ID"]) + 20 * copy})
    session = read_session(record(many), "d-1")
    frames = list(session_frames(session))
    assert [frame.rows for frame in frames] == [1024, 1024, 354]
    assert {frame.site for frame in frames} == {"d-1"}


def test_plain_files_are_read_too(record: Callable[..., Path], two_phones: list[Any]) -> None:
    assert len(read_session(record(two_phones, zipped=False), "d-1")) == 40


def test_an_absent_recording_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        Phones().make(tmp_path / "run", {}, tmp_path / "nowhere")
    said = str(error.value)
    assert str(tmp_path / "nowhere" / "ooo_dataset_umts" / "d-1.csv.gz") in said
    for word in ("JR-DIGITAL/ooo-dataset", "SLACKWATER_DATA", "../shared/data", "OoO-Dataset"):
        assert word in said
    assert not (tmp_path / "run" / "log").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[::-1], "d-1.csv.gz:3: received before the message above it"),
        (lambda rows: [*rows, rows[-1]], "has two messages of one S.Message.ID"),
        (lambda rows: [{**rows[0], "C.NTP.offset": 7}, *rows[1:]], "several C.NTP.offset"),
        (lambda rows: [{**rows[0], "S.Message.ID": "x"}, *rows[1:]], "not the recording"),
        (lambda rows: [{"S.Device.ID": "a"}], "not the recording that was expected"),
        (lambda rows: [], "holds no messages"),
    ],
)
def test_a_damaged_recording_is_named(
    change: Callable[[list[Any]], list[Any]],
    said: str,
    record: Callable[..., Path],
    two_phones: list[Any],
) -> None:
    data = record(change(two_phones))
    with pytest.raises(UserError) as error:
        read_session(data, "d-1")
    assert said in str(error.value)


@pytest.mark.parametrize("names", ["d-9", "", "d-1,d-1", "d-1;d-2"])
def test_unknown_sessions(names: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--set sessions="):
        Phones().make(tmp_path, {"sessions": names}, tmp_path)


def test_two_phones_come_out_in_order(
    run: Callable[..., Score], record: Callable[..., Path], two_phones: list[Any], tmp_path: Path
) -> None:
    score = run(Phones(), tmp_path / "run", ONE, record(two_phones))
    order, better, faithful, whole, clocks = score.claims
    assert [order.holds, better.holds, whole.holds, clocks.holds] == [True] * 4
    assert not faithful.holds, "another recording must not pass for the published one"
    # By hand: the four messages that were held up 900 ms arrive after younger ones of both phones.
    assert score.facts["before"]["d-1"]["corrected"] == 4
    main = score.facts["outcomes"][0]
    assert (main["in_time"], main["residual"], main["late"], main["missing"]) == (40, 0, 0, 0)
    unordered = score.facts["outcomes"][-1]
    assert (unordered["label"], unordered["disorder_left"]) == ("none", 4)
    json.dumps(dict(score.facts))


def test_residual_0_is_said_to_rest_on_the_announcement_and_the_other_is_shown(
    run: Callable[..., Score], record: Callable[..., Path], two_phones: list[Any], tmp_path: Path
) -> None:
    """The phone ``slow`` synchronised 10 s before; its first message is 8 s late, and waited for
    only where it is announced at its first event.
    """
    slow = [row for row in two_phones if row["S.Device.ID"] == "slow"]
    first = min(slow, key=lambda row: int(row["S.Message.ID"]))
    late_ms = int(first["S.Message.received.time.ms"]) + 5_000
    held = [
        {**row, "S.Message.received.time.ms": max(int(row["S.Message.received.time.ms"]), late_ms)}
        if row["S.Device.ID"] == "slow"
        else row
        for row in two_phones
    ]
    held.sort(key=lambda row: int(row["S.Message.received.time.ms"]))
    score = run(Phones(), tmp_path / "run", ONE, record(held))
    assert score.claims[0].holds
    assert "with each phone announced at its first event" in score.claims[0].text
    announced = score.facts["announced"]
    assert announced["at its first event"]["out_of_place"]["sequence"] == 0
    otherwise = announced["at the recorded sync"]["out_of_place"]["sequence"]
    assert otherwise > 0
    assert f"at its recorded sync it would be {otherwise}" in score.claims[0].detail
    (table,) = (each for each in score.tables if each.title == "When the phones are announced")
    assert len(table.rows) == 4  # two instants, two passes
    assert all(len(row) == len(table.headings) for row in table.rows)


def test_files_of_a_users_own_are_taken(
    run: Callable[..., Score], record: Callable[..., Path], two_phones: list[Any], tmp_path: Path
) -> None:
    data = record(two_phones)
    own = tmp_path / "bus-7.csv.gz"
    own.write_bytes((data / "ooo_dataset_umts" / "d-1.csv.gz").read_bytes())
    score = run(Phones(), tmp_path / "run", {"sessions": f"d-1,{own}"}, data)
    assert {each["site"] for each in score.facts["outcomes"]} == {"d-1", "bus-7"}
    (faithful,) = (claim for claim in score.claims if "faithful" in claim.text)
    assert "bus-7" not in faithful.text
    alone = run(Phones(), tmp_path / "alone", {"sessions": str(own)}, tmp_path / "no-recordings")
    assert not [claim for claim in alone.claims if "faithful" in claim.text]
    assert all(claim.holds for claim in alone.claims)


def test_a_file_that_is_not_of_that_form_is_reported(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("time;value\n1;2\n", encoding="utf-8")
    for sessions, said in (
        (str(wrong), r"wrong.csv: not the recording that was expected: .*; it needs columns S.Dev"),
        (str(tmp_path / "absent.csv"), "absent.csv: there is no such file"),
        (f"d-1,{tmp_path}/d-1.csv", "name each session once; a file's session is called like"),
    ):
        with pytest.raises(UserError, match=said):
            Phones().make(tmp_path / "run", {"sessions": sessions}, tmp_path)


def test_a_lost_message_is_missing(
    run: Callable[..., Score], record: Callable[..., Path], two_phones: list[Any], tmp_path: Path
) -> None:
    score = run(Phones(), tmp_path / "run", ONE, record(two_phones[:9] + two_phones[10:]))
    assert score.facts["outcomes"][0]["missing"] == 1
    assert not score.claims[3].holds


def test_a_wrong_offset_is_contradicted(
    run: Callable[..., Score], record: Callable[..., Path], two_phones: list[Any], tmp_path: Path
) -> None:
    """The phone ``slow`` says an offset that is 500 ms too small: its messages come too early.

    The first of them refutes the bound of its clock, which is then wide enough for the others.
    """
    lying = [
        row
        if row["S.Device.ID"] == "fast"
        else {
            **row,
            **{name: int(row[name]) + 500
               for name in ("S.Client.Detection.Time", "C.Send.Time", "C.Arrival.Time")},
        }
        for row in two_phones
    ]  # fmt: skip
    score = run(Phones(), tmp_path / "run", ONE, record(lying))
    assert not score.claims[4].holds
    assert score.facts["exchanges_against"] == 1


@needs_recording
@pytest.mark.parametrize(("name", "phones"), [("d-1", 8), ("d-2", 9), ("d-3", 8)])
def test_source_txt_delays_are_sensible_after_the_offset(name: str, phones: int) -> None:
    """SOURCE.txt: one-way 22/30/10 ms at least, offsets from -29942 to +1388 ms."""
    session = read_session(RECORDED, name)
    assert len(session.devices) == phones
    assert len(session) == 1200 * phones
    one_way = session.arrival - (session.ts + session.offset)
    assert int(one_way.min()) == {"d-1": 22, "d-2": 30, "d-3": 10}[name] * MS
    assert int(np.abs(session.offset).max()) > 29_000 * MS
    wrong_sign = session.arrival - (session.detected + session.offset)
    assert int(wrong_sign.max()) > 29_000 * MS
    table = phone_table(session)
    assert table.num_rows == phones
    waits = session.detected.min() - np.array(table.column("ts")) - np.array(table.column("offset"))
    assert int(waits.max()) < 30_000 * MS  # synchronised shortly before its first event


@needs_recording
def test_source_txt_disorder_and_order_of_the_real_phones(
    run: Callable[..., Score], tmp_path: Path
) -> None:
    """SOURCE.txt: 16.08 / 33.94 / 34.14 % out of order; none of those in time afterwards."""
    score = run(Phones(), tmp_path, {}, RECORDED)
    assert all(claim.holds for claim in score.claims)
    before = {site: each["corrected"] for site, each in score.facts["before"].items()}
    assert before == {"d-1": 1544, "d-2": 3666, "d-3": 3277}
    main = [each for each in score.facts["outcomes"] if each["label"] == "sequence"]
    for each, messages in zip(main, (9600, 10800, 9600), strict=True):
        assert (each["in_time"], each["disorder_left"], each["missing"]) == (messages, 0, 0)
    assert sum(frame.rows for frame in LogReader(tmp_path / "log")) == 30_025
    for table in score.tables:
        assert all(len(row) == len(table.headings) for row in table.rows)
