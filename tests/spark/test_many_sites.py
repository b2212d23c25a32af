"""Sites x sources x coming and going x keys x orders x cuts x restarts: the answers are those of
each site alone, of sources that are never forgotten; and what is done and kept stays in proportion.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, assume, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from slackwater.engine.hosts import pipeline
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.hosts.spark import chain_state, host
from slackwater.engine.hosts.spark.chain_state import LEAST, LiveChains
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.export import export_jsonl
from slackwater.engine.output.ordered_stream import export_ordered_jsonl
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from tests.order.test_sources_come_and_go import at_every_turn
from tests.spark.many_sites import World
from tests.spark.pretend_state import PretendSpark

CHAIN = "slackwater.engine.hosts.chain.site_chain"
PAIRS = "EVENT SEQ(A a, B b) WHERE a.key = b.key WITHIN 40 ns"
COUNTS = "SELECT count(*) GROUP BY key WINDOW TUMBLING 25 ns"
ORDERS = ("sequence:timeout=fixed:15", "sequence:timeout=r19,late=pass", "none", "kslack:12ns",
          "sequence:timeout=r19-code,latency=9ns", "mp-kslack", "kslack-chain:5,25",
          "ldop:window=20,late=drop",
          "aq-kslack:error=0.3,window=25,agg=count")  # fmt: skip
MODERATE = hypothesis_settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def settings(order: str) -> ChainSettings:
    plans = [query(COUNTS, name="counts")]
    if not order.startswith("aq-kslack"):  # serves no patterns
        plans.append(query(PAIRS, name="pairs"))
    return ChainSettings(parse_order(order), tuple(plans), ordered="bare")


def given_by(out: Path) -> tuple[str, str, dict[str, Any]]:
    """Results, ordered stream and counters that no cut may change."""
    export_jsonl(out, out / "results.jsonl")
    export_ordered_jsonl(out, out / "ordered.jsonl")
    sites = json.loads((out / "counters.json").read_bytes())["sites"]
    for site in sites.values():
        site.pop("buffered_max_bytes")
        for counts in site["queries"].values():
            for name in ("looked_at", "stack_moves"):
                counts.pop(name, None)
    return (out / "results.jsonl").read_text(), (out / "ordered.jsonl").read_text(), sites


worlds = st.builds(
    World, sites=st.integers(1, 4), at_once=st.integers(1, 3), life=st.integers(1, 6),
    turns=st.integers(1, 24), key_life=st.integers(1, 8), lost=st.sampled_from([0.0, 0.1]),
    swapped=st.sampled_from([0.0, 0.2]), seed=st.integers(0, 1 << 30),
)  # fmt: skip


@pytest.mark.slow
@hypothesis_settings(MODERATE, max_examples=12)  # some ten runs each
@example(
    world=World(sites=4, at_once=1, life=1, turns=1, key_life=1, lost=0.1, seed=209),
    order="none",
    rows=1,
    rows_per_file=4,
    sites_at_once=1,
    alive=0,
)  # one site has lost all of its rows
@given(
    world=worlds, order=st.sampled_from(ORDERS), rows=st.integers(1, 9),
    rows_per_file=st.integers(4, 40), sites_at_once=st.integers(1, 3), alive=st.integers(0, 2),
)  # fmt: skip
def test_all_sites_together_give_on_every_host_what_each_gives_alone(
    world: World, order: str, rows: int, rows_per_file: int, sites_at_once: int, alive: int
) -> None:
    chosen = settings(order)
    have_rows = {each.site for each in world.frames(1 << 20)}
    assume(have_rows)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as changed:
        folder = Path(name)
        results, ordered, sites = "", [], {}
        for site in sorted(have_rows):
            log = world.write(folder / f"log-{site}", 1 << 20, only=site)
            run_in_process(log, chosen, folder / f"out-{site}")
            of_site = given_by(folder / f"out-{site}")
            results += of_site[0]
            ordered.append(of_site[1])
            sites |= of_site[2]
        log = world.write(folder / "log", rows, rows_per_file=rows_per_file)
        changed.setattr(pipeline, "_SITES_AT_ONCE", sites_at_once)
        changed.setattr(pipeline, "_ROWS_PER_BATCH", rows_per_file)
        changed.setattr(host, "_micro_batches", PretendSpark())
        changed.setattr(chain_state, "LIVE", LiveChains(alive * LEAST))  # the others are restored
        with at_every_turn():
            run_in_process(log, chosen, folder / "here")
            host.run_on_spark(log, chosen, folder / "there", files_per_batch=1)
        assert given_by(folder / "here") == given_by(folder / "there")
        emitted = given_by(folder / "here")
        assert emitted[0] == results
        assert emitted[2] == sites
        assert sorted(emitted[1].splitlines()) == sorted("".join(ordered).splitlines())


@MODERATE
@given(
    world=worlds, timeout=st.sampled_from(["fixed:4", "r19,late=pass"]), rows=st.integers(1, 30),
    every=st.integers(1, 12), resumed=st.sets(st.integers(0, 12)),
)  # fmt: skip
def test_sources_that_do_not_return_are_forgotten_and_nobody_sees_it(
    world: World, timeout: str, rows: int, every: int, resumed: set[int]
) -> None:
    emitted = []
    # While all sources of a turn are remembered, and lag by no more, none is needed again.
    for kept in (4 * world.at_once, 1_000_000):
        chosen = settings(f"sequence:timeout={timeout},sources={kept}")
        with at_every_turn(every), patch(f"{CHAIN}._TEXTS", 4):
            chain, outputs = Chain(chosen, "site-000"), []
            frames = [each for each in world.frames(rows) if each.site == "site-000"]
            for number, each in enumerate(frames):
                if number in resumed:
                    chain = Chain.restored(chosen, "site-000", chain.to_bytes())
                outputs.append(chain.process([each]))
            outputs.append(chain.finish())
        emitted.append([repr(result) for output in outputs for of_query in output.results
                     for result in of_query])  # fmt: skip
    assert emitted[0] == emitted[1]


def calls(job: Callable[[], object]) -> int:
    """How many functions, of Python and C, a job calls: its work, less what is inside of arrays."""
    calls_made = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls_made
        calls_made += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        job()
    finally:
        sys.setprofile(None)
    return calls_made


def in_proportion(work: Callable[[int], int], least: int) -> None:
    """Twice as much more needs twice as much more work."""
    work(least)  # what is done only once: few events do not load kernels
    first, second, third = (work(least << doubled) for doubled in range(3))
    assert third - second < 2.05 * (second - first)


@pytest.mark.parametrize(
    "spark",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["in process", "on Spark"],
)
def test_work_is_in_proportion_to_the_number_of_sites(
    spark: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_SITES_AT_ONCE", 64)
    monkeypatch.setattr(host, "_micro_batches", PretendSpark())
    monkeypatch.setattr(chain_state, "LIVE", LiveChains(8 * LEAST))

    runs = count()

    def work(sites: int) -> int:
        out = tmp_path / f"out-{next(runs)}"
        log = World(sites, turns=6).write(tmp_path / f"log-{out.name}", 6)

        def job() -> None:
            (host.run_on_spark if spark else run_in_process)(log, settings(ORDERS[0]), out)
            export_jsonl(out, out / "results.jsonl")

        return calls(job)

    in_proportion(work, 16)


def passing(count: int, *, sources: bool) -> Chain:
    """A site where so many sources, or keys, have come and gone; of each others stay."""
    turns, never = (count * 5 // 4 if sources else count), 1 << 20
    world = World(
        at_once=4, life=5 if sources else never, key_life=never if sources else 1, turns=turns
    )
    chosen = replace(
        settings("sequence:timeout=fixed:15,sources=40"),
        pattern=PatternSettings(keep_late_ns=200), window=WindowSettings(200),
    )  # fmt: skip
    with (
        patch("slackwater.engine.order.sequence.order.FORGET_EVERY", 32),
        patch(f"{CHAIN}._TEXTS", 64),
    ):
        chain = Chain(chosen, "site-000")
        for each in world.frames(64):
            chain.process([each])
    return chain


@pytest.mark.slow
@pytest.mark.parametrize("sources", [True, False], ids=["sources", "keys"])
def test_work_and_state_are_in_proportion_whatever_comes_and_goes(sources: bool) -> None:
    in_proportion(lambda count: calls(lambda: passing(count, sources=sources)), 400)
    few, many = (passing(count, sources=sources) for count in (400, 3200))
    # Some of it goes only when it may be half of all.
    assert len(many.to_bytes()) < 1.5 * len(few.to_bytes())
    assert len(many.strings.texts) < 1.5 * len(few.strings.texts)
