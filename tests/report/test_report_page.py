"""The page: complete, offline, escaped, with the numbers of report.json inside."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.edge_agent.units import NS_PER
from slackwater.engine.apps.report.measure.results import (
    KEPT_MAX,
    KEYS_SHOWN,
    POINTS_SHOWN,
    QueryAnswers,
    measure_matches,
    measure_windows,
    read_answers,
)
from slackwater.engine.apps.report.page.document import POLICY
from slackwater.engine.apps.report.page.run_page import page as page_of
from slackwater.engine.apps.report.write import write_report
from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.scenario import Claim, Score, Table

MS = 10**6
SECOND = 10**9
START_NS = 1_767_225_600 * SECOND


class Page(HTMLParser):
    """What a browser makes of a page: elements with attributes, texts, scripts by id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.styles: list[str] = []
        self._open: tuple[str, str | None] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._open = (tag, dict(attrs).get("id"))
            if tag == "script":
                self.scripts.append((dict(attrs).get("id"), ""))

    def handle_endtag(self, tag: str) -> None:
        if self._open and tag == self._open[0]:
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is None:
            self.texts.append(data)
        elif self._open[0] == "style":
            self.styles.append(data)
        else:
            name, content = self.scripts[-1]
            self.scripts[-1] = (name, content + data)

    def script(self, name: str) -> Any:
        return json.loads(dict(self.scripts)[name])

    def sections(self) -> list[str | None]:
        return [attrs.get("id") for tag, attrs in self.elements if tag == "section"]


def report(run: Any, **given: Any) -> tuple[dict[str, Any], Page]:
    what = given.pop("what", "Three sources.")
    options = {"duration": "2 s"} | given
    made = write_report(run.directory, run.title, what, run.queries, run.passes, run.score, options)
    return made, Page((run.directory / "report.html").read_text(encoding="utf-8"))


def test_the_report_of_a_rich_run(rich_run: Any) -> None:
    made, page = report(rich_run)
    assert page.sections() == [
        "verdict", "story", "matches", "windows", "tables", "conservation", "disorder", "holds",
        "clocks", "sources", "run", "glossary",
    ]  # fmt: skip
    verdict = made["verdict"]
    assert verdict["holds"]
    assert verdict["headline"] == "All 2 claims hold and every sum balances."
    assert verdict["numbers"].startswith("570 events of 3 sources arrived, 48.9 % of them out of")
    assert "“sequence” left none out of order" in verdict["numbers"]
    assert "5.0 % never arrived. 100 % of the clock errors lie within" in verdict["numbers"]
    assert "goal: 2 matches, 1 confirmed and 1 uncertain, as the clocks'" in verdict["numbers"]
    assert verdict["numbers"].endswith("(true: 2).")
    words = " ".join(page.texts)
    for text in (verdict["headline"], "Every goal was found", "2 of 2", "ab" * 32, "duration",
                 "SELECT avg(v) FROM events", "✓ balanced", "A note.", "in-process"):  # fmt: skip
        assert text in words
    assert "not balanced" not in words


def test_a_section_without_anything_to_show_is_left_out(rich_run: Any) -> None:
    made, _ = report(rich_run)
    nothing = {"sources": [], "windows": {}, "matches": {}, "tables": []}
    without = page_of(made | nothing)
    assert "#sources" not in without
    assert Page(without).sections() == [
        "verdict", "story", "conservation", "disorder", "holds", "clocks", "run", "glossary",
    ]  # fmt: skip


def test_json_inside_equals_report_json_and_what_is_returned(rich_run: Any) -> None:
    made, page = report(rich_run)
    written = json.loads((rich_run.directory / "report.json").read_text(encoding="utf-8"))
    assert page.script("report-data") == written == made
    assert made["disorder"]["arrived_ref"]["events"] == 570


def test_nothing_is_asked_of_the_network(rich_run: Any) -> None:
    _, page = report(rich_run)
    for tag, attrs in page.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attrs.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, name, value)
    assert ("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}) in page.elements
    assert POLICY.startswith("default-src 'none'")
    assert "http" not in POLICY
    assert not re.search(r"url\(|@import|https?:", " ".join(page.styles))
    (packed,) = (content for name, content in page.scripts if name == "plotly")
    assert b"plotly.js v" in gzip.decompress(b64decode(packed))[:200]
    ours = [content for name, content in page.scripts if name != "plotly"]
    assert len(ours) == 3
    assert not re.search(r"https?://", " ".join(ours))


def test_every_figure_has_a_place_a_title_and_a_caption(rich_run: Any) -> None:
    _, page = report(rich_run)
    names = [spec["name"] for spec in page.script("figure-data")]
    assert names == [
        "story-before", "story-after", "reconciled", "disorder", "holds", "clock-bounds",
        "clock-0", "clock-1", "clock-2", "windows-0-0", "matches-0",
    ]  # fmt: skip
    places = [attrs["id"] for tag, attrs in page.elements if attrs.get("class") == "plot"]
    assert sorted(map(str, places)) == sorted(f"plot-{name}" for name in names)
    assert [tag for tag, _ in page.elements].count("figcaption") == len(names) - 2  # the story's
    for spec in page.script("figure-data"):
        axis = spec["layout"]["yaxis"]
        if not spec["name"].startswith(("matches", "windows", "reconciled", "clock-bounds")):
            assert "[" in axis["title"]["text"], "an axis says its unit"
        elif spec["name"] == "clock-bounds":
            assert all(text[-1] == "s" for text in axis["ticktext"]), "or each of its lines does"
        axis = spec["layout"]["xaxis"]
        assert "[" in axis["title"]["text"] or "s" in axis["ticktext"][0], "each line says it"


def test_what_comes_from_outside_is_escaped(tmp_path: Path, rich_run: Any) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;"
    run = type(rich_run)(
        tmp_path / "evil",
        sources=(f"a{evil}", "b"),
        title=f"title {evil}",
        queries={f"query {evil}": f"text {evil}"},
        score=Score(
            (Claim(f"claim {evil}", holds=False, detail=f"detail {evil}"),),
            (Table(f"table {evil}", (f"head {evil}", "n"), ((f"cell {evil}", evil),), evil),),
            {f"fact {evil}": evil},
        ),
    ).write()
    rows = [{"reason": evil}]
    change = lambda counters: counters["sites"]["main"].update(quarantined=rows)  # noqa: E731
    run.change_json("runs/sequence/counters.json", change)
    _, page = report(run, what=f"what {evil}", evil=evil)
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 4
    assert "img" not in tags
    assert not any("onerror" in attrs for _, attrs in page.elements)
    words = "".join(page.texts)
    for name in ("title", "what", "query", "text", "claim", "detail", "table", "head", "cell"):
        assert f"{name} {evil}" in words
    assert page.script("report-data")["facts"] == {f"fact {evil}": evil}


@pytest.mark.parametrize("ref", [1_773_352_000 * 10**9 + 5, 4_102_444_800 * 10**9, 7, -(10**15)])
def test_times_of_quarantined_events_are_dates_or_since_the_first_arrival(
    ref: int, rich_run: Any
) -> None:
    rows = [{"reason": "future", "source": "s", "seq": 5, "ref": ref}]
    change = lambda counters: counters["sites"]["main"].update(quarantined=rows)  # noqa: E731
    rich_run.change_json("runs/sequence/counters.json", change)
    made, page = report(rich_run)
    assert made["run"]["quarantined"] == rows, "ns for programs"
    (line,) = (each for each in page.texts if '"reason": "future"' in each)
    shown = json.loads(line)["ref"]
    if ref == 1_773_352_000_000_000_005:
        assert shown == "2026-03-12T21:46:40.000000005Z"
    else:
        value, unit = shown.split("\N{NO-BREAK SPACE}")
        since = float(value.replace(",", "")) * NS_PER[unit]
        assert since == pytest.approx(ref - made["run"]["first_arrival_ns"], rel=1e-9, abs=1e3)


def test_a_broken_count_is_shown_as_not_balanced(rich_run: Any) -> None:
    def change(counters: Any) -> None:
        counters["sites"]["main"]["lanes"][1]["in_order"] -= 1

    rich_run.change_json("runs/sequence/counters.json", change)
    made, page = report(rich_run)
    words = " ".join(page.texts)
    assert not made["verdict"]["holds"]
    assert made["verdict"]["headline"] == "All 2 claims hold, but 2 of the sums do not balance."
    assert words.count("✗ not balanced") == 2
    assert "sequence: 570 against 569, off by +1; at 1 of 3 sources: s1 by +1" in words
    assert ("section", {"id": "verdict", "class": "fails"}) in page.elements


def test_a_failed_claim_fails_the_run(rich_run: Any) -> None:
    rich_run.score = Score((Claim("Yes", holds=True), Claim("No", holds=False)))
    made, page = report(rich_run)
    assert not made["verdict"]["holds"]
    assert made["verdict"]["headline"] == "1 of 2 claims fails, but every sum balances."
    assert "FAIL" in page.texts


def test_a_recording_without_truth_makes_a_sensible_page(tmp_path: Path, rich_run: Any) -> None:
    run = type(rich_run)(tmp_path / "recording", truth=False).write()
    made, page = report(run)
    assert page.sections() == [
        "verdict", "story", "conservation", "disorder", "holds", "clocks", "sources", "run",
        "glossary",
    ]  # fmt: skip
    words = " ".join(page.texts)
    assert "Nothing is known of what happened before the arrival log" in words
    assert "The true times are not known here" in words
    assert "5.0 % are declared lost" in made["verdict"]["numbers"]
    assert "generated" not in {each["term"] for each in made["glossary"]}


def test_a_run_in_which_nothing_arrived(tmp_path: Path, rich_run: Any) -> None:
    run = type(rich_run)(tmp_path / "silence", lose_every=1).write()
    for each in run.passes:
        for path in (run.directory / "runs" / each.label / "ordered").iterdir():
            path.unlink()
    made, page = report(run)
    assert made["verdict"]["holds"]
    assert "100 % never arrived" in made["verdict"]["numbers"]
    assert made["run"]["first_arrival_ns"] is None
    assert page.script("figure-data") == []


def test_the_same_run_gives_the_same_page(rich_run: Any) -> None:
    report(rich_run)
    first = (rich_run.directory / "report.html").read_bytes()
    report(rich_run)
    assert (rich_run.directory / "report.html").read_bytes() == first


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("manifest.json", None, r"manifest\.json: is not there.*run the scenario to its end"),
        ("runs/none/counters.json", None, r"none/counters\.json: is not there"),
        ("manifest.json", "{", r"manifest\.json: is damaged.*run the scenario again"),
    ],
)
def test_an_unfinished_run_is_reported_so(
    rich_run: Any, name: str, content: str | None, message: str
) -> None:
    path = rich_run.directory / name
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(UserError, match=message):
        report(rich_run)
    assert not (rich_run.directory / "report.html").exists()


def test_numbers_of_any_kind_become_json(rich_run: Any) -> None:
    facts = {"a": np.float64(1.5), "b": np.arange(2), "c": float("nan"), "d": (Path("/x"), {3})}
    rich_run.score = Score((), facts={**facts, 4: np.int64(5)})
    made, _ = report(rich_run)
    assert made["facts"] == {"a": 1.5, "b": [0, 1], "c": None, "d": ["/x", [3]], "4": 5}


# --- windows and matches


def window_line(start: int, op: str = "+", **given: Any) -> dict[str, Any]:
    return {
        "op": op, "query": "q", "site": "m", "at": start + 9, "key": {},
        "window": {"start": start, "end": start + 10}, "value": {"n": 5}, "low": {"n": 4},
        "middle": {"n": 5}, "high": {"n": 5}, "certain": 3, "ambiguous": 1, "missing": 0, **given,
    }  # fmt: skip


def answers(path: Path, *lines: dict[str, Any]) -> Any:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_answers(path)


def test_windows_after_corrections_against_the_truth(tmp_path: Path) -> None:
    found = answers(
        tmp_path / "results.jsonl",
        window_line(0),
        window_line(10, missing=2),
        window_line(10, op="-", missing=2),
        window_line(10, value={"n": 7}, high={"n": 9}, missing=1),
        window_line(20, bounds={"n": [1, 2]}),
        window_line(30),
    )
    truth = [
        {"start": 0, "key": {}, "value": {"n": 4}},
        {"start": 10, "value": 10},
        {"start": 20, "key": {}, "value": 2},
        {"start": 70, "key": {}, "value": 1},
    ]
    measured = measure_windows(found.windows, {"q": truth})["q"]
    assert (measured["windows"], measured["inserted"], measured["retracted"]) == (4, 5, 1)
    assert (measured["with_missing"], measured["missing"]) == (1, 1)
    assert (measured["certain"], measured["ambiguous"]) == (12, 4)
    assert (measured["true_windows"], measured["unanswered"]) == (4, 1)
    n = measured["aggregates"]["n"]
    assert (n["with_truth"], n["inside"]) == (3, 2)
    assert (n["complete_with_truth"], n["complete_inside"]) == (2, 2)
    points = n["series"][0]["points"]
    assert [(each["low"], each["value"], each["high"], each["truth"]) for each in points] == [
        (4, 5, 5, 4), (4, 7, 9, 10), (1, 5, 2, 2), (4, 5, 5, None),
    ]  # fmt: skip


def test_early_drift_windows_are_completed_by_the_last(tmp_path: Path) -> None:
    early = {"low": None, "middle": None, "high": None, "certain": None, "ambiguous": None}
    found = answers(
        tmp_path / "results.jsonl",
        window_line(0, drift="low", **early),
        window_line(0, drift="middle", **early),
        window_line(0, drift="high"),
    )
    measured = measure_windows(found.windows, {})["q"]
    assert (measured["windows"], measured["early"], measured["inserted"]) == (1, 2, 1)


def test_keys_far_from_the_truth_are_shown_first(tmp_path: Path) -> None:
    lines = [window_line(0, key={"sid": sid}, missing=int(sid == 11)) for sid in range(12)]
    truth = [{"start": 0, "key": {"sid": sid}, "value": 50 * (sid == 10)} for sid in (9, 10)]
    truth[0]["value"] = 5
    found = answers(tmp_path / "results.jsonl", *lines)
    n = measure_windows(found.windows, {"q": truth})["q"]["aggregates"]["n"]
    shown = [one["key"]["sid"] for one in n["series"]]
    assert n["keys"] == 12
    assert len(shown) == KEYS_SHOWN
    assert {10, 11} < set(shown)
    assert shown == sorted(shown)


def match_line(ref: int, op: str = "+", certainty: str = "confirmed") -> dict[str, Any]:
    event = {"stream": "e", "source": "a", "seq": ref, "ts": ref, "ref": ref}
    return {
        "op": op, "query": "q", "site": "m", "at": ref + 7, "known_at": ref + 7,
        "certainty": certainty, "probability": 1.0, "events": [event | {"ref": ref - 1}, event],
    }  # fmt: skip


def test_matches_taken_back_and_given_again(tmp_path: Path) -> None:
    found = answers(
        tmp_path / "results.jsonl",
        match_line(10),
        match_line(20, certainty="uncertain"),
        match_line(30),
        match_line(10, op="-"),
        match_line(30, op="-"),
        match_line(30),
    )
    truth = [{"at_ref_ns": 30}, {"at_ref_ns": 20, "query": "q"}, {"at_ref_ns": 1, "query": "z"}]
    measured = measure_matches(found.matches, truth)["q"]
    counts = {name: measured[name] for name in ("confirmed", "uncertain", "taken_back", "true")}
    assert counts == {"confirmed": 1, "uncertain": 1, "taken_back": 1, "true": 2}
    assert measured["delay_ns"]["max"] == 7
    assert [each["ref_ns"] for each in measured["shown"]["taken back"]] == [10]
    assert [each["ref_ns"] for each in measured["shown"]["true"]] == [20, 30]


def test_matches_of_results_are_told_apart_by_what_these_say(tmp_path: Path) -> None:
    """Averages of two keys in windows of one time, which have no numbers."""
    lines = [match_line(10) for _ in range(2)]
    for line, key in zip(lines, "ab", strict=True):
        for event in line["events"]:
            event |= {"seq": None, "attrs": {"key": key}}
    found = answers(tmp_path / "results.jsonl", *lines, {**lines[0], "op": "-"})
    measured = measure_matches(found.matches, [])["q"]
    assert (measured["confirmed"], measured["taken_back"]) == (1, 1)


def test_many_matches_are_counted_and_thinned() -> None:
    kept = QueryAnswers()
    for ref in range(4000):
        result = match_line(ref) | {"sources": ["a"], "ref": ref}
        kept.take((ref,), result)
    measured = measure_matches({"q": kept}, [])["q"]
    assert measured["confirmed"] == 4000
    assert POINTS_SHOWN / 2 < len(measured["shown"]["confirmed"]) <= POINTS_SHOWN


def test_windows_at_the_ends_without_a_sure_event_miss_none_of_those_shown() -> None:
    kept = QueryAnswers()
    for start, certain in ((0, 0), (10, 4), (20, 3), (30, 0)):
        kept.take((start,), {
            "op": "+", "window": {"start": start, "end": start + 10}, "key": {}, "value": {"n": 1},
            "certain": certain, "ambiguous": 1, "missing": 1, "bounds": {},
        })  # fmt: skip
    found = measure_windows({"q": kept}, {})["q"]
    assert (found["windows"] - found["phantom"], found["with_missing"]) == (2, 2)


def test_results_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEPT_MAX >= 100_000
    monkeypatch.setattr("slackwater.engine.apps.report.measure.results.KEPT_MAX", 3)
    kept = QueryAnswers()
    for place in range(5):
        kept.take((place,), {"op": "+"})
    assert (len(kept.standing), kept.counts["inserted"], kept.counts["not_kept"]) == (3, 5, 2)


def test_a_line_that_is_no_result_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(ContractViolation, match=r"results\.jsonl:2: not a result"):
        answers(tmp_path / "results.jsonl", window_line(0), {"op": "+"})
