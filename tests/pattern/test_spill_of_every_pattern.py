"""Spilling of ISEQ, SEQ/PAL trees and steps that repeat: the net result is that of memory alone,
under every cut, however late events come and however long intervals last.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

import slackwater
from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import IN_ORDER, LATE, Strings
from slackwater.engine.hosts.chain.state_bytes import from_bytes, to_bytes
from slackwater.engine.operators.match.interval.trees import IseqMatcher, TreeMatcher
from slackwater.engine.operators.match.repetition.matcher import RepeatMatcher
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.operators.match.spill.matcher import (
    Spilling,
    SpillingRepetition,
    SpillingTree,
)
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from tests.pattern.conftest import Event, run
from tests.pattern.trees import runs
from tests.pattern.trees.definition import Record

END = 10**6
Results = list[dict[str, Any]]
Make = Callable[[], SeqMatcher | Alone]

REPEATED = [
    "SEQ(A a, B+ b[], C c) WITHIN {w} PARTITION BY k CONTIGUITY NEXT",
    "SEQ(A a, B+ b[], !N n, C c) WITHIN {w} PARTITION BY k CONTIGUITY NEXT",
    "SEQ(A a, B+ b[], !N n, C c) WITHIN {w}",
    "SEQ(!N n, A a, B+ b[]) WITHIN {w}",
    "SEQ(A+ a[], B b, !N n) WHERE a[i].v >= a[i - 1].v WITHIN {w}",
    "SEQ(!N n, A a, B* b[], C c, !M m) WITHIN {w}",
    "SEQ(A+ a[], B+ b[]) WHERE b[i].v > b[i - 1].v WITHIN {w} CONTIGUITY STRICT",
    "SEQ(A a, B{{2,}} b[] UNTIL b.v > 2, C c) WITHIN {w} PARTITION BY k CONTIGUITY NEXT",
    "SEQ(A a, B? b, A+ d[], C c) WITHIN {w}",
    "SEQ(A a, B+ b[], C c) WHERE sum(b.v) > 3 WITHIN {w} RETURN count(b) AS n, sum(b.v) AS s",
]
INTERVALS = [
    "ISEQ[a OVERLAPS b](A a, B b) WITHIN {w}",
    "ISEQ[a DURING b, b.te < c.te](A a, B b, C c) WITHIN {w}",
    "ISEQ[a.ts < b.ts, n DURING b](A a, B b, !N n) WITHIN {w}",
    "ISEQ[a BEFORE b](A a, B b, !N n) WITHIN {w}",
    "ISEQ[a.ts <= b.ts < a.te](A a, B b, !N n) WHERE a.k = b.k AND n.k = a.k WITHIN {w}",
    "ISEQ[(a MEETS b OR a OVERLAPS b)](A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN {w}",
]
TREES = [
    "SEQ(PAL(A a, B b), C c) WITHIN {w}", "PAL(A a, B b) WITHIN {w}",
    "PAL(A a OVERLAPS B b) WITHIN {w}", "SEQ(PAL(A a, B b), !N n, C c) WITHIN {w}",
    "PAL(A a, SEQ(B b, C c)) WITHIN {w}", "SEQ(!N n, PAL(A a, B b)) WITHIN {w}",
]  # fmt: skip
FORMS = [
    ["whole"], ["whole"], ["start", "whole"], ["start", "end"], ["start"], ["end"],
    ["end", "start"], ["end", "whole"],
]  # fmt: skip
BARRIERS = [
    f"{name}{ordered}"
    for name in ("immediate", "punctuation", "bounded:0", "bounded:4", "hold:3", "adaptive")
    for ordered in ("", ",ordered")
]


def net(results: Results) -> Counter[Any]:
    """``+`` minus ``-``, with all that a result says but for when it came."""
    found: Counter[Any] = Counter()
    for r in results:
        seqs, attrs = zip(*((e["seq"], e["attrs"]) for e in r["events"]), strict=True)
        said = str([r["probability"], r.get("value"), attrs])
        key = seqs, r["certainty"], r["known_at"], said
        found[key] += 1 if r["op"] == "+" else -1
    assert set(found.values()) <= {0, 1}
    return +found


@dataclass
class Drawn:
    """A query and its stream, at random. ``over``: the results of a matcher, cut at some rows."""

    text: str
    settings: PatternSettings
    spill: SpillSettings
    barrier: str
    plain: Callable[[], SeqMatcher]
    spilling: Callable[[], SeqMatcher]
    over: Callable[[Make, Sequence[int]], Results]
    cuts: list[int]

    def check(self) -> SeqMatcher:
        barrier, made = parse_barrier(self.barrier), list[SeqMatcher]()

        def spilling() -> Alone:
            made.append(self.spilling())
            return Alone(made[-1], barrier)

        def plain() -> Alone:
            return Alone(self.plain(), barrier)

        whole, alone = self.over(spilling, []), self.over(plain, [])
        assert net(whole) == net(alone), self
        assert [r["at"] for r in whole] == sorted(r["at"] for r in whole), self
        assert self.over(plain, self.cuts) == alone, self
        matcher = made[-1]
        assert self.over(spilling, self.cuts) == whole, self
        return matcher


def rows_of(chance: random.Random, types: str, n: int) -> list[dict[str, Any]]:
    """A third of the events up to 40 late."""
    now, found = 0, []
    clocks = chance.choice([[0], [0, 0, 1, 2]])
    for _ in range(n):
        now += chance.randint(0, 3)
        late = chance.random() < 0.3
        found.append({
            "type": chance.choice(types), "ref": now - chance.randint(1, 40) if late else now,
            "unc": chance.choice(clocks), "source": chance.choice("xy"),
            "epoch": chance.choice([-1, 0]), "status": LATE if late else IN_ORDER,
        })  # fmt: skip
    return found


def drawn(kind: str, seed: int) -> Drawn:
    chance = random.Random(seed)
    w = chance.choice([4, 8, 16])
    texts = {"repetition": REPEATED, "iseq": INTERVALS, "tree": TREES}[kind]
    text = "EVENT " + chance.choice(texts).format(w=w)
    plan: Any = query(text)
    rule = chance.choice(["pairwise", "pairwise", "max-delay", "max-delay-r19"])
    t_a = chance.choice([0, 3]) if rule == "max-delay-r19" else 0
    settings = PatternSettings(rule, keep_late_ns=chance.choice([0, 10, 60, 1000]))
    spill = SpillSettings(
        None, chance.choice([None, None, 1, 5, w, 2 * w, 3 * w]), chance.choice([1, 3, w, 20]),
        chance.choice([1, 2, 3, 5]), chance.choice([0, 5, 20]),
    )  # fmt: skip
    rows = rows_of(chance, "AABBCNM" if kind == "repetition" else "AABBCN", chance.choice([15, 25]))
    cuts = [chance.randint(0, len(rows)) for _ in range(chance.choice([0, 2, 4]))]
    common = (text, settings, spill, chance.choice(BARRIERS))
    if kind == "tree":
        records = torn(chance, rows, w)
        return Drawn(
            *common, lambda: TreeMatcher(plan, settings),
            lambda: SpillingTree(plan, settings).spill_to(spill),
            lambda make, cuts: over_records(make, records, cuts, t_a), cuts,
        )  # fmt: skip
    lengths = [0, 0, 0, 1] if kind == "repetition" else [0, 1, 2, 4, w, w + 2]
    events = [
        Event(**row, attrs={"v": chance.randint(0, 4), "k": chance.choice([1, 2])},
              long=chance.choice(lengths))
        for row in rows
    ]  # fmt: skip

    def over(make: Make, cuts: Sequence[int]) -> Results:
        return run(make, events, cuts, t_a=t_a, end=END)

    if kind == "iseq":
        return Drawn(
            *common, lambda: IseqMatcher(plan, settings),
            lambda: Spilling(plan, settings).spill_to(spill), over, cuts,
        )  # fmt: skip
    return Drawn(
        *common, lambda: RepeatMatcher(plan, settings),
        lambda: SpillingRepetition(plan, settings).spill_to(spill), over, cuts,
    )  # fmt: skip


def torn(chance: random.Random, rows: list[dict[str, Any]], w: int) -> list[Record]:
    """Intervals, some as halves, up to a few rows apart."""
    found = []
    for place, row in enumerate(rows):
        start, end = row["ref"], row["ref"] + chance.choice([0, 1, 2, 4, w, w + 3])
        for number, half in enumerate(chance.choice(FORMS)):
            record = Record(
                row["type"], place, start, end, half, row["unc"], row["source"], None,
                chance.choice([1, 2]), row["epoch"],
            )  # fmt: skip
            found.append((place + number * chance.choice([1, 3, 12]), number, record))
    return [record for *_, record in sorted(found, key=lambda each: each[:2])]


def over_records(
    make: Make, records: list[Record], cuts: Sequence[int], t_a: int
) -> Results:  # fmt: skip
    operator, strings, results = cast("Alone", make()), Strings(), Results()
    unc = max(record.unc for record in records)
    borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
    for place, (first, stop) in enumerate(itertools.pairwise(borders)):
        if place:
            state = from_bytes(to_bytes(operator.snapshot()))
            operator = cast("Alone", make())
            operator.restore(state)
        results += operator.process(runs.batch(records, strings, first, stop, unc, t_a))
        results += operator.advance(stop - 1)
    return [*results, *operator.finish(END)]


@pytest.mark.parametrize("kind", ["repetition", "iseq", "tree"])
@pytest.mark.parametrize(
    "seeds", [range(20), pytest.param(range(20, 250), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_the_net_result_is_that_without_spill(kind: str, seeds: range) -> None:
    spilled = 0
    for seed in seeds:
        counters = drawn(kind, seed).check().counters()
        spilled += counters["chunk_loads"] > 0
    assert spilled > len(seeds) // 2


EVENTS = {
    "type": ["A", "B", "B", "A", "B"], "ts": [1, 2, 3, 40, 2], "te": [4, 6, 6, 42, 5],
    "arrival": [4, 6, 7, 42, 60], "seq": [0, 1, 2, 3, 4],
}  # fmt: skip
"""The last one comes late, when the first three are in chunks."""
POINTS = EVENTS | {"te": EVENTS["ts"]}


@pytest.mark.parametrize(
    ("pattern", "events"),
    [
        ("SEQ(A a, B+ b[]) WITHIN 5 CONTIGUITY NEXT", POINTS),
        ("SEQ(A a, B b) WITHIN 5", POINTS),
        ("PAL(A a, B b) WITHIN 5", EVENTS),
        ("ISEQ[a OVERLAPS b](A a, B b) WITHIN 5", EVENTS),
    ],
)
def test_a_query_of_any_pattern_spills(
    tmp_path: Path, pattern: str, events: dict[str, Any]
) -> None:
    text, folder = f"EVENT {pattern}", tmp_path / "chunks"
    plain = slackwater.query(events, text, order="none", purge="late:100")
    spill = f"{folder},hot=5,chunk=2,pending=1"
    found = slackwater.query(events, text, order="none", purge="late:100", spill=spill)
    assert net(list(found)) == net(list(plain)) != Counter()
    assert found.counters["sites"]["main"]["queries"]["q1"]["chunk_loads"]
    assert not list(folder.iterdir())


@pytest.mark.parametrize("choice", ["SKIP PAST LAST EVENT", "SKIP TO NEXT", "LIMIT 2"])
def test_chosen_matches_do_not_spill(tmp_path: Path, choice: str) -> None:
    text = f"EVENT SEQ(A a, B+ b[]) WITHIN 5 {choice}"
    with pytest.raises(UserError, match="SKIP and LIMIT choose among matches"):
        slackwater.query(EVENTS, text, spill=str(tmp_path / "chunks"))
