"""How a log is cut, saved and encoded changes nothing in what comes out of a chain.

Beside ``tests/products`` this alone sees the ordered stream, what lies aside and every counter, in
each order, for records of all kinds: restarts, syncs, promises, ends, attributes that come late.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.clocks.epochs import CLOCK_STATUS
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.plan import Plan

Record = dict[str, Any]
WINDOW = "SELECT sum(v), count(*) FROM events GROUP BY tag WINDOW TUMBLING 8 ns"
PAIRS = "EVENT SEQ(A a, B b) WHERE a.tag = b.tag WITHIN 12 ns"
ORDERS = ("sequence:timeout=fixed:3", "sequence:timeout=r19,late=pass", "none",
          "sequence:timeout=r19-code,latency=9ns", "kslack:4", "mp-kslack", "kslack-chain:2,9",
          "ldop:0.5..2,window=3",
          "aq-kslack:error=0.4,window=3,slide=1",
          "aq-kslack:error=0.4,window=5,agg=sum,attr=v",
          "sequence:timeout=quantile:0.5,latency=9ns")  # fmt: skip


def setting(order: str, guard: int | None = 40) -> ChainSettings:
    plans: tuple[Plan, ...] = (query(WINDOW, name="w"), query(PAIRS, name="p"))
    if order.startswith("aq-kslack"):
        plans = plans[:1]  # serves no patterns
    return ChainSettings(
        parse_order(order), plans, guards=Guards(guard), ordered="full", aside="full"
    )


class ChainRecords:
    """What a chain said: the ordered stream as records, results per query, counters."""

    def __init__(self) -> None:
        self.ordered: list[dict[str, Any]] = []
        self.late: list[dict[str, Any]] = []
        self.quarantined: list[dict[str, Any]] = []
        self.results: list[list[dict[str, Any]]] = [[], []]
        self.counters: dict[str, Any] = {}

    def take(self, output: Any) -> None:
        for mine, results in zip(self.results, output.results, strict=False):
            mine.extend(results)
        for mine, batches in (
            (self.ordered, output.ordered),
            (self.late, output.late),
            (self.quarantined, output.quarantined),
        ):
            mine += [_record(each, row) for each in batches for row in range(each.n)]

    @property
    def everything(self) -> tuple[Any, ...]:
        # repr tells 1 from 1.0, which bytes in a file do too.
        aside = repr(self.late), repr(self.quarantined)
        return repr(self.ordered), repr(self.results), *aside, self.counters


def _record(released: Any, row: int) -> dict[str, Any]:
    text = released.strings.text
    record: dict[str, Any] = {CLOCK_STATUS: 0}  # left out of a batch in which it is of all
    for name in sorted(released.columns):
        if name.startswith("valid."):
            continue
        attribute = name.removeprefix("attrs.")
        mask = released.columns.get("valid." + attribute)
        value = released.columns[name][row].item()
        coded = released.attr_types.get(attribute) == "str" and name.startswith("attrs.")
        if mask is not None and name.startswith("attrs.") and not mask[row]:
            continue
        if coded or name in ("source", "clock", "stream", "type"):
            value = text(value)
        record[name] = value
    return record


def chain_over(
    batches: Sequence[Sequence[Frame]], order: str, resumed: Sequence[int] = ()
) -> ChainRecords:
    """Run ``batches``; before those in ``resumed`` the chain is replaced by its snapshot."""
    chosen, records = setting(order), ChainRecords()
    chain = Chain(chosen, "main")
    for number, batch in enumerate(batches):
        if number in resumed:
            chain = Chain.restored(chosen, "main", chain.to_bytes())
        records.take(chain.process(list(batch)))
    records.take(chain.finish())
    records.counters = chain.counters()
    records.counters.pop("buffered_max_bytes")  # columns of a batch come from its frames
    return records


def cut(frame: Frame, cuts: Sequence[int]) -> list[Frame]:
    edges = [0, *cuts, frame.rows]
    return [frame.slice(a, b - a) for a, b in itertools.pairwise(edges) if b > a]


@st.composite
def traces(draw: st.DrawFn) -> list[Record]:
    """Two or three sources, two types, losses, repeats, restarts, all kinds of records."""
    records: list[Record] = []
    now = 0
    counts = {"a": 0, "b": 0, "c": 0}
    clocks = st.sampled_from([{}, {}, {}, {"clock": "a"}, {"clock": "wall"}])
    for _ in range(draw(st.integers(1, 30))):
        now += draw(st.sampled_from([0, 0, 1, 1, 2, 6]))
        source = draw(st.sampled_from(["a", "b", "c"]))
        what = draw(st.integers(0, 15))
        if what == 0:
            records.append({"kind": "tick", "arrival": now})
        elif what == 1:
            records.append({"kind": "sync", "source": source, "offset": draw(st.integers(-3, 3)),
                            "delay": draw(st.integers(0, 4)), "ts": draw(st.none() | st.just(now)),
                            "arrival": now, **draw(clocks)})  # fmt: skip
        elif what == 2:
            records.append({"kind": "pog", "source": source, "ts": now - 2, "arrival": now,
                            "seq": draw(st.none() | st.just(counts[source])),
                            **draw(clocks)})  # fmt: skip
        elif what == 3:
            records.append({"kind": "eos", "source": source, "arrival": now})
        else:
            step = draw(st.sampled_from([0, 1, 1, 1, 1, 2, -1]))
            seq = max(0, counts[source] + step - 1)
            counts[source] = max(counts[source], seq + 1)
            attrs: dict[str, Any] = {"tag": draw(st.sampled_from(["x", "y"]))}
            if draw(st.booleans()):
                attrs["v"] = draw(st.integers(0, 5))
            ts = max(0, now - draw(st.integers(0, 4)))
            number = seq if what < 15 else None
            records.append({"source": source, "seq": number, "ts": ts, "arrival": now,
                            "attrs": attrs, "type": draw(st.sampled_from(["A", "B"])),
                            **draw(clocks)})  # fmt: skip
    return records


ATTRIBUTES: list[list[dict[str, Any]]] = [
    [{"v": 1}, {"v": 2}],  # int first
    [{"v": 2.5}, {}],  # then float, and absent
    [{"v": 3, "late": "new"}, {"v": None}],  # int again; an attribute that appears late
    [{}, {}],  # no attribute at all
    [{"v": 4.5, "flag": True}, {"late": "x"}],
]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    trace=traces(),
    order=st.sampled_from(ORDERS),
    texts=st.permutations(["a", "b", "c", "x", "y", "A", "B", "events", "unused"]),
    data=st.data(),
)
def test_any_cut_any_restart_and_any_order_of_texts_give_the_same(
    frame_of: Callable[..., Frame], trace: list[Record], order: str, texts: list[str],
    data: st.DataObject,
) -> None:  # fmt: skip
    everywhere = range(1, len(trace))
    some = st.lists(st.integers(0, len(trace)), max_size=5).map(sorted)
    frames = cut(frame_of(trace, texts=texts), data.draw(some | st.just(everywhere)))
    per_batch = data.draw(st.integers(1, 3))
    batches = [frames[i : i + per_batch] for i in range(0, len(frames), per_batch)]
    resumed = data.draw(st.sets(st.integers(0, len(batches))) | st.just(everywhere))
    found = chain_over(batches, order, list(resumed)).everything
    # Groups of one window come in the order of their codes' texts, not of the codes.
    assert found == chain_over([[frame_of(trace)]], order).everything


@pytest.mark.parametrize("order", ORDERS)
def test_attributes_that_come_late_or_change_from_int_to_float(
    frame_of: Callable[..., Frame], order: str
) -> None:
    for seqs in (range(10), [1, 0, 3, 2, 5, 4, 9, 6, 7, 8]):
        records = [
            {"source": "a", "seq": seq, "ts": row, "type": "A", "arrival": row,
             "attrs": {"tag": "x"} | ATTRIBUTES[row // 2][row % 2]}
            for row, seq in enumerate(seqs)
        ]  # fmt: skip
        frames = [frame_of(records[row : row + 2]) for row in range(0, 10, 2)]
        apart = chain_over([[frame] for frame in frames], order, range(5))
        for size in (2, 5):
            batches = [frames[i : i + size] for i in range(0, 5, size)]
            assert chain_over(batches, order).everything == apart.everything
        if order == "none":  # an int is released as one before its attribute turns float
            values = [record.get("attrs.v") for record in chain_over([frames], order).ordered]
            assert repr(values) == "[1, 2, 2.5, None, 3.0, None, None, None, 4.5, None]"
            assert apart.ordered[4]["attrs.late"] == "new"
            assert apart.ordered[8]["attrs.flag"] is True
