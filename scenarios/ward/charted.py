"""Ventilation, antibiotics and cultures of the MIMIC-IV demo, as intervals in order of filing.

Of the tables ``procedureevents`` and ``inputevents`` only these three are taken. A culture's result
is not in the demo: what is charted is that it was drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from slackwater.scenarios.intervals import Interval
from slackwater.scenarios.mimic.importing import charted_frames, site_of, source_counts, truth_table
from slackwater.scenarios.mimic.recording import FOLDER, ChartedEvents, read_charted
from slackwater.scenarios.recorded_log import write_log, write_manifest

TABLES: Final = ("inputevents", "procedureevents")
VENTILATION, ANTIBIOTIC, CULTURE = "VENTILATION", "ANTIBIOTIC", "CULTURE"


def read_intervals(data: Path) -> ChartedEvents:
    """The chosen rows; ``item`` has their types.

    Raises:
        UserError: a table is missing (says how to get it), or has another form.
    """
    charted = read_charted(data, TABLES)
    types = _types(data)
    labels = charted.item.dictionary.to_pylist()
    names = [VENTILATION, ANTIBIOTIC, CULTURE]
    code_of = np.array([names.index(types[label]) if label in types else -1 for label in labels])
    codes = code_of[charted.item.indices.to_numpy()]
    chosen = codes >= 0
    picked = pa.array(np.flatnonzero(chosen))
    return replace(
        charted,
        **{name: getattr(charted, name)[chosen] for name in ("patient", "table", "ts", "te")},
        arrival=charted.arrival[chosen],
        item=pa.DictionaryArray.from_arrays(codes[chosen].astype(np.int32), pa.array(names)),
        value=charted.value.take(picked),
        unit=charted.unit.take(picked),
    )


def _types(data: Path) -> dict[str, str]:
    """By label of the item."""
    folder = data / FOLDER / "icu"
    path = next(p for p in (folder / "d_items.csv.gz", folder / "d_items.csv") if p.is_file())
    found = {}
    for row in pacsv.read_csv(path).to_pylist():
        label = str(row["label"])
        if row["category"] == "Antibiotics":
            found[label] = ANTIBIOTIC
        elif label.endswith("Ventilation"):
            found[label] = VENTILATION
        elif label.endswith(("Culture", "Cultured")):
            found[label] = CULTURE
    return found


def make_log(
    directory: Path, options: Mapping[str, Any], data: Path, truth: Path
) -> dict[str, Any]:
    """The log and the manifest of the recording; the truth beside them, into ``truth``."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    charted = read_intervals(data)
    logged = write_log(directory, charted_frames(charted))
    truth.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(truth_table(charted), truth)
    return write_manifest(
        directory, "ward", options, logged, rows={"event": len(charted)},
        events_by_source={
            name: {"logged": events} for name, events in source_counts(charted).items()
        },
    )  # fmt: skip


def intervals_of(rows: pa.Table) -> list[Interval]:
    """From the truth's table: patients are the things."""
    return [
        Interval(
            row["type"], row["site"], row["ts"], row["te"],
            (f"{row['site']}/{row['source']}", row["type"], row["ts"], row["te"]),
        )
        for row in rows.to_pylist()
    ]  # fmt: skip


__all__ = ["ANTIBIOTIC", "CULTURE", "VENTILATION", "intervals_of", "make_log", "site_of"]
