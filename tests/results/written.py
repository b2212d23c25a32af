"""Results and events in a store, as a host writes them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from slackwater.engine.core.operator import Result
from slackwater.engine.output.ordered_stream import ORDERED
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.output.run_writer import RESULTS, OutputPart, RunWriter


def write_results(store: PartStore, batch_id: int, results: Iterable[Result]) -> None:
    """Makes ``results`` the whole of a batch."""
    RunWriter(store).write(batch_id, [OutputPart("", RESULTS, list(results))])


def write_events(store: PartStore, batch_id: int, tables: Iterable[pa.Table]) -> None:
    """Makes ``tables`` of released events the whole of a batch."""
    RunWriter(store).write(batch_id, [OutputPart("", ORDERED, table) for table in tables])
