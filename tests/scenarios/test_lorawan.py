"""``lorawan``: joins and repeats against slow twins, files made by hand, and the real ones."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.scenario import Score
from slackwater.scenarios.lorawan import Lorawan
from slackwater.scenarios.lorawan.importing import (
    device_table,
    join_table,
    recording_frames,
    truth_table,
)
from slackwater.scenarios.lorawan.recording import (
    FALL,
    FILES,
    HOUR_NS,
    MS,
    PAUSE_NS,
    Receptions,
    joins,
    lost_frames,
    read_recording,
    repeats,
)

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_recording = pytest.mark.skipif(
    not (RECORDED / "lorawan_campusiot" / "FTD_0018B20000020.ndjson.gz").is_file(),
    reason="the Helium LoRaWAN recordings are not on this machine",
)
START_MS = 1_640_995_200_000
"""2022-01-01, a full hour."""
S = 10**9
EMS = {"files": "ems"}
Frame = Mapping[str, Any]
Write = Callable[..., Path]


def frame(seq: int, at_s: float, delay_s: float = 0.5, **other: Any) -> Frame:
    """One line of a file; ``at_s`` after ``START_MS``."""
    reported = START_MS + round(1000 * at_s)
    hotspot = {"name": "h1", "rssi": -100, "snr": 7.5, "reported_at": reported, "hold_time": 3}
    return {
        "name": "device", "dev_eui": "AA", "devaddr": "01", "fcnt": seq, "port": 2,
        "payload_size": 12, "hotspots": [hotspot], "reported_at": reported,
        "_timestamp": reported + round(1000 * delay_s), "decoded": {"payload": {"t": 1.5}},
    } | other  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a recording; gives the folder to pass as ``data``."""

    def to_file(rows: Sequence[Frame], name: str = "ems", *, zipped: bool = True) -> Path:
        folder = tmp_path / "data" / "lorawan_campusiot"
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path = folder / f"{FILES[name]}.ndjson{'.gz' if zipped else ''}"
        path.write_bytes(gzip.compress(text) if zipped else text)
        return tmp_path / "data"

    return to_file


def by_arrival(rows: Sequence[Frame]) -> list[Frame]:
    return sorted(rows, key=lambda row: int(row["_timestamp"]))


def two_joins() -> list[Frame]:
    """Frames 4 to 8 with 6 lost and 7 late, 5 heard twice; then a join: 2, 3 (0, 1 lost)."""
    return by_arrival(
        [
            frame(4, 3000), frame(5, 3100), frame(5, 3106, hotspots=[{"name": "h2", "rssi": -90,
                                                                      "snr": None}]),
            frame(7, 3300, delay_s=600), frame(8, 3400),
            frame(2, 9000, devaddr="02"), frame(3, 9100, devaddr="02"),
        ]
    )  # fmt: skip


def records_of(recording: Receptions) -> list[dict[str, Any]]:
    return [row for each in recording_frames(recording) for row in each.batch.to_pylist()]


# ---- joins, repeats and losses -----------------------------------------------------------------

Row = tuple[int, int, int, int]
"""(device, address, number, time [s])."""


def slow_joins(rows: Sequence[Row]) -> list[int]:
    """Frame by frame, as a bridge would decide it."""
    use: dict[tuple[int, int], tuple[int, int, int]] = {}  # -> join, number, time of the last
    now: dict[int, int] = {}  # device -> address of its last frame
    joined: dict[int, int] = {}  # device -> joins so far
    found = []
    for device, address, seq, at_s in rows:
        last = use.get((device, address))
        begins = last is None or (
            (at_s - last[2]) * S > PAUSE_NS and (now[device] != address or seq < last[1] - FALL)
        )
        if begins:
            join = joined.get(device, 0)
            joined[device] = join + 1
        else:
            assert last is not None
            join = last[0]
        use[device, address], now[device] = (join, seq, at_s), address
        found.append(join)
    return found


def fast_joins(rows: Sequence[Row]) -> list[int]:
    device, address, seq, at_s = np.array(rows, np.int64).reshape(-1, 4).T
    found: list[int] = joins(device, address, seq, at_s * S).tolist()
    return found


HOUR = 3600


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # a new address is a join, and each device counts its own
        ([(0, 1, 9, 0), (1, 1, 3, 1), (0, 2, 0, 2), (1, 1, 4, 3)], [0, 0, 1, 0]),
        # a straggler of the address before belongs to the join before
        ([(0, 1, 8, 0), (0, 2, 0, 60), (0, 1, 9, 10), (0, 2, 1, 120)], [0, 1, 0, 1]),
        # an address that is given again, days later
        ([(0, 1, 8, 0), (0, 2, 0, 60), (0, 1, 0, 90 * HOUR)], [0, 1, 2]),
        # the same address again, and the counter restarts
        ([(0, 1, 500, 0), (0, 1, 1, HOUR + 1), (0, 1, 2, HOUR + 9)], [0, 1, 1]),
        # not yet an hour: a straggler from long ago, reported under a new time
        ([(0, 1, 500, 0), (0, 1, 1, HOUR), (0, 1, 501, HOUR + 9)], [0, 0, 0]),
        # hours later, but only a little lower: a frame that a hotspot repeats
        ([(0, 1, 100, 0), (0, 1, 100 - FALL, 9 * HOUR), (0, 1, 101, 9 * HOUR)], [0, 0, 0]),
        ([(0, 1, 100, 0), (0, 1, 99 - FALL, 9 * HOUR)], [0, 1]),
        # silence alone is no join
        ([(0, 1, 5, 0), (0, 1, 6, 999 * HOUR)], [0, 0]),
        ([], []),
    ],
)
def test_joins_by_hand(rows: list[Row], expected: list[int]) -> None:
    assert slow_joins(rows) == expected
    assert fast_joins(rows) == expected


some_rows = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(0, 2), st.sampled_from([0, 1, 2, 50, 66, 67, 200]),
        st.sampled_from([0, 1, HOUR - 1, HOUR, HOUR + 1, HOUR + 2, 3 * HOUR, 9 * HOUR]),
    ),
    max_size=12,
)  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(some_rows)
def test_joins_equal_the_slow_twin(rows: list[Row]) -> None:
    assert fast_joins(rows) == slow_joins(rows)


@settings(deadline=None, max_examples=25)
@given(some_rows, st.integers(0, 12))
def test_nothing_that_arrives_later_decides_about_a_join(rows: list[Row], cut: int) -> None:
    assert fast_joins(rows)[:cut] == fast_joins(rows[:cut])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=12))
def test_repeats_equal_the_slow_twin(rows: list[tuple[int, int, int]]) -> None:
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    assert repeats(*columns).tolist() == [row in rows[:at] for at, row in enumerate(rows)]


def slow_lost(recording: Receptions, first: int) -> list[int]:
    lost = []
    for device in range(len(recording.devices)):
        count = 0
        of_device = recording.device == device
        for join in np.unique(recording.join[of_device]).tolist():
            came = recording.seq[of_device & (recording.join == join)].tolist()
            begin = came[0] if join == 0 else first
            count += len(set(range(begin, max(came) + 1)) - set(came))
        lost.append(count)
    return lost


@settings(deadline=None, max_examples=50)
@given(some_rows.filter(bool))
def test_lost_frames_equal_the_slow_twin(rows: list[Row]) -> None:
    device, address, seq, at_s = np.array(rows, np.int64).T
    seq, device = seq + 1, np.unique(device, return_inverse=True)[1]
    join = joins(device, address, seq, at_s * S)
    recording = Receptions(
        "ftd", tuple("AB"[: device.max() + 1]), device, join, seq, at_s * S, at_s * S,
        repeats(device, join, seq), {},
    )  # fmt: skip
    assert lost_frames(recording).tolist() == slow_lost(recording, first=1)


# ---- files made by hand ------------------------------------------------------------------------


def test_golden_records(write: Write) -> None:
    recording = read_recording(write(two_joins()), "ems")
    rows = records_of(recording)
    start = START_MS * MS
    nothing = dict.fromkeys(("attrs.bytes", "attrs.rssi", "attrs.snr", "attrs.hotspot"))
    assert rows[0] == {
        "kind": r.Kind.SYNC, "source": "AA", "seq": None, "incarnation": 0, "type": None,
        "ts": start + 3000 * S, "arrival": start + 3000 * S + 500 * MS, "first_seq": 4, **nothing,
    }  # fmt: skip
    assert rows[3] == {
        "kind": r.Kind.EVENT, "source": "AA", "seq": 5, "incarnation": 0, "type": "uplink",
        "ts": start + 3106 * S, "arrival": start + 3106 * S + 500 * MS, "first_seq": None,
        "attrs.bytes": 12, "attrs.rssi": -90.0, "attrs.snr": None, "attrs.hotspot": "h2",
    }  # fmt: skip
    fields = [(row["kind"], row["seq"], row["incarnation"], row["first_seq"]) for row in rows]
    event, sync = r.Kind.EVENT, r.Kind.SYNC
    assert fields == [
        (sync, None, 0, 4), (event, 4, 0, None), (event, 5, 0, None), (event, 5, 0, None),
        (event, 8, 0, None), (event, 7, 0, None), (sync, None, 1, 0), (event, 2, 1, None),
        (event, 3, 1, None),
    ]  # fmt: skip
    arrivals = [row["arrival"] for row in rows]
    assert arrivals == sorted(arrivals)
    assert join_table(recording).num_rows == 2
    assert truth_table(recording).column("is_repeat").to_pylist() == [0, 0, 1, 0, 0, 0, 0]
    assert device_table(recording).to_pylist() == [
        {"site": "ems", "source": "AA", "receptions": 7, "repeats": 1, "joins": 2, "lost": 3}
    ]


def test_two_devices_that_join_at_one_instant(write: Write) -> None:
    rows = [frame(1, 0), frame(1, 0, dev_eui="BB"), frame(2, 9, dev_eui="BB"), frame(2, 9)]
    numbers = [
        (row["source"], row["seq"]) for row in records_of(read_recording(write(rows), "ems"))
    ]
    assert numbers == [("AA", None), ("AA", 1), ("BB", None), ("BB", 1), ("BB", 2), ("AA", 2)]


def test_frames_are_short_and_whole(write: Write) -> None:
    data = write([frame(seq, 60 * seq) for seq in range(2500)], zipped=False)
    frames = list(recording_frames(read_recording(data, "ems")))
    assert [each.rows for each in frames] == [1024, 1024, 453]
    assert {each.site for each in frames} == {"ems"}


def test_an_absent_recording_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        Lorawan().make(tmp_path / "run", {}, tmp_path / "nowhere")
    said = str(error.value)
    assert str(tmp_path / "nowhere" / "lorawan_campusiot" / f"{FILES['ftd']}.ndjson.gz") in said
    for word in ("CampusIoT/datasets", "Helium/", "SLACKWATER_DATA", "../shared/data"):
        assert word in said
    assert not (tmp_path / "run" / "log").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[::-1], ":2: arrived before the frame above it"),
        (lambda rows: [rows[0], {**rows[1], "fcnt": None}], ":2: has no fcnt"),
        (lambda rows: [rows[0], {"fcnt": 7}], ":2: has no dev_eui"),
        (lambda rows: [rows[0], {**rows[1], "hotspots": []}], ":2: no hotspot reported"),
        (lambda rows: [{**rows[0], "fcnt": "x"}], "not the recording that was expected"),
        (lambda rows: [{"fcnt": 7}], ":1: has no dev_eui"),
        (lambda rows: [], "not the recording that was expected"),
    ],
)
def test_a_damaged_recording_is_named(
    change: Callable[[list[Frame]], list[Frame]], said: str, write: Write
) -> None:
    data = write(change(two_joins()))
    with pytest.raises(UserError) as error:
        read_recording(data, "ems")
    assert f"{FILES['ems']}.ndjson.gz" in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize("names", ["d-1", "", "ftd,ftd", "ftd;ems"])
def test_unknown_files(names: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--set files="):
        Lorawan().make(tmp_path, {"files": names}, tmp_path)


@pytest.mark.parametrize("name", ["latency", "slack"])
def test_a_duration_needs_a_unit(name: str) -> None:
    with pytest.raises(UserError, match=f"--set {name}=5: give a unit"):
        Lorawan().passes({name: "5"})


# ---- runs --------------------------------------------------------------------------------------


def test_repeats_losses_and_a_late_frame(
    run: Callable[..., Score], write: Write, tmp_path: Path
) -> None:
    """By hand: 5 comes twice; 6, 0 and 1 never; 7 comes when its place was given up."""
    score = run(Lorawan(), tmp_path / "run", EMS, write(two_joins()))
    faithful, again, hours, lost, price = score.claims
    assert not faithful.holds, "another recording must not pass for the published one"
    assert [again.holds, hours.holds, lost.holds, price.holds] == [True] * 4
    assert score.facts["known"]["ems"] == {
        "receptions": 7, "disorder": 1, "new_disorder": 1, "repeats": 1, "lost": 3, "joins": 2,
        "repeat_after_p50_ns": 6 * S, "repeat_after_max_ns": 6 * S,
    }  # fmt: skip
    assert (score.facts["hours"], score.facts["hours_wrong"]) == (2, 0)
    assert score.facts["hours_wrong_by_receptions"] == 1
    of_order = {each["order"]: each for each in score.facts["measured"]["ems"]}
    main = of_order["sequence:latency=500ms"]
    assert (main["released"], main["dropped"], main["duplicates"]) == (5, 1, 1)
    assert (main["missing"], main["disorder_after"]) == (3, 0)
    # Waiting 5 min is too short for a frame that is 10 min late; a slack of 1 h is not.
    assert of_order["sequence:timeout=fixed:5m"]["dropped"] == 1
    slack = of_order["kslack:1h"]
    assert (slack["released"], slack["disorder_after"], slack["missing"]) == (6, 0, None)
    assert slack["duplicates"] == 1
    assert of_order["none"]["disorder_after"] == 1
    json.dumps(dict(score.facts))


def test_a_frame_beyond_its_hours_horizon_makes_the_claim_fail(
    run: Callable[..., Score], write: Write, tmp_path: Path
) -> None:
    """Closed hours are corrected for one hour more; frame 2 comes three hours late."""
    rows = [frame(1, 0), frame(2, 10, delay_s=3 * HOUR), frame(3, 20), frame(4, 2.5 * HOUR)]
    score = run(Lorawan(), tmp_path / "run", EMS, write(by_arrival(rows)))
    assert score.facts["hours_wrong"] == 1
    assert not score.claims[2].holds


def test_the_main_order_is_an_option() -> None:
    passes = Lorawan().passes({"latency": "2 s", "slack": "30 min"})
    assert [each.order for each in passes] == ["sequence:latency=2s", "kslack:30min", "none"]


@needs_recording
@pytest.mark.parametrize(
    ("name", "receptions", "repeated", "joined", "lost"),
    [("ftd", 16954, 6410, 60, 11586), ("ems", 8110, 1966, 2, 17), ("imst", 13352, 0, 40, 77880)],
)
def test_source_txt_repeats_and_resets(
    name: str, receptions: int, repeated: int, joined: int, lost: int
) -> None:
    """SOURCE.txt: about 6400 and 1966 repeated numbers, arrival monotone, no time in the future."""
    recording = read_recording(RECORDED, name)
    assert len(recording) == receptions
    assert int(recording.is_repeat.sum()) == repeated
    assert join_table(recording).num_rows == joined
    assert int(lost_frames(recording).sum()) == lost
    assert int((recording.arrival - recording.ts).min()) >= 0
    assert int((recording.arrival - recording.ts).max()) < HOUR_NS


@needs_recording
def test_source_txt_disorder_and_counts_of_the_real_devices(
    run: Callable[..., Score], tmp_path: Path
) -> None:
    """SOURCE.txt: 27 frames (0.16 %), 0 and 0 out of order; none after the main pass."""
    score = run(Lorawan(), tmp_path, {}, RECORDED)
    assert [claim.holds for claim in score.claims] == [True] * 5
    known = score.facts["known"]
    assert {site: each["disorder"] for site, each in known.items()} == {
        "ems": 0, "ftd": 27, "imst": 0,
    }  # fmt: skip
    assert known["ftd"]["new_disorder"] == 5
    assert (score.facts["hours"], score.facts["hours_wrong"]) == (3970, 0)
    assert score.facts["hours_wrong_by_receptions"] == 748
    ftd = {each["order"]: each for each in score.facts["measured"]["ftd"]}
    main = ftd["sequence:latency=500ms"]
    assert (main["released"], main["dropped"], main["duplicates"]) == (10538, 6, 6410)
    assert ftd["kslack:1h"]["disorder_after"] == 0
    assert sum(each.rows for each in LogReader(tmp_path / "log")) == 38_416 + 102
    for table in score.tables:
        assert all(len(row) == len(table.headings) for row in table.rows)
