"""K18 reproduced, small: the index is right under any disorder, and verdicts are computed."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from slackwater.paper import PaperRun
from slackwater.scenarios.papers.k18 import inverted_index, latency, overhead, soccer
from slackwater.scenarios.papers.k18.in_order import InOrderRun
from slackwater.scenarios.papers.k18.paper import paper
from slackwater.scenarios.papers.k18.texts import documents
from slackwater.scenarios.papers.k18.workers import ClusterModel, simulated
from slackwater.scenarios.papers.r19.football import football


@pytest.fixture
def run(tmp_path: Path) -> PaperRun:
    return PaperRun(1, 0.05, tmp_path, lambda _what: nullcontext(lambda _rows: None))


def test_the_collection_is_there_and_is_prose() -> None:
    texts = documents()
    counts = Counter(word for text in texts for word in text)
    assert len(texts) > 100
    assert sum(map(len, texts)) > 30_000
    assert {"the", "of", "is"} < {word for word, _ in counts.most_common(10)}


@pytest.mark.parametrize("seed", range(3))
def test_the_changelog_is_right_whatever_comes_late(seed: int) -> None:
    texts, rng = documents()[:60], np.random.default_rng(seed)
    numbered = list(enumerate(texts))
    expected: dict[str, list[inverted_index.Posting]] = {}
    for each in numbered:
        for posting in inverted_index.postings(each):
            expected.setdefault(posting.word, []).append(posting)
    running, changes = inverted_index.INDEX.start(), []
    order = np.argsort(np.arange(60) + rng.integers(0, 12, 60), kind="stable").tolist()
    for place, number in enumerate(order):
        running.send([number], [numbered[number]])
        changes += running.watermark(min(order[place + 1 :], default=60)).payload.tolist()
    assert running.late == 0
    assert running.overhead > 1
    assert inverted_index.index_of(changes) == expected
    updates = list(inverted_index.per_document(changes))
    assert [number for number, _ in updates] == list(range(60))
    assert [len(of) for _, of in updates] == [len(set(text)) for text in texts]


def test_a_changelog_out_of_order_does_not_fit() -> None:
    running = inverted_index.INDEX.start()
    running.send([1, 2], [(0, ("a",)), (1, ("a",))])
    first, second = running.watermark(9).payload.tolist()
    with pytest.raises(ValueError, match="does not fit a list of 0"):
        inverted_index.index_of([second, first])


def test_the_compiled_index_says_the_same_in_numbers() -> None:
    texts = documents()[:40]
    codes: dict[str, int] = {}
    plain, compiled = inverted_index.INDEX.start(), inverted_index.NUMBERED.start()
    for number in (3, 0, 2, 1, *range(4, 40)):
        plain.send([number], [(number, texts[number])])
        made = inverted_index.postings((number, texts[number]))
        rows = [
            (codes.setdefault(each.word, len(codes)), number, len(each.positions)) for each in made
        ]
        compiled.send([number] * len(made), np.array(rows, compiled.item))
    names = {code: word for word, code in codes.items()}
    numbers = compiled.watermark(99).payload
    expected = [
        (c.posting.word, c.posting.document, c.place, c.before)
        for c in plain.watermark(99).payload.tolist()
    ]
    assert [(names[w], d, p, b) for w, d, p, b in numbers.tolist()] == expected


def test_a_cluster_gives_what_one_worker_does_and_again_the_same() -> None:
    texts = documents()[:40]
    calm = simulated(ClusterModel(1, 5, link_ns=0), texts, 1)
    busy = simulated(ClusterModel(4, 40), texts, 1)
    held = simulated(ClusterModel(4, 40, buffered=True), texts, 1)
    assert calm.ratio == 1 == held.ratio < busy.ratio
    assert overhead._same(busy, calm)
    assert overhead._same(held, calm)
    assert (busy.latency_ns > 0).all()
    again = simulated(ClusterModel(4, 40), texts, 1)
    assert (again.arrived, again.latency_ns.tolist()) == (busy.arrived, busy.latency_ns.tolist())


def test_moving_statistics_are_those_of_order() -> None:
    events = football(3_000, np.random.default_rng(1))
    expected, least = soccer.sent(events, np.arange(3_000))
    assert least == 1
    speeds = events.attributes["v_abs"][events.attributes["sid"] == 4]
    last = expected[expected["sid"] == 4][-1]
    assert last["mean"] == speeds[-soccer.READINGS :].sum() / soccer.READINGS
    assert (last["least"], last["most"]) == (speeds[-50:].min(), speeds[-50:].max())
    order = np.argsort(events.ts + np.random.default_rng(2).integers(0, 10**8, 3_000))
    found, ratio = soccer.sent(events, order)
    assert (found == expected).all()
    assert ratio > 2
    buffered = InOrderRun(soccer.FLOW)
    items = np.empty(3_000, buffered.item)
    items["sid"], items["v"] = events.attributes["sid"], events.attributes["v_abs"]
    for part in np.array_split(order, 7):
        buffered.send(events.ts[part], items[part])
    assert buffered.waiting == 3_000
    assert (buffered.watermark(2**62).payload == expected).all()
    buffered.send([5], items[:1])
    assert (buffered.late, buffered.waiting) == (1, 0)


@pytest.mark.slow
def test_every_part_of_the_paper_is_made(run: PaperRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead, "WORKERS", (4, 10))
    monkeypatch.setattr(overhead, "RATES", (10, 24))
    monkeypatch.setattr(overhead, "SEEDS", 1)
    monkeypatch.setattr(overhead, "LEAST", 0)
    monkeypatch.setattr(overhead, "LEAST_OF_LOADS", 0)
    monkeypatch.setattr(latency, "RATES", (8, 16, 24))
    monkeypatch.setattr(latency, "PERIODS_MS", (50, 400))
    whole = paper()
    assert list(whole.reproductions) == [
        "fig-9",
        "properties",
        "in-flight",
        "punctuations",
        "soccer",
    ]
    for each in whole.reproductions.values():
        finding = each.make(run)
        assert finding.claims
        assert all("Ours: " in claim.detail and claim.rests for claim in finding.claims)
        assert finding.tables[0].rows
    surface = whole.reproductions["fig-9"].make(run).facts["ratio"]
    assert surface[0][1] > surface[1][1] >= 1


def test_few_documents_do_not_decide_the_figure(
    run: PaperRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "WORKERS", (4, 10))
    monkeypatch.setattr(overhead, "RATES", (24,))
    monkeypatch.setattr(overhead, "SEEDS", 1)
    finding = overhead.figure(run)
    assert not finding.claims
    assert list(finding.not_judged.values()) == [
        f"20 documents; fewer than {least} say too little." for least in (90, 300, 90, 90)
    ]
