"""What a log's own answers say: its queries are answered, and the uncertain results counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from engine.chain import ChainSettings
from engine.passes.inprocess import run_in_process
from engine.query.derived_plan import asked_plan
from engine.results.store.part_store import HELD_BYTES, PartStore
from engine.validate.verdict import Measured


def measured_answers(
    log: Path, settings: ChainSettings, folder: Path,
    advanced: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Measured]:  # fmt: skip
    """By query: matches, and those that are uncertain; of windows their events, and the ambiguous.

    Results that were taken back count as often as they were given, so with a minus.

    Args:
        log: an arrival log.
        settings: of the chains that answer.
        folder: for what does not fit into memory.
        advanced: told the number of records, for progress.

    Raises:
        UserError: see ``engine.passes.inprocess``.
    """
    store = PartStore(folder, hold=HELD_BYTES)
    run_in_process(log, settings, store, advanced)
    found: dict[str, Measured] = {}
    for plan in map(asked_plan, settings.plans):
        name = "windows" if plan.windows else "matches"
        results = uncertain = 0
        batches = store.open(name)
        for _, table in batches.tables(sorted(batches.sites)):
            own = table.filter(pc.equal(table.column("query").cast(pa.string()), plan.name))
            sign = pc.if_else(pc.equal(own.column("op").cast(pa.string()), "+"), 1, -1)
            if plan.windows:
                certain, doubtful = own.column("certain"), own.column("ambiguous")
            else:
                is_doubtful = pc.equal(own.column("certainty").cast(pa.string()), "uncertain")
                doubtful, certain = is_doubtful.cast(pa.int64()), pc.invert(is_doubtful)
            doubt = pc.sum(pc.multiply(doubtful.cast(pa.int64()), sign)).as_py() or 0
            sure = pc.sum(pc.multiply(certain.cast(pa.int64()), sign)).as_py() or 0
            results, uncertain = results + doubt + sure, uncertain + doubt
        found[plan.name] = Measured(results, uncertain)
    return found
