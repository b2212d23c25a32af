"""Parcels as they truly went, and what a run found out about them and when."""

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
"""Kind of certainty, parcel, and source and number of the event that made it certain."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Its events in their true order: types, sources, numbers, and times on the engine's
    clock [ns].
    """

    number: int
    types: tuple[str, ...]
    sources: tuple[str, ...]
    seqs: tuple[int, ...]
    at_ns: tuple[int, ...]

    def facts(self) -> dict[Fact, int]:
        """Facts that its events make certain, with the place of the event."""
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
class ParcelFacts:
    """Facts of a run with their results, and by parcel when the pattern without a rule was found
    complete [ns].
    """

    results: dict[Fact, dict[str, Any]]
    complete_ns: dict[int, int]

    @classmethod
    def read(cls, directory: Path) -> ParcelFacts:
        """Of the run in ``directory``."""
        results: dict[Fact, dict[str, Any]] = {}
        for result in emitted(directory, MAIN, "alerts"):
            fact = (result["alert"], int(result["trace"]), result["source"], result["seq"])
            if result["op"] == "+":
                results[fact] = result
            else:
                results.pop(fact, None)
        complete = {
            int(result["events"][0]["attrs"]["parcel"]): int(result["at"])
            for result in emitted(directory, MAIN, "matches")
            if result["query"] == SEEN and result["op"] == "+"
        }
        return cls(results, complete)
