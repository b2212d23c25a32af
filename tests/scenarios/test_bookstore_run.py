"""The whole way of ``bookstore`` in this process: simulate, answer at every barrier, score."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.cli.app import run as slackwater
from slackwater.engine.scenario import Score
from slackwater.scenarios.bookstore import Bookstore
from slackwater.scenarios.bookstore.alarm_truth import ReadKey, ShopTruth
from slackwater.scenarios.bookstore.shop import WITHIN_NS
from slackwater.scenarios.runs import match_identity, standing

COMPRESSION = 600
WITHIN_RUN_NS = WITHIN_NS // COMPRESSION
SMALL = {
    "duration": "5 h", "shoppers": "90", "thefts": "9", "compression": str(COMPRESSION),
    "network": "congested", "bounds": "50 ms, 9 s", "holds": "50 ms", "seed": "2",
}  # fmt: skip


@pytest.fixture(scope="module", name="done")
def _done(
    run: Callable[..., Score], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Score]:
    directory = tmp_path_factory.mktemp("bookstore")
    return directory, run(Bookstore(), directory, SMALL, directory)


def test_every_claim_holds(done: tuple[Path, Score]) -> None:
    _, score = done
    assert [claim.text for claim in score.claims if not claim.holds] == []
    assert len(score.claims) == 4
    assert 5 <= score.facts["thefts_arrived"] <= score.facts["thefts"] == 9


def test_barriers_trade_delay_for_false_alarms(done: tuple[Path, Score]) -> None:
    barriers = done[1].facts["barriers"]
    assert set(barriers) == {
        "punctuation", "immediate", "bounded:50ms", "bounded:9s", "hold:50ms", "adaptive",
        "punctuation,ordered",
    }  # fmt: skip
    eager, sure = barriers["immediate"], barriers["punctuation"]
    assert eager["false_raised"] > 0 == eager["false_final"]
    assert eager["matches_retracted"] > 0
    assert sure["matches_retracted"] == sure["promises_broken"] == 0
    assert eager["delay_ms_p50"] < barriers["hold:50ms"]["delay_ms_p50"] < sure["delay_ms_p50"]
    assert barriers["bounded:9s"]["delay_ms_p50"] > 9000
    assert (
        barriers["bounded:9s"]["promises_broken"] == 0 < barriers["bounded:50ms"]["promises_broken"]
    )
    assert barriers["hold:50ms"]["false_raised"] <= eager["false_raised"]


@pytest.mark.parametrize("label", ["punctuation", "immediate", "bounded-9s", "hold-50ms"])
def test_what_stands_in_the_end_is_the_definition(done: tuple[Path, Score], label: str) -> None:
    directory, _ = done
    truth = ShopTruth.read(directory)
    expected = brute_force(truth)
    results = standing(directory, label, "matches", match_identity)
    sure = {pair(each) for each in results if each["certainty"] == "confirmed"}
    unsure = {pair(each) for each in results} - sure
    assert sure <= expected <= sure | unsure
    assert len(expected) > len(truth.stolen), "several antennas, so several matches of a book"


@pytest.mark.slow
def test_the_report_tells_what_was_run(tmp_path: Path) -> None:
    sets = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    code = slackwater(["run", "bookstore", "--in-process", "--quiet", *sets, "--out",
                       str(tmp_path / "run")])  # fmt: skip
    assert code == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["verdict"]["holds"], report["verdict"]
    assert report["conservation"]["balanced"]
    assert [each["barrier"] for each in report["run"]["passes"]][:2] == ["punctuation", "immediate"]
    (chart,) = report["charts"]
    assert sum(len(series["x"]) for series in chart["series"]) == 7


def brute_force(truth: ShopTruth) -> set[tuple[ReadKey, ReadKey]]:
    """Matches over the reads in the log, by true times and the definition (SPEC 4.1)."""
    by_tag: dict[int, list[ReadKey]] = {}
    for key in truth.arrived:
        by_tag.setdefault(truth.reads[key].tag, []).append(key)
    return {
        (taken, left)
        for keys in by_tag.values()
        for taken, left in itertools.permutations(keys, 2)
        if is_match(truth, keys, taken, left)
    }


def is_match(truth: ShopTruth, keys: list[ReadKey], taken: ReadKey, left: ReadKey) -> bool:
    first, last = truth.reads[taken], truth.reads[left]
    between = [truth.reads[key] for key in keys]
    return (
        (first.zone, last.zone) == ("SHELF", "EXIT")
        and 0 < last.true_ns - first.true_ns <= WITHIN_RUN_NS
        and not any(
            each.zone == "COUNTER" and first.true_ns < each.true_ns < last.true_ns
            for each in between
        )
    )


def pair(result: dict[str, Any]) -> tuple[ReadKey, ReadKey]:
    first, last = ((event["source"], event["seq"]) for event in result["events"])
    return first, last
