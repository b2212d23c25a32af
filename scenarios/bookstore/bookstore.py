"""The scenario ``bookstore``: simulation, queries and scores of ``slackwater run bookstore``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.scenario import NS_PER, Pass, Score, UserError
from slackwater.scenarios.bookstore.alarm_scoring import score_run
from slackwater.scenarios.bookstore.alarm_truth import BOOKS, QUERY
from slackwater.scenarios.bookstore.network import ReaderConditions, bookstore_scenario, opened
from slackwater.scenarios.bookstore.shop import LAST_ENTRY_NS, WITHIN_NS, Shop, ShopBook
from slackwater.scenarios.options import duration_ns, in_seconds, read_options
from slackwater.simulation import TRUTH, simulate_to

DEFAULTS: Final[dict[str, Any]] = {
    "seed": 1,
    "duration": "12 h",
    "compression": 360,
    "shoppers": 300,
    "thefts": 25,
    "network": "mixed",
    "connections": 2,
    "offset": "1 s",
    "skew_ppm": 30.0,
    "missed": 0.1,
    "pog": 0.5,
    "heartbeat": "500 ms",
    "bounds": "100 ms, 1 s, 6 s",
    "holds": "100 ms, 500 ms, 2 s",
}
"""``duration`` is shop time; ``offset``, ``heartbeat``, ``bounds`` (of the barrier ``bounded``) and
``holds`` are times of the run."""
OPENING_MAX_NS: Final = 30 * NS_PER["d"]
SHOPPERS_MAX: Final = 100_000
COMPRESSION_MAX: Final = 3_600
IMMEDIATE: Final = "immediate"
PUNCTUATION: Final = "punctuation"
ADAPTIVE: Final = "adaptive"


class Bookstore:
    """See ``engine.scenario.RunnableScenario``."""

    name = "bookstore"
    title = "Bookstore: thefts among late reads, and what an early alarm costs"
    what = (
        "RFID readers at six shelves (Wi-Fi), three counters (LAN, one of them behind a congested "
        "link) and two exits (LAN) report the tagged books that they see, each with its own wrong "
        "clock. A book that passes from a shelf to an exit and no counter is stolen; the seed "
        "gives every theft. The shop's day is compressed, the network is not."
    )

    def options(self) -> Mapping[str, Any]:
        return dict(DEFAULTS)

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        chosen = read_options(options, DEFAULTS)
        shop = _shop(chosen)
        shoppers, thefts = chosen["shoppers"], chosen["thefts"]
        if not 1 <= shoppers <= SHOPPERS_MAX:
            raise UserError(f"--set shoppers={shoppers}: must lie in 1..{SHOPPERS_MAX}")
        if not 0 <= thefts <= shoppers:
            raise UserError(f"--set thefts={thefts}: must lie in 0..shoppers ({shoppers})")
        conditions = ReaderConditions(
            network=chosen["network"],
            connections=chosen["connections"],
            offset_ns=duration_ns(chosen, "offset"),
            skew_ppb=round(chosen["skew_ppm"] * 1000),
            missed=chosen["missed"],
            pog=chosen["pog"],
            heartbeat_ns=duration_ns(chosen, "heartbeat"),
        )
        scenario, books = bookstore_scenario(chosen["seed"], shop, shoppers, thefts, conditions)
        manifest = simulate_to(scenario, directory, data, set=chosen).manifest
        pq.write_table(_book_table(shop, books), directory / TRUTH / BOOKS)
        return manifest

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        chosen = read_options(options, DEFAULTS)
        barriers = [PUNCTUATION, IMMEDIATE]
        for name, option in (("bounded", "bounds"), ("hold", "holds")):
            for text in filter(None, map(str.strip, chosen[option].split(","))):
                duration_ns({option: text}, option)
                barriers.append(f"{name}:{text.replace(' ', '')}")
        barriers += [ADAPTIVE, f"{PUNCTUATION},ordered"]
        labels = [each.replace(":", "-").replace(",", "-") for each in barriers]
        return [
            Pass(label, "none", barrier=each) for label, each in zip(labels, barriers, strict=True)
        ]

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        shop = _shop(read_options(options, DEFAULTS))
        return {
            QUERY: (
                "EVENT SEQ(SHELF s, !COUNTER c, EXIT e) WHERE s.tag = e.tag AND c.tag = s.tag "
                f"WITHIN {in_seconds(WITHIN_NS // shop.compression)}"
            )
        }

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        shop = _shop(read_options(options, DEFAULTS))
        return score_run(directory, self.passes(options), WITHIN_NS // shop.compression)


def _shop(chosen: Mapping[str, Any]) -> Shop:
    opening_ns, compression = duration_ns(chosen, "duration"), chosen["compression"]
    if not LAST_ENTRY_NS < opening_ns <= OPENING_MAX_NS:
        raise UserError(
            f"--set duration={chosen['duration']}: must be more than 90 min and at most 30 d of "
            "shop time, such as 12 h"
        )
    if not 1 <= compression <= COMPRESSION_MAX:
        raise UserError(f"--set compression={compression}: must lie in 1..{COMPRESSION_MAX}")
    return opened(opening_ns, compression)


def _book_table(shop: Shop, books: Sequence[ShopBook]) -> pa.Table:
    """Fate of every book that was taken, one row each, in true time."""

    def starts(zone: str) -> pa.Array:
        visits = [getattr(book, zone) for book in books]
        times = [None if each is None else shop.true_instant_ns(each.start_ns) for each in visits]
        return pa.array(times, pa.int64())

    taken = [shop.true_instant_ns(book.shelf.end_ns) for book in books]
    return pa.table(
        {
            "tag": pa.array([book.tag for book in books], pa.int64()),
            "shopper": pa.array([book.shopper for book in books], pa.int64()),
            "fate": pa.array([book.fate.value for book in books], pa.string()),
            "taken_ns": pa.array(taken, pa.int64()),
            "counter_ns": starts("counter"),
            "exit_ns": starts("exit"),
        }
    )
