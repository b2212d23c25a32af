"""Frames of LoRaWAN devices as a network server received them: CampusIoT's Helium recordings.

Times in the files are epoch milliseconds. ``reported_at`` is when a hotspot reported the frame
(our event time: devices send no time of their own), ``_timestamp`` when the server had it (arrival;
the files are in its order). ``fcnt`` counts a device's frames. The data has
these properties, and the import handles them so:

* **Repeats.** A frame comes again, seconds later: another hotspot heard it, or the device, which
  got no acknowledgement, sent it again. A frame is one event, known by (device, join, number); its
  first reception to arrive is the event, all others are repeats of it, whatever time they claim
  (all 8,376 of them carry the same payload as the first, some after hours or weeks).
* **Joins.** A device that rejoins the network counts from the start again, under a new address
  (``devaddr``). A join is recognised by the address, from what has arrived so far: the device's
  first frame under it; or, as addresses are given again, a frame more than ``PAUSE_NS`` after the
  last one under it that either follows a frame under another address or falls back by more than
  ``FALL``. A straggler of an earlier address falls under none of these and stays with its join.
* **Lost frames.** Numbers that are missing within a join never reached the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from slackwater.scenario import UserError

MS: Final = 10**6
HOUR_NS: Final = 3600 * 10**9
FOLDER: Final = "lorawan_campusiot"
FILES: Final = {
    "ftd": "FTD_0018B20000020",
    "ems": "EMS_A81758FFFE04B1C1",
    "imst": "IMST_33323431007C727B",
}
FIRST_SEQ: Final = {"ftd": 1, "ems": 0, "imst": 0}
"""First number of a device after a join: the least number in any recording."""
PAUSE_NS: Final = HOUR_NS
FALL: Final = 64
_HOTSPOT: Final = pa.struct({"name": pa.string(), "rssi": pa.float64(), "snr": pa.float64()})
_SCHEMA: Final = pa.schema(
    {
        "dev_eui": pa.string(),
        "devaddr": pa.string(),
        "fcnt": pa.int64(),
        "reported_at": pa.int64(),
        "_timestamp": pa.int64(),
        "payload_size": pa.int64(),
        "hotspots": pa.list_(_HOTSPOT),
    }
)


@dataclass(frozen=True, slots=True)
class Receptions:
    """A file's receptions in order of arrival; equally long columns, times int64 ns.

    Attributes:
        name: ``ftd``, ``ems`` or ``imst``.
        devices: their EUIs; ``device`` holds indices into it.
        device: who sent it.
        join: number of the join that the frame belongs to, counted per device from 0.
        seq: the frame counter, from ``FIRST_SEQ`` on in each join.
        ts: when a hotspot reported it.
        arrival: when the server had it.
        is_repeat: whether the frame had arrived before.
        attrs: ``bytes``, and of the first hotspot ``rssi`` [dBm], ``snr`` [dB], ``hotspot``.
    """

    name: str
    devices: tuple[str, ...]
    device: np.ndarray
    join: np.ndarray
    seq: np.ndarray
    ts: np.ndarray
    arrival: np.ndarray
    is_repeat: np.ndarray
    attrs: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.seq)


def read_recording(data: Path, name: str) -> Receptions:
    """The recording ``name`` from the folder ``lorawan_campusiot`` of ``data``.

    Raises:
        UserError: the recording is not there (says how to get it), or is not what it should be.
    """
    path = _find(data / FOLDER, FILES[name])
    options = pajson.ParseOptions(explicit_schema=_SCHEMA, unexpected_field_behavior="ignore")
    try:
        table = pajson.read_json(path, parse_options=options).combine_chunks()
    except (pa.ArrowException, OSError) as error:
        said = str(error).splitlines()[0]
        raise UserError(f"{path}: not the recording that was expected: {said}") from error
    _check(path, table)
    encoded = table.column("dev_eui").combine_chunks().dictionary_encode()
    device = encoded.indices.to_numpy().astype(np.int32)
    address = table.column("devaddr").combine_chunks().dictionary_encode().indices.to_numpy()
    seq = table.column("fcnt").to_numpy()
    ts = table.column("reported_at").to_numpy() * MS
    join = joins(device, address.astype(np.int64), seq, ts)
    hotspots = table.column("hotspots").combine_chunks()
    first = pc.list_element(hotspots, 0)
    attrs = {"bytes": table.column("payload_size").combine_chunks()}
    attrs |= {field: pc.struct_field(first, field) for field in ("rssi", "snr")}
    attrs["hotspot"] = pc.struct_field(first, "name").dictionary_encode()
    return Receptions(
        name, tuple(encoded.dictionary.to_pylist()), device, join, seq, ts,
        table.column("_timestamp").to_numpy() * MS, repeats(device, join, seq), attrs,
    )  # fmt: skip


def joins(device: np.ndarray, address: np.ndarray, seq: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Number of the join of each frame, per device from 0; see the module.

    Only what arrived before a frame decides about it, as it would on a live bridge.

    >>> device, address = np.zeros(5, np.int64), np.array([7, 7, 8, 7, 8])
    >>> joins(device, address, np.array([1, 2, 1, 3, 2]), np.arange(5) * 10**9).tolist()
    [0, 0, 1, 0, 1]
    """
    n = len(seq)
    if not n:
        return np.zeros(0, np.int64)
    of_device = np.lexsort((np.arange(n), device))
    moved = np.ones(n, np.bool_)  # the device's frame before this one had another address
    moved[of_device[1:]] = (np.diff(device[of_device]) != 0) | (np.diff(address[of_device]) != 0)
    of_address = np.lexsort((np.arange(n), address, device))
    is_first = np.ones(n, np.bool_)
    is_first[1:] = (np.diff(device[of_address]) != 0) | (np.diff(address[of_address]) != 0)
    paused, fell = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    paused[1:] = np.diff(ts[of_address]) > PAUSE_NS
    fell[1:] = np.diff(seq[of_address]) < -FALL
    starts = is_first | (paused & (moved[of_address] | fell))
    # A join is known by its first frame; per device, joins are numbered by the arrival of theirs.
    began = np.empty(n, np.int64)
    began[of_address] = of_address[np.maximum.accumulate(np.where(starts, np.arange(n), 0))]
    first = np.unique(began)
    order = np.lexsort((first, device[first]))
    rank = np.arange(len(first))
    new_device = np.ones(len(first), np.bool_)
    new_device[1:] = np.diff(device[first][order]) != 0
    number = np.empty(len(first), np.int64)
    number[order] = rank - np.maximum.accumulate(np.where(new_device, rank, 0))
    return np.asarray(number[np.searchsorted(first, began)])


def repeats(device: np.ndarray, join: np.ndarray, seq: np.ndarray) -> np.ndarray:
    """Which frames arrived before: same device, join and number.

    >>> repeats(np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1]), np.array([3, 3, 3, 3])).tolist()
    [False, True, False, False]
    """
    order = np.lexsort((np.arange(len(seq)), seq, join, device))
    again = np.zeros(len(seq), np.bool_)
    same = np.ones(max(len(seq) - 1, 0), np.bool_)
    for column in (device, join, seq):
        same &= np.diff(column[order]) == 0
    again[order[1:]] = same
    return again


def join_rows(recording: Receptions) -> np.ndarray:
    """The row of the first frame to arrive of each join, ascending."""
    key = recording.join * len(recording.devices) + recording.device
    return np.sort(np.unique(key, return_index=True)[1])


def first_numbers(recording: Receptions) -> np.ndarray:
    """First number of each join of ``join_rows``.

    Of a device's first join it is the first number to arrive, as the recording may have begun in
    the middle of it.
    """
    rows = join_rows(recording)
    first = FIRST_SEQ[recording.name]
    return np.where(recording.join[rows] == 0, recording.seq[rows], first)


def lost_frames(recording: Receptions) -> np.ndarray:
    """Lost numbers of each device, each join up to its highest number."""
    rows, first = join_rows(recording), first_numbers(recording)
    key = recording.join * len(recording.devices) + recording.device
    of_join = np.argsort(key[rows])
    join = of_join[np.searchsorted(key[rows][of_join], key)]
    highest = first - 1
    np.maximum.at(highest, join, recording.seq)
    known = ~recording.is_repeat & (recording.seq >= first[join])
    numbered = np.bincount(recording.device[rows], highest - first + 1, len(recording.devices))
    came = np.bincount(recording.device[known], minlength=len(recording.devices))
    return np.asarray(numbered.astype(np.int64) - came)


def _find(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.ndjson.gz", folder / f"{name}.ndjson"):
        if path.is_file():
            return path
    raise UserError(
        f"{folder / name}.ndjson.gz: the recording is not there. It is one of CampusIoT's Helium "
        f"LoRaWAN frames datasets: take Helium/{name}.ndjson.gz from the GitHub repository "
        f"CampusIoT/datasets, put it into {FOLDER}/ of a folder, and set SLACKWATER_DATA to that "
        "folder (default: ../shared/data)"
    )


def _check(path: Path, table: pa.Table) -> None:
    """Checks what the import relies on."""
    if not table.num_rows:
        raise UserError(f"{path}: holds no frames")
    for name in _SCHEMA.names:
        if table.column(name).null_count:
            row = pc.index(table.column(name).is_null(), True).as_py()
            raise UserError(f"{path}:{row + 1}: has no {name}; every frame needs one")
    lengths: Any = pc.list_value_length(table.column("hotspots")).to_numpy()
    if (lengths < 1).any():
        raise UserError(f"{path}:{int(np.argmin(lengths)) + 1}: no hotspot reported this frame")
    back = np.flatnonzero(np.diff(table.column("_timestamp").to_numpy()) < 0)
    if back.size:
        raise UserError(f"{path}:{int(back[0]) + 2}: arrived before the frame above it")
