"""Frames from plain records, chains that are run over them, and the kernels beside the twin."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.edge_agent.records import KIND_NAMES
from slackwater.engine.core.frame import FIXED_TYPES, STRING, Frame
from slackwater.engine.core.released import LATE
from slackwater.engine.hosts.chain import Chain, ChainOutput, ChainSettings
from slackwater.engine.order.base import Guards, Ordered
from slackwater.engine.order.registry import parse_order
from slackwater.engine.order.sequence.order import SequenceSettings
from slackwater.engine.query.plan import Plan

sys.path.insert(0, str(Path(__file__).parent))
from slow_timeout import Settings
from slow_twin import Twin

Record = dict[str, Any]
REASONS = ("future", "sequence jump", "duplicate", "marker")
_DEFAULTS: Record = {
    "kind": "event", "stream": "events", "source": None, "seq": None, "incarnation": 0, "ts": None,
}  # fmt: skip


def frame(records: Sequence[Record], site: str = "main", texts: Sequence[str] = ()) -> Frame:
    """A frame of records as a trace writes them; ``texts`` come first in every dictionary."""
    full = [_DEFAULTS | record for record in records]
    columns: dict[str, pa.Array] = {}
    names = dict.fromkeys(name for record in full for name in record if name != "attrs")
    for name in names:
        values = [record.get(name) for record in full]
        if name == "kind":
            values = [int(KIND_NAMES[kind]) for kind in values]
        columns[name] = _array(values, FIXED_TYPES.get(name, pa.int64()), texts)  # an id
    attrs = [record.get("attrs") or {} for record in full]
    for name in dict.fromkeys(name for of_record in attrs for name in of_record):
        values = [of_record.get(name) for of_record in attrs]
        of = pa.array(values).type
        columns["attrs." + name] = _array(values, STRING if of == pa.string() else of, texts)
    return Frame(site, pa.RecordBatch.from_pydict(columns))


def _array(values: list[Any], of: pa.DataType, texts: Sequence[str]) -> pa.Array:
    if of != STRING:
        return pa.array(values, of)
    known = list(dict.fromkeys([*texts, *(text for text in values if text is not None)]))
    codes = [None if text is None else known.index(text) for text in values]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(known, pa.string()))


def numbered(
    times: Sequence[int], arrivals: Sequence[int], source: str = "a"
) -> list[dict[str, Any]]:
    """Events of one source, numbered as they arrive."""
    return [
        {"source": source, "seq": row, "ts": time, "arrival": arrival}
        for row, (time, arrival) in enumerate(zip(times, arrivals, strict=True))
    ]


def released(
    order: str,
    given: Sequence[Record],
    cuts: Sequence[int] = (),
    guard: int | None = None,
    plans: Sequence[Plan] = (),
) -> tuple[list[tuple[int, int, int]], Chain]:
    """(seq, release, status) of everything in release order; the chain is restored at each cut."""
    guards = Guards(guard)
    chosen = ChainSettings(parse_order(order), tuple(plans), guards=guards, ordered="full")
    chain, out = Chain(chosen, "main"), []
    for start, end in itertools.pairwise([0, *cuts, len(given)]):
        if end > start:
            out += chain.process([frame(given[start:end])]).ordered
            chain = Chain.restored(chosen, "main", chain.to_bytes())
    out += chain.finish().ordered
    names = ("seq", "release", "status")
    rows = [
        row
        for each in out
        for row in zip(*(each.columns[name].tolist() for name in names), strict=True)
    ]
    return rows, chain


def with_late(rows: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, bool]]:
    """As the twins of slacks say it: whether an event is late."""
    return [(seq, release, status == LATE) for seq, release, status in rows]


class Ordering:
    """The order of a chain, and everything it gave so far, in the twin's words."""

    def __init__(self, settings: SequenceSettings, guards: Guards | None = None) -> None:
        self.settings = ChainSettings(settings, guards=guards or Guards(None), ordered="full")
        self.released: list[tuple[Any, ...]] = []
        self.gaps: list[tuple[Any, ...]] = []
        self.progress: list[tuple[int, int, int]] = []
        self.aside: list[tuple[str, int, str]] = []
        self._use(Chain(self.settings, "main"))

    def _use(self, chain: Chain) -> None:
        self.chain = chain
        hand_on = chain._to_readers

        def watched(ordered: Ordered, output: ChainOutput, halves: Any = None) -> None:
            hand_on(ordered, output, halves)  # there clocks have the last word on uncertainties
            self._took(ordered)

        chain._to_readers = watched

    def _took(self, ordered: Ordered) -> None:
        text = self.chain.strings.text
        before = len(self.released)
        columns = ordered.columns
        if ordered.n:
            coded = {
                name: [text(code) for code in columns[name].tolist()]
                for name in ("source", "stream")
                if name in columns
            }
            coded.setdefault("stream", ["events"] * ordered.n)
            numbers = [
                columns[name].tolist()
                for name in ("incarnation", "seq", "ts", "arrival", "ref", "unc", "release",
                             "status")
            ]  # fmt: skip
            self.released += zip(coded["source"], coded["stream"], *numbers, strict=True)
        gaps = ordered.gaps
        for row, source, stream, *rest in zip(
            gaps.row.tolist(), gaps.source.tolist(), gaps.stream.tolist(), gaps.first_seq.tolist(),
            gaps.count.tolist(), gaps.low.tolist(), gaps.high.tolist(), strict=True,
        ):  # fmt: skip
            self.gaps.append((before + row, text(source), text(stream), *rest))
        steps = ordered.progress
        for row, frontier, at in zip(
            steps.row.tolist(), steps.frontier.tolist(), steps.at.tolist(), strict=True
        ):
            self.progress.append((before + row, frontier, at))
        if ordered.quarantined:
            bad = ordered.quarantined
            for source, seq, reason in zip(
                bad["source"].tolist(), bad["seq"].tolist(), bad["reason"].tolist(), strict=True
            ):
                name = text(source)
                assert name is not None
                self.aside.append((name, seq, REASONS[reason]))

    def process(self, records: Sequence[Record]) -> Ordering:
        """``records`` in one frame."""
        if records:
            self.chain.process([frame(records)])
        return self

    def resume(self) -> Ordering:
        """Go on in a new chain that was given this one's snapshot."""
        self._use(Chain.restored(self.settings, "main", self.chain.to_bytes()))
        return self

    def finish(self) -> Ordering:
        self.chain.finish()
        return self

    @property
    def counters(self) -> dict[tuple[str, str], dict[str, Any]]:
        lanes = self.chain.counters()["lanes"]
        return {(lane["source"], lane["stream"]): lane for lane in lanes}

    @property
    def seqs(self) -> list[int]:
        """Numbers in order of release."""
        return [row[3] for row in self.released]

    @property
    def releases(self) -> list[int]:
        return [row[8] for row in self.released]


@pytest.fixture(scope="session")
def ordering() -> Callable[..., Ordering]:
    return Ordering


@pytest.fixture(scope="session")
def frame_of() -> Callable[..., Frame]:
    return frame


class Both:
    """The kernels and the twin on the same records."""

    def __init__(self, **options: Any) -> None:
        spec = Settings(**options)
        settings = SequenceSettings(
            timeout=spec.timeout, quantile_ppm=1_000_000 - spec.tail_ppm, fixed_ns=spec.fixed,
            latency_ns=spec.latency, alpha_milli=spec.alpha, beta_milli=spec.beta, late=spec.late,
            residual=spec.residual,
            interval_factor=SequenceSettings.read(
                {"timeout": f"r19-code:{spec.unit}" if spec.timeout == "r19-code" else "r19"}, "ns"
            ).interval_factor,
        )  # fmt: skip
        self.kernel = Ordering(settings, Guards(spec.guard, spec.default_uncertainty))
        self.twin = Twin(spec)

    def agree(self, records: Sequence[Record], cuts: Sequence[int] = ()) -> Both:
        """Everything that the two give is equal; the kernels' chain is restored at each cut."""
        for start, end in itertools.pairwise([0, *cuts, len(records)]):
            self.kernel.process(records[start:end])
            if end < len(records):
                self.kernel.resume()
        self.kernel.finish()
        for record in records:
            self.twin.process(record)
        self.twin.finish()
        assert self.kernel.released == self.twin.released
        assert self.kernel.gaps == self.twin.gaps
        assert self.kernel.progress == self.twin.progress
        assert self.kernel.aside == self.twin.aside
        mine, other = self.kernel.counters, self.twin.lanes
        assert list(mine) == sorted(other)
        for name, lane in other.items():
            assert {key: mine[name][key] for key in lane.counts} == lane.counts
            assert mine[name]["gap_timeout"] == lane.timeout.gap
            assert mine[name]["idle_timeout"] == lane.timeout.idle
        return self


@pytest.fixture(scope="session")
def both() -> Callable[..., Both]:
    return Both
