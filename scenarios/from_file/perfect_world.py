"""The results of the queries if every clock were right and nothing were late or lost.

The same queries run over the events that happened, at their true times on the engine's clock and in
order; with order ``none`` and without clock errors no strategy decides anything. Where agents send
intervals instead of readings, the events are the intervals of the readings.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import slackwater
from slackwater.scenario import NO_TABLES, Tables, parse_queries
from slackwater.scenarios.from_file.lineage import Lineage
from slackwater.scenarios.from_file.metrics import TrueResult
from slackwater.simulation import (
    TRUTH,
    TRUTH_PREFIX,
    Made,
    SourceSettings,
    made_streams,
    with_intervals,
)

_KEPT: Final = "late:30d"
"""An interval is known at its end, long after its start; no other event is late here."""


@dataclass(frozen=True, slots=True)
class PerfectWorld:
    """Events that happened, as equally long columns; times on the engine's clock [ns].

    ``names``: site, source, stream, number and time at the source's clock of each event, and with
    ``made`` streams its type and its end at that clock.
    """

    names: pa.Table
    table: pa.Table
    mapping: Mapping[str, str]
    made: Set[Made]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def identity(self, row: int) -> tuple[Any, ...]:
        """Of the event in ``row``: (site, source, stream, number, time at the source's clock), as
        results name their events; the number is None if no agent numbered it. The number of an
        interval of ``made`` streams depends on the network; its type and its end replace it.
        """
        site, source, stream, number, ts, *of_interval = (
            column[row].as_py() for column in self.names.columns
        )
        is_made = (site, source, stream) in self.made
        return (site, source, stream, tuple(of_interval) if is_made else number, ts)

    @classmethod
    def read(cls, directory: Path, sources: Sequence[SourceSettings]) -> PerfectWorld:
        """The perfect world of the run in ``directory`` with the devices ``sources``."""
        path = directory / TRUTH / "events.parquet"
        columns_of_truth = [name for name in pq.read_schema(path).names if name != "incarnation"]
        truth = with_intervals(pq.read_table(path, columns=columns_of_truth), sources)
        made = made_streams(sources)
        clocks = pq.read_table(directory / TRUTH / "clocks.parquet")
        start = truth["true_ts"].to_numpy()
        has_ends = "true_te" in truth.column_names
        end = pc.coalesce(truth["true_te"], truth["true_ts"]).to_numpy() if has_ends else start
        start, end = _on_engine_clock(start, clocks), _on_engine_clock(end, clocks)
        order = np.lexsort((start, end))
        for place, name in enumerate(truth.column_names):  # one by one, so that not all exist twice
            truth = truth.set_column(place, name, truth[name].take(order))
        texts = {name: _coded(truth[name]) for name in ("site", "source", "stream")}
        names = pa.table({**texts, "seq": truth["seq"], "ts": truth["ts"]})
        if made and "te" in truth.column_names:
            names = names.append_column("type", _coded(truth["type"]))
            names = names.append_column("te", truth["te"])
        ended = pa.array(end[order])
        columns: dict[str, Any] = {
            **texts,
            "seq": np.arange(truth.num_rows),
            "ts": start[order],
            "te": ended,
            "arrival": ended,
        }
        if "type" in truth.column_names:
            columns["type"] = _coded(truth["type"])
        mapping = {name: name for name in columns}
        for number, name in enumerate(truth.column_names):
            if name.startswith(TRUTH_PREFIX):
                columns[f"column{number}"] = truth[name]
                mapping[f"attrs.{name.removeprefix(TRUTH_PREFIX)}"] = f"column{number}"
        return cls(names.combine_chunks(), pa.table(columns), mapping, made)

    def answers(
        self, queries: Mapping[str, str], attributes: Mapping[str, str], tables: Tables = NO_TABLES
    ) -> dict[str, dict[Any, TrueResult]]:
        """Statement -> its results by identity.

        Args:
            queries: a statement or several, by name.
            attributes: types of the sources' attributes, also of sources without events.
            tables: reference tables of the queries.
        """
        plans = parse_queries(queries, tables)
        found: dict[str, dict[Any, TrueResult]] = {plan.name: {} for plan in plans}
        if not (plans and len(self)):
            return found
        lineage = Lineage(plans, lambda event: self.identity(event["seq"]))
        with (
            warnings.catch_warnings(action="ignore", category=slackwater.SlackwaterWarning),
            slackwater.read(self.table, time_unit="ns", mapping=self.mapping) as events,
            slackwater.query(
                events, queries, order="none", barrier="immediate", guard="off", purge=_KEPT,
                attributes=attributes, tables=tables,
            ) as results,
        ):  # fmt: skip
            for result, identity, content in lineage.known(results):
                if result["op"] == "+":
                    found[result["query"]][identity] = TrueResult(content, _since(result))
                else:
                    found[result["query"]].pop(identity, None)
        return found


def _since(result: Mapping[str, Any]) -> int:
    """When a true result can be known."""
    if "window" in result:
        return int(result["window"]["end"])
    return max(int(event["te"]) for event in result["events"])


def event_identity(event: Mapping[str, Any], made: Set[Made]) -> Any:
    """Identity of an event of the log, as in the truth."""
    stream = (event["site"], event["source"], event["stream"])
    number = (event["type"], event["te"]) if stream in made else event["seq"]
    return (*stream, number, event["ts"])


def _coded(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Repeated texts, each stored once."""
    return texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()


def _on_engine_clock(true_ns: np.ndarray, clocks: pa.Table) -> np.ndarray:
    """Instants of true time as the engine's clock shows them."""
    at, engine = clocks["true_ns"].to_numpy(), clocks["engine_ns"].to_numpy()
    at, first = np.unique(at, return_index=True)
    ahead = (engine[first] - at).astype(np.float64)
    return np.asarray(true_ns + np.rint(np.interp(true_ns, at, ahead)).astype(np.int64))
