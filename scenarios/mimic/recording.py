"""Charted events of 100 intensive-care patients: the MIMIC-IV Clinical Database Demo 2.2.

Five tables have the time of each event (``charttime``, or ``starttime`` and ``endtime``) and of its
filing (``storetime``). Properties of the data, and how the import handles them:

* **Order.** A table's file is in no order. Events arrive when they are filed; at one instant the
  tables come in the order of ``TABLES``, and a table's rows as in its file.
* **Resolution.** Times are written by people and laboratories, mostly to the minute.
* **Years.** The publisher moved each patient's times, by centuries, so that only times of one
  patient can be compared. They are moved back by ``SHIFT_DAYS`` here, whole weeks, because the
  engine's event times end in 2116.
* **No filing time.** Some laboratory rows have none (992 in the demo): they are counted and left
  out, as nobody knows when they came.
* **Charted ahead.** A nurse at 17:42 notes the urine of 18:00: filed before it happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from slackwater.scenario import UserError

FOLDER: Final = "mimic_iv_demo"
SHIFT_DAYS: Final = 36_526
"""5,218 weeks: the demo's years 2110 to 2202 become 2010 to 2102."""
DAY_NS: Final = 86_400 * 10**9
_TIME: Final = pa.timestamp("ns")


@dataclass(frozen=True, slots=True)
class TableSource:
    """Folder and columns of a table; None: it has no such column."""

    folder: str
    items: str
    start: str
    end: str | None
    value: str | None
    unit: str | None


TABLES: Final = {
    "labevents": TableSource("hosp", "d_labitems", "charttime", None, "valuenum", "valueuom"),
    "inputevents": TableSource("icu", "d_items", "starttime", "endtime", "amount", "amountuom"),
    "procedureevents": TableSource("icu", "d_items", "starttime", "endtime", "value", "valueuom"),
    "outputevents": TableSource("icu", "d_items", "charttime", None, "value", "valueuom"),
    "datetimeevents": TableSource("icu", "d_items", "charttime", None, None, None),
}


@dataclass(frozen=True, slots=True)
class ChartedEvents:
    """The events of all tables, each patient's in order of arrival, patients by number.

    Attributes:
        tables: the tables' names; ``table`` holds indices into it.
        patient: ``subject_id``.
        table: where it was charted.
        ts: when it happened, or began; int64 ns, moved by ``SHIFT_DAYS``.
        te: when it ended; ``ts`` where the table has points.
        arrival: when it was filed.
        item: what was measured, given or done, by its label.
        value: as the table has it; null for dates and texts.
        unit: of ``value``.
        unfiled: rows of each table that were left out because they have no filing time.
    """

    tables: tuple[str, ...]
    patient: np.ndarray
    table: np.ndarray
    ts: np.ndarray
    te: np.ndarray
    arrival: np.ndarray
    item: pa.DictionaryArray
    value: pa.Array
    unit: pa.DictionaryArray
    unfiled: dict[str, int]

    def __len__(self) -> int:
        return len(self.ts)


def read_charted(data: Path, tables: tuple[str, ...] = tuple(TABLES)) -> ChartedEvents:
    """The tables from the folder ``mimic_iv_demo`` of ``data``.

    Raises:
        UserError: a file is missing (says how to get it), or has another form.
    """
    folder = data / FOLDER
    parts, unfiled = [], {}
    for code, name in enumerate(tables):
        rows = _rows(folder, name)
        filed = rows.filter(rows.column("arrival").is_valid())
        unfiled[name] = rows.num_rows - filed.num_rows
        parts.append(filed.append_column("table", pa.repeat(np.int64(code), filed.num_rows)))
    every = pa.concat_tables(parts)
    if not every.num_rows:
        raise UserError(f"{folder}: the tables {', '.join(tables)} hold no filed events")
    patient, arrival = (every.column(name).to_numpy() for name in ("patient", "arrival"))
    # Stable: at one instant by table, and as in the file.
    every = every.take(pa.array(np.lexsort((arrival, patient)))).combine_chunks()
    ints = {name: every.column(name).to_numpy() for name in ("patient", "ts", "te", "arrival")}
    return ChartedEvents(
        tables,
        table=every.column("table").to_numpy().astype(np.int32),
        item=every.column("item").combine_chunks().dictionary_encode(),
        value=every.column("value").combine_chunks(),
        unit=every.column("unit").combine_chunks().dictionary_encode(),
        unfiled=unfiled,
        **ints,
    )


def _rows(folder: Path, name: str) -> pa.Table:
    """``patient item ts te arrival value unit`` of one table; ``arrival`` null where not filed."""
    table = TABLES[name]
    times = [column for column in (table.start, table.end, "storetime") if column]
    types: dict[str, Any] = {"subject_id": pa.int64(), "itemid": pa.int64()}
    types |= dict.fromkeys(times, _TIME)
    types |= {table.value: pa.float64()} if table.value else {}
    types |= {table.unit: pa.string()} if table.unit else {}
    path, rows = _read(folder / table.folder, name, types)
    for column in ("subject_id", "itemid", *times[:-1]):
        empty = rows.column(column).null_count
        if empty:
            raise UserError(f"{path}: {empty} rows have no {column}; every event needs one")
    _, items = _read(
        folder / table.folder, table.items, {"itemid": pa.int64(), "label": pa.string()}
    )
    place = pc.index_in(rows.column("itemid"), items.column("itemid").combine_chunks())
    if place.null_count:
        unknown = rows.column("itemid").filter(place.is_null())[0]
        raise UserError(f"{path}: itemid {unknown} is not in {table.items}; of another release?")
    n = rows.num_rows
    ts = _ns(rows.column(table.start))
    return pa.table(
        {
            "patient": rows.column("subject_id"),
            "item": items.column("label").combine_chunks().take(place.combine_chunks()),
            "ts": ts,
            "te": _ns(rows.column(table.end)) if table.end else ts,
            "arrival": _ns(rows.column("storetime")),
            "value": rows.column(table.value) if table.value else pa.nulls(n, pa.float64()),
            "unit": rows.column(table.unit) if table.unit else pa.nulls(n, pa.string()),
        }
    )


def _ns(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """As int64, moved back by ``SHIFT_DAYS``."""
    return pc.subtract_checked(times.cast(pa.int64()), SHIFT_DAYS * DAY_NS)


def _read(folder: Path, name: str, types: dict[str, Any]) -> tuple[Path, pa.Table]:
    """The file of table ``name``, plain or gzipped, and its columns ``types``."""
    path = _find(folder, name)
    options = pacsv.ConvertOptions(
        include_columns=list(types), column_types=types, strings_can_be_null=True, null_values=[""]
    )
    try:
        return path, pacsv.read_csv(path, convert_options=options)
    except (pa.ArrowException, OSError) as error:
        said = str(error).splitlines()[0]
        raise UserError(f"{path}: not the recording that was expected: {said}") from error


def _find(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.csv.gz", folder / f"{name}.csv"):
        if path.is_file():
            return path
    raise UserError(
        f"{folder / name}.csv.gz: the recording is not there. It is a table of the MIMIC-IV "
        "Clinical Database Demo 2.2 (open, PhysioNet): take its folders hosp/ and icu/, put them "
        f"into {FOLDER}/ of a folder, and set SLACKWATER_DATA to that folder (default: "
        "../shared/data)"
    )
