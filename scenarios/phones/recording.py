"""One session of the OoO-Dataset, as its phones and its server recorded it.

Times in the file are epoch milliseconds. ``S.Client.Detection.Time`` (when the event happened)
and ``C.Send.Time`` are **already corrected**: the phones added ``C.NTP.offset`` (server minus
phone, positive = the phone is slow; our sign) before they wrote them. The data says so: received
minus detected is at least 10 ms for every message of every phone, while the offsets lie between
-29.9 s and +1.4 s; adding or subtracting them once more gives delays of -30 s or +30 s. What a
phone's own clock showed is therefore ``S.Client.Detection.Time - C.NTP.offset``, and that is what
the arrival log gets as event time, with the offset beside it as a sync record.

``S.Client.Last.Clock.Synch.Time`` is on the corrected clock as well: 10 s before the first event,
for every phone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from slackwater.scenario import UserError

MS: Final = 10**6
FOLDER: Final = "ooo_dataset_umts"
SESSIONS: Final = ("d-1", "d-2", "d-3")
_DEVICE: Final = "S.Device.ID"
_NUMBERS: Final = {
    "seq": "S.Message.ID",
    "arrival": "S.Message.received.time.ms",
    "detected": "S.Client.Detection.Time",
    "sent": "C.Send.Time",
    "answered": "C.Server.Message.Processed.Time",
    "back": "C.Arrival.Time",
    "offset": "C.NTP.offset",
    "synced": "S.Client.Last.Clock.Synch.Time",
    "round_trip": "A.Duration.round.trip",
    "bytes": "S.Http.Content.Length",
}
_TIMES: Final = frozenset(_NUMBERS) - {"seq", "bytes"}


@dataclass(frozen=True, slots=True)
class Session:
    """A session's messages in order of arrival; equally long columns, times int64 ns.

    Attributes:
        name: ``d-1``...
        devices: the phones' names; ``device`` holds indices into it.
        device: who sent it.
        seq: message id, counted by each phone from 0 on.
        arrival: when the server received it, on the server's clock.
        detected: when the event happened, on the phone's **corrected** clock.
        sent: when the phone sent it, on its corrected clock.
        answered: when the server sent the answer, on the server's clock.
        back: when the phone had the answer, on its corrected clock.
        offset: what the phone added to its own clock, server minus phone.
        synced: when the phone had last compared clocks, on its corrected clock.
        round_trip: ``back - sent``, whole.
        bytes: size of the message.
    """

    name: str
    devices: tuple[str, ...]
    device: np.ndarray
    seq: np.ndarray
    arrival: np.ndarray
    detected: np.ndarray
    sent: np.ndarray
    answered: np.ndarray
    back: np.ndarray
    offset: np.ndarray
    synced: np.ndarray
    round_trip: np.ndarray
    bytes: np.ndarray

    def __len__(self) -> int:
        return len(self.seq)

    @property
    def ts(self) -> np.ndarray:
        """When the event happened, on the phone's own clock."""
        return np.asarray(self.detected - self.offset)

    @property
    def exchange_low(self) -> np.ndarray:
        """Least remaining offset of the phone (server minus corrected phone clock).

        Every message and its answer are an exchange of four times. The answer cannot arrive
        before it was sent: ``back + left >= answered``. Readings are floored to ms.
        """
        return np.asarray(self.answered - self.back - MS)

    @property
    def exchange_high(self) -> np.ndarray:
        """Largest remaining offset: a message cannot be received before it was sent."""
        return np.asarray(self.arrival - self.sent + MS)


def read_session(data: Path, name: str) -> Session:
    """The session ``name`` from the folder ``ooo_dataset_umts`` of ``data``.

    Raises:
        UserError: the recording is not there (says how to get it), or is not what it should be.
    """
    return _read(_find(data / FOLDER, name), name)


def read_session_file(path: Path) -> Session:
    """A session of the same form from ``path``, plain or gzipped, called like the file.

    Raises:
        UserError: there is no such file, or it is not of that form.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    return _read(path, session_name(path))


def session_name(path: Path) -> str:
    """The name of the session in a file.

    >>> session_name(Path("here/bus-7.csv.gz"))
    'bus-7'
    """
    return path.name.removesuffix(".gz").removesuffix(".csv")


def _read(path: Path, name: str) -> Session:
    options = pacsv.ConvertOptions(
        include_columns=[_DEVICE, *_NUMBERS.values()],
        column_types={_DEVICE: pa.string()} | dict.fromkeys(_NUMBERS.values(), pa.int64()),
        null_values=[],
    )
    try:
        table = pacsv.read_csv(path, None, pacsv.ParseOptions(delimiter=";"), options)
    except (pa.ArrowException, OSError) as error:
        said = str(error).splitlines()[0]
        needed = ", ".join((_DEVICE, *_NUMBERS.values()))
        raise UserError(
            f"{path}: not the recording that was expected: {said}; it needs columns {needed}, "
            'separated by ";", times in ms since 1970'
        ) from error
    columns: dict[str, Any] = {
        field: table.column(column).to_numpy() * (MS if field in _TIMES else 1)
        for field, column in _NUMBERS.items()
    }
    encoded = table.column(_DEVICE).combine_chunks().dictionary_encode()
    session = Session(
        name=name,
        devices=tuple(encoded.dictionary.to_pylist()),
        device=encoded.indices.to_numpy().astype(np.int32),
        **columns,
    )
    _check(path, session)
    return session


def _find(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.csv.gz", folder / f"{name}.csv"):
        if path.is_file():
            return path
    raise UserError(
        f"{folder / name}.csv.gz: the recording is not there. It is session {name} of the "
        "OoO-Dataset (phones that send a message every 500 ms over UMTS): take "
        f"dataset-d/{name}.csv from the GitHub repository JR-DIGITAL/ooo-dataset, put it into "
        f"{FOLDER}/ of a folder, plain or gzipped, and set SLACKWATER_DATA to that folder "
        "(default: ../shared/data)"
    )


def _check(path: Path, session: Session) -> None:
    """Checks what the import relies on."""
    if not len(session):
        raise UserError(f"{path}: holds no messages")
    back = np.flatnonzero(np.diff(session.arrival) < 0)
    if back.size:
        raise UserError(f"{path}:{int(back[0]) + 3}: received before the message above it")
    for code, device in enumerate(session.devices):
        mine = session.device == code
        if len(np.unique(session.seq[mine])) != int(mine.sum()):
            raise UserError(f"{path}: {device} has two messages of one S.Message.ID")
        if len(np.unique(session.offset[mine])) != 1:
            raise UserError(f"{path}: {device} has several C.NTP.offset, expected one per session")
