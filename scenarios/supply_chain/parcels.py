"""Parcels as they truly went, and what a run said of them and when."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.scenarios.runs import emitted
from slackwater.scenarios.supply_chain.promised import certain
from slackwater.simulation import TRUTH, TRUTH_PREFIX

MAIN: Final = "main"
WASTE, SEEN = "waste", "waste_seen"
Fact = tuple[str, int, str, int]
"""What became certain, of which parcel, with which source's event of which number."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Its events in their true order: types, who saw them, their numbers, when on the engine's
    clock [ns].
    """

    number: int
    types: tuple[str, ...]
    sources: tuple[str, ...]
    seqs: tuple[int, ...]
    at_ns: tuple[int, ...]

    def facts(self) -> dict[Fact, int]:
        """What its events make certain, and which event does."""
        return {
            (kind, self.number, self.sources[at], self.seqs[at]): at
            for at, kind in certain(self.types)
        }


def true_parcels(directory: Path) -> dict[int, Parcel]:
    """Of the run in ``directory``, by number."""
    events = pq.read_table(directory / TRUTH / "events.parquet")
    clocks = pq.read_table(directory / TRUTH / "clocks.parquet")
    true_ns, numbers = events["true_ts"].to_numpy(), events[f"{TRUTH_PREFIX}parcel"].to_numpy()
    at, first = np.unique(clocks["true_ns"].to_numpy(), return_index=True)
    ahead = (clocks["engine_ns"].to_numpy()[first] - at).astype(np.float64)
    engine_ns = (true_ns + np.rint(np.interp(true_ns, at, ahead)).astype(np.int64)).tolist()
    columns = [events[name].cast(pa.string()).to_pylist() for name in ("type", "source")]
    seqs = events["seq"].to_pylist()
    rows: dict[int, list[int]] = {}
    for row in np.lexsort((true_ns, numbers)).tolist():
        rows.setdefault(int(numbers[row]), []).append(row)
    return {
        number: Parcel(
            number,
            *(tuple(column[row] for row in of) for column in (*columns, seqs, engine_ns)),
        )
        for number, of in rows.items()
    }


@dataclass(frozen=True, slots=True)
class Said:
    """What a run said: facts with the result that told each, and when the pattern without a rule
    was found complete, by parcel [ns].
    """

    told: dict[Fact, dict[str, Any]]
    complete_ns: dict[int, int]

    @classmethod
    def read(cls, directory: Path) -> Said:
        """Of the run in ``directory``."""
        told: dict[Fact, dict[str, Any]] = {}
        for result in emitted(directory, MAIN, "alerts"):
            fact = (result["alert"], int(result["trace"]), result["source"], result["seq"])
            if result["op"] == "+":
                told[fact] = result
            else:
                told.pop(fact, None)
        complete = {
            int(result["events"][0]["attrs"]["parcel"]): int(result["at"])
            for result in emitted(directory, MAIN, "matches")
            if result["query"] == SEEN and result["op"] == "+"
        }
        return cls(told, complete)
