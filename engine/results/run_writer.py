"""Everything one pass over a log leaves behind, written batch by batch, idempotently.

Layout: ``windows/ matches/ ordered/`` (Parquet parts per micro-batch) and ``counters.json``
(see ``engine.scenario``). Chains run elsewhere in general, so their output comes as ``Part``s:
a site, a kind and bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from engine.chain import Chain, ChainOutput
from engine.log.whole_file import whole_file
from engine.results.ordered import OrderedSink, released_table
from engine.results.writer import MATCHES, WINDOWS, ResultSink

RESULTS: Final = "results"
ORDERED: Final = "ordered"
COUNTERS: Final = "counters"
COUNTERS_FILE: Final = "counters.json"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of one site's output: ``kind`` tells what ``payload`` holds."""

    site: str
    kind: str
    payload: bytes


def parts_of(site: str, output: ChainOutput) -> list[Part]:
    """One call's output as bytes: results as JSON, ordered events as Arrow."""
    parts = []
    results = [result for of_query in output.results for result in of_query]
    if results:
        parts.append(Part(site, RESULTS, json.dumps(results).encode()))
    for released in output.ordered:
        table = released_table(site, released)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        parts.append(Part(site, ORDERED, bytes(sink.getvalue())))
    return parts


def last_parts(chain: Chain) -> list[Part]:
    """Output of the end of a site's input, and its counters."""
    parts = parts_of(chain.site, chain.finish())
    return [*parts, Part(chain.site, COUNTERS, json.dumps(chain.counters()).encode())]


class RunWriter:
    """Writes the parts of a pass into ``directory``; a batch written again replaces itself."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._results = ResultSink(directory)
        self._ordered = OrderedSink(directory)

    def clear(self) -> None:
        """Take away what an earlier pass left: its batches may be more, or of other kinds."""
        for name in (MATCHES, WINDOWS, ORDERED, COUNTERS):
            if (self.directory / name).exists():
                shutil.rmtree(self.directory / name)
        (self.directory / COUNTERS_FILE).unlink(missing_ok=True)

    def write(self, batch_id: int, parts: Sequence[Part]) -> None:
        """Make ``parts`` the whole of batch ``batch_id``: each site's in order of emission."""
        results: list[dict[str, Any]] = []
        tables = []
        for part in parts:
            if part.kind == RESULTS:
                results.extend(json.loads(part.payload))
            elif part.kind == ORDERED:
                tables.append(pa.ipc.open_stream(part.payload).read_all())
            else:
                folder = self.directory / COUNTERS
                folder.mkdir(parents=True, exist_ok=True)
                name = sha256(part.site.encode()).hexdigest() + ".json"  # any site is a file name
                with whole_file(folder / name) as sink:
                    sink.write(json.dumps([part.site, json.loads(part.payload)]).encode())
        self._results.write(batch_id, results)
        self._ordered.write(batch_id, tables)

    def finish(self, **facts: Any) -> dict[str, Any]:
        """Gather every site's counters and ``facts`` into ``counters.json``, and give them."""
        folder = self.directory / COUNTERS
        sites = dict(json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json")))
        summary = {"sites": dict(sorted(sites.items())), **facts}
        with whole_file(self.directory / COUNTERS_FILE) as sink:
            sink.write(json.dumps(summary, indent=1).encode())
        return summary
