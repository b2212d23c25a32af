"""Statements of every kind behind every order and barrier, by clocks that err, cut and restored
anywhere, beside one another: what stands is what plain Python says of the events that came.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.options import QueryOptions
from slackwater.engine.query.analysis.cascade import read_statements
from tests.order.conftest import frame
from tests.products.questions import JOINS, PATTERNS, Question, Result, known
from tests.products.statements import CASCADES, CONSTRAINTS, REPETITIONS, window
from tests.products.true_worlds import hold
from tests.products.worlds import World, at_source, unruly_worlds, worlds
from tests.window.plain import Product, products

ORDERS = (
    "none", "none:wait=3", "kslack:5", "kslack:200", "kslack:4,time=hold", "mp-kslack",
    "ldop:0.5..2,window=3", "aq-kslack:error=0.4,window=8,slide=4,agg=count", "kslack-chain",
    "sequence:timeout=fixed:10,late=pass", "sequence:latency=30,late=pass",
    "sequence:timeout=r19,latency=60,late=pass,time=hold", "kslack:6,time=ts",
    "sequence:timeout=fixed:6,late=pass,time=ts", "sequence:timeout=r19-code,latency=60,late=pass",
)  # fmt: skip
BARRIERS = (
    None, "immediate", "punctuation", "bounded:4", "bounded:300", "hold:7", "adaptive",
    "immediate,ordered", "punctuation,ordered", "bounded:9,ordered", "hold:2,ordered",
)  # fmt: skip
PURGES = ("late", "late:500", "slack:500", "promises", "promises:500")
BY_QUERY = ("aq-kslack", "ldop", "kslack-chain")
"""Orders that go by what is asked."""
VARYING = ("max", "looked_at", "moves", "seconds")
"""Part of a counter's name where its value depends on how the input was cut."""


@dataclass(frozen=True)
class Run:
    """``mine``: what is asked, with the product where it is a window's. ``more``: how intervals,
    joins of trees and traces are looked for. ``seed``: of the true worlds.
    """

    world: World
    mine: tuple[tuple[Question, Product | None], ...]
    order: str
    barrier: str | None
    certainty: str
    purge: str
    more: tuple[str, str]
    cuts: tuple[int, ...]
    seed: int

    @property
    def order_text(self) -> str:
        """With a slack for each of the queries."""
        slacks = ",".join(str(4 * place + 3) for place in range(len(self.mine)))
        return f"{self.order}:{slacks}" if self.order == "kslack-chain" else self.order

    def chosen(self, which: Sequence[int] | None = None) -> ChainSettings:
        """Settings of a chain that answers all, or those at the places ``which``."""
        places = range(len(self.mine)) if which is None else which
        names = [f"asked{place}" for place in places]
        plans, _ = read_statements([self.mine[place][0].text for place in places], names=names)
        intervals, joins = self.more
        options = QueryOptions(
            order=self.order_text, barrier=self.barrier, certainty=self.certainty,
            purge=self.purge, intervals=intervals, joins=joins, guard="off",
            clock=("exact",),
            window="horizon=600s" if any(plan.windows for plan in plans) else None,
            monitor="horizon=600s"
            if any(question.kind == "alert" for question, _ in (self.mine[p] for p in places))
            else None,
        )  # fmt: skip
        return options.answering(plans, "ns", late=True)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    world = draw(worlds() | worlds() | unruly_worlds())
    mine: list[tuple[Question, Product | None]] = []
    kinds = draw(st.lists(st.sampled_from("wwpjprck"), min_size=1, max_size=3))
    for kind in kinds:
        if kind == "w":
            product = draw(products())
            mine.append((window(product, world.error if world.alike else 0), product))
        elif kind != "k" or kinds.count("k") == 1:
            some = {"p": PATTERNS, "j": JOINS, "r": REPETITIONS, "c": CONSTRAINTS, "k": CASCADES}
            mine.append((some[kind][draw(st.sampled_from(sorted(some[kind])))], None))
    assume(mine)
    # What is refused, with a reason, has tests of its own.
    orders = [name for name in ORDERS if "aq-" not in name or set(kinds) == {"w"}]
    barriers = [name for name in BARRIERS if name != "adaptive" or not {"w", "k"} & {*kinds}]
    rules = ["pairwise", "pairwise"] + ["max-delay-r19"] * (not {"c", "k"} & {*kinds})
    purges = [name for name in PURGES if "promises" not in name or "r" not in kinds]
    return Run(
        world, tuple(mine), draw(st.sampled_from(orders)), draw(st.sampled_from(barriers)),
        draw(st.sampled_from(rules)), draw(st.sampled_from(purges)),
        (draw(st.sampled_from(["ibp", "naive", "indexed"])),
         draw(st.sampled_from(["cost", "left", "right"]))),
        tuple(draw(st.lists(st.integers(1, 40), max_size=5))), draw(st.integers(0, 99)),
    )  # fmt: skip


def answers_of(
    chosen: ChainSettings, world: World, cuts: Sequence[int], names: Sequence[str]
) -> tuple[dict[str, list[Result]], dict[str, Any]]:
    """All results by name, and the counters; the chain is restored at each cut, twice."""
    chain, found = Chain(chosen, "main"), {name: list[Result]() for name in names}
    outputs = []
    borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(world.records)})]
    for start, end in itertools.pairwise([*borders, len(world.records)]):
        outputs.append(chain.process([frame(world.records[start:end])]))
        if cuts:
            saved = Chain.restored(chosen, "main", chain.to_bytes()).to_bytes()
            chain = Chain.restored(chosen, "main", saved)
    outputs.append(chain.finish())
    for output in outputs:
        for plan, results in zip(chosen.plans, output.results, strict=True):
            if plan.name in found:
                found[plan.name] += list(results)
    return found, chain.counters()


def steady(counters: Any) -> Any:
    """What of them cannot hang on cuts."""
    if isinstance(counters, dict):
        return {
            name: steady(value) for name, value in counters.items()
            if not any(word in name for word in VARYING)
        }  # fmt: skip
    return [steady(each) for each in counters] if isinstance(counters, list) else counters


def standing(results: Sequence[Result], most: int) -> list[Result]:
    """What is left of ``+`` by ``-``, which repeats it word by word."""
    net: Counter[str] = Counter()
    for result in results:
        content = json.dumps({**result, "op": "+", "at": 0}, sort_keys=True)
        net[content] += 1 if result["op"] == "+" else -1
        assert 0 <= net[content] <= most, result
    return [json.loads(content) for content in net.elements()]


def check(run: Run) -> None:
    names = [f"asked{place}" for place in range(len(run.mine))]
    chosen = run.chosen()
    found, counters = answers_of(chosen, run.world, (), names)
    cut, cut_counters = answers_of(chosen, run.world, run.cuts or (5, 11), names)
    assert cut == found
    assert steady(cut_counters) == steady(counters)
    if not run.world.unruly:
        balanced(run.world, counters)
    if len(run.mine) > 1 and not run.order.startswith(BY_QUERY):
        for place, name in enumerate(names):
            alone, _ = answers_of(run.chosen([place]), run.world, run.cuts, [name])
            assert alone[name] == found[name], "it says something else beside others"
    for (question, product), name in zip(run.mine, names, strict=True):
        # What a statement reads may have lost an event, too.
        mine = counters["queries"] if "over results" in question.kind else [name]
        broken = sum(counters["queries"][each].get("promises_broken", 0) for each in mine)
        judge(run, question, product, found[name], broken=broken)


BECAME = (
    "in_order", "residual", "late_passed", "late_dropped", "duplicate", "quarantined_future",
    "quarantined_jump",
)  # fmt: skip


def balanced(world: World, counters: dict[str, Any]) -> None:
    """Every record of an event is accounted for once."""
    sent = sum("kind" not in record for record in world.records)
    lanes = counters["lanes"]
    assert sum(lane["arrived"] for lane in lanes) == sent
    became = sum(lane.get(name, 0) for lane in lanes for name in BECAME)
    assert became == sent
    assert sum(lane["duplicate"] for lane in lanes) == sent - len(world.events)


def judge(
    run: Run, question: Question, product: Product | None, results: list[Result], *, broken: int
) -> None:
    """What stands against what plain Python says. ``broken``: promises were, so often."""
    world = at_source(run.world) if "time=ts" in run.order else run.world
    rows = product is not None and product.kind[0] == "ROWS"
    over = "over results" in question.kind
    many = rows or over or bool(world.unruly)  # numbers that restart distinguish no events
    stands = standing(results, len(world.records) if many else 1)
    for result in stands:
        sound(result, shifted=product is not None and bool(product.drift))
    if not answerable(run, question, product) or (broken and "promises" in run.purge):
        return
    keys = Counter(question.key(result) for result in stands if not gap_alone(result))
    if product is not None and "time=ts" in run.order:
        question = window(product)  # no offset, and no error of one
    as_measured = question.plain(world.events)
    if world.exact or "time=ts" in run.order:
        assert keys == as_measured
        assert all(result.get("certainty", "confirmed") == "confirmed" for result in stands)
        return
    chance = random.Random(run.seed)
    if product is not None:
        if world.alike:
            assert keys == as_measured
        if not (product.drift or rows):
            for _ in range(3):
                true = world.moved(chance, apart=False)  # max-delay is a rule about pairs
                hold(product, [each for each in stands if not gap_alone(each)], true)
        return
    if question.settled:
        assert not as_measured - keys
    sure = Counter(question.key(r) for r in stands if r["certainty"] == "confirmed")
    for _ in range(3):
        true = question.plain(world.moved(chance, apart=run.certainty == "max-delay-r19"))
        assert not sure - true, "confirmed, and not so"
        assert over or not true - keys, "true, and not emitted"


def answerable(run: Run, question: Question, product: Product | None) -> bool:
    """Whether plain Python says what the answer is."""
    world = run.world
    if world.unruly or (question.instants and not world.instants):
        return False
    if question.kind == "alert":
        return world.exact and not world.tied
    if "LIMIT" in question.text and not world.exact:
        return False  # it chooses by times as measured
    if product is not None:
        one_event = {"first(v)", "last(h)", "min_by(v, w)", "max_by(h, v)"} & {*product.asked}
        if (one_event or product.kind[0] == "ROWS") and (world.tied or not world.instants):
            return False
    if world.lost and "sequence" in run.order and question.text.startswith("CREATE STREAM w"):
        return False  # windows with only a known gap count there
    return not (question.kind == "window over results" and not world.exact)


def gap_alone(result: Result) -> bool:
    """Whether nothing is known of the window but that events are missing there."""
    return bool(result.get("missing")) and not result["certain"] + result["ambiguous"]


def sound(result: Result, *, shifted: bool) -> None:
    """What holds of any result. ``shifted``: its value is of windows that were moved."""
    if "probability" in result and result["probability"] is not None:
        assert 0 <= result["probability"] <= 1
        assert result["certainty"] != "confirmed" or result["probability"] == 1
    for name, two in (result.get("bounds") or {}).items():
        if not shifted and known(*(two or [None])) and result["value"].get(name) is not None:
            assert two[0] - 1e-9 <= result["value"][name] <= two[1] + 1e-9, name


@given(run=runs())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_stands_is_what_plain_python_says(run: Run) -> None:
    check(run)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@given(run=runs())
@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_stands_of_very_many_products(run: Run) -> None:
    check(run)
