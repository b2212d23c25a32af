"""Several workloads of one source as one: its own events, and what it sees of machines."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slackwater.edge_agent.messages import StreamSchema
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.settings import check
from slackwater.simulator.workload import Batch, Span, Workload, expected_events


@dataclass(frozen=True, slots=True)
class MergedWorkloads:
    """``parts`` together; each has streams of its own."""

    parts: tuple[Workload, ...]

    def __post_init__(self) -> None:
        names = [stream.name for part in self.parts for stream in part.streams()]
        twice = [name for name in names if names.count(name) > 1]
        check(not twice, "stream", f"two workloads of one source have a stream {twice[:1]}; name "
              "one of them otherwise")  # fmt: skip

    def streams(self) -> Sequence[StreamSchema]:
        """Of all parts."""
        return tuple(stream for part in self.parts for stream in part.streams())

    def expected(self, length_ns: int) -> int:
        """As ``simulator.workload.ForeseenWorkload``; of those parts that are."""
        return sum(expected_events(part, length_ns) for part in self.parts)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        """As ``simulator.workload.Workload``: by their first events' instants."""
        each = (part.batches(span, seeds, source) for part in self.parts)
        yield from heapq.merge(*each, key=lambda batch: int(batch.due_ns[0]))
