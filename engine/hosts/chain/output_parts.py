"""What a chain gives, as parts that sinks write (``engine.output.run_writer``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
from msgspec import structs

from slackwater.engine.core.frame import Frame
from slackwater.engine.core.operator import ResultColumns
from slackwater.engine.hosts.chain import Chain, ChainOutput
from slackwater.engine.output.ordered import LATE, ORDERED, QUARANTINED, aside_table, released_table
from slackwater.engine.output.run_writer import FAILED, RESULTS, OutputPart
from slackwater.engine.output.spark_parts import COUNTERS
from slackwater.engine.query.failures import QueryFailure


def parts_of(site: str, output: ChainOutput) -> list[OutputPart]:
    """One call's output: columns of results and ordered events as tables, other results as a list.

    Each kind's in the order of emission; neighbours of one schema are one part.
    """
    pieces = [piece for of_query in output.results for piece in of_query.pieces]
    results = [result for piece in pieces if isinstance(piece, list) for result in piece]
    parts = [OutputPart(site, RESULTS, results)] if results else []
    tables: dict[str, list[pa.Table]] = {}
    for of_query in output.results:
        columns = [piece for piece in of_query.pieces if isinstance(piece, ResultColumns)]
        for kind, of_kind in groupby(columns, attrgetter("__class__")):
            tables.setdefault(kind.kind, []).extend(kind.tables(list(of_kind)))
    for name, of_name in tables.items():
        for _, alike in groupby(of_name, attrgetter("schema")):
            parts.append(OutputPart(site, name, pa.concat_tables(list(alike))))
    parts += [OutputPart(site, ORDERED, released_table(site, each)) for each in output.ordered]
    parts += [OutputPart(site, LATE, aside_table(site, each)) for each in output.late]
    parts += [OutputPart(site, QUARANTINED, aside_table(site, each)) for each in output.quarantined]
    return parts + failed_parts(site, output.failures) if output.failures else parts


def failed_parts(site: str, failures: Sequence[QueryFailure]) -> list[OutputPart]:
    """Queries that have failed at a site, if there are some."""
    rows = [structs.asdict(failure) for failure in failures]
    return [OutputPart(site, FAILED, rows)] if rows else []


def next_parts(chain: Chain, frames: list[Frame]) -> Iterator[list[OutputPart]]:
    """Output of a site's next frames, in pieces of few results.

    Raises:
        UserError, OverBudget, ContractViolation: as ``Chain.process``.
    """
    for output in chain.in_pieces(frames):
        yield _isolated_parts(chain, output)


def end_parts(chain: Chain) -> list[OutputPart]:
    """Output of the end of a site's input."""
    return _isolated_parts(chain, chain.finish())


def last_parts(chain: Chain) -> list[OutputPart]:
    """The same, and the site's counters."""
    return [*end_parts(chain), OutputPart(chain.site, COUNTERS, chain.counters())]


def _isolated_parts(chain: Chain, output: ChainOutput) -> list[OutputPart]:
    try:
        return parts_of(chain.site, output)
    except Exception as error:
        if not chain.settings.isolate_failures or isinstance(error, OSError):
            raise
        return failed_parts(chain.site, [*output.failures, *chain.fail(error)])
