"""A matcher with its barrier and its stream's clocks, but no order: for whoever has a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from engine.barrier.registry import BarrierSettings, barrier_in_force, build_barrier
from engine.barrier.stage import BarrierStage
from engine.clocks.stream_clocks import StreamClocks
from engine.operator import Result, ResultPieces
from engine.pattern.seq import SeqMatcher
from engine.stream.in_stream import in_stream
from engine.stream.released import Released


class Alone:
    """Answers one query over a stream that is released already.

    Args:
        matcher: of the query.
        barrier: turns matches into results; None = as the query's REALTIME says.
    """

    def __init__(self, matcher: SeqMatcher, barrier: BarrierSettings | None = None) -> None:
        in_force = barrier_in_force(barrier, matcher.plan.realtime)
        self.matcher = matcher
        self._stage = BarrierStage(matcher, build_barrier(in_force, matcher.asked))
        settings = matcher.settings
        self._clocks = StreamClocks(
            frozenset(matcher.types),
            by_clock=settings.purge == "slack",
            certainty=settings.certainty,
        )

    def process(self, released: Released) -> ResultPieces:
        """What a batch makes known."""
        ordered = in_stream(released)
        ordered = replace(ordered, moved=self._clocks.advance(ordered))
        results = ResultPieces()
        results.extend(self._stage.process(ordered))
        return results

    def advance(self, now: int) -> Sequence[Result]:
        """The arrival clock has come to ``now``."""
        return self._stage.advance(now)

    def finish(self, at: int) -> Sequence[Result]:
        """End of the stream at arrival-clock instant ``at``."""
        return self._stage.finish(at)

    def counters(self) -> dict[str, int]:
        """Of matcher and barrier."""
        return self._stage.counters()

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""
        return {"stage": self._stage.snapshot(), "clocks": self._clocks.snapshot()}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot of one with equal settings."""
        self._stage.restore(state["stage"])
        self._clocks.restore(state["clocks"])
