"""Judging by a log: columns against brute force, and a simulated log whose clocks are known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.edge_agent.records import Kind
from slackwater.engine.apps.report.measure.events import RunRows
from slackwater.engine.apps.validate.log_quality import setup_of_log
from slackwater.engine.apps.validate.two_logs import NONE, compare_logs, read_columns
from slackwater.engine.cli.app import run
from slackwater.engine.core.clocks.choice import ClockChoice
from slackwater.engine.core.errors import UserError

MS = 10**6
SHOP = """
seed = 5
duration = "90 s"
[[sources]]
name = "a"
resend = false
[sources.clock]
offset = "300 ms"
skew_ppm = 15
[sources.link]
up.delay = "8 ms"
up.loss = 0.03
up.reliable = false
down.delay = "4 ms"
down.reliable = false
[sources.workload]
model = "periodic"
period = "200 ms"
phase = "30 ms"
type = "A"
[[sources]]
name = "b"
[sources.clock]
offset = "-1 h"
[sources.link]
delay = "2 ms"
[sources.workload]
model = "periodic"
period = "500 ms"
phase = "170 ms"
type = "B"
"""


def columns(
    events: list[tuple[int, int, int, int]], syncs: tuple[tuple[int, int, int, int], ...] = ()
) -> RunRows:
    """``events``: (source, seq, ts, arrival); ``syncs``: (source, ts, offset, delay)."""
    rows = len(syncs) + len(events)
    blank = np.full(rows, NONE, np.int64)
    of_syncs, of_events = np.array(syncs, np.int64).reshape(-1, 4), np.array(events, np.int64)
    split = len(syncs)

    def column(first: np.ndarray, then: np.ndarray) -> np.ndarray:
        made = blank.copy()
        made[:split], made[split:] = first, then
        return made

    none = np.full(split, NONE, np.int64)
    nothing = np.full(len(events), NONE, np.int64)
    numbers = {
        "kind": column(np.full(split, Kind.SYNC), np.full(len(events), Kind.EVENT)),
        "seq": column(none, of_events[:, 1]), "incarnation": np.zeros(rows, np.int64),
        "ts": column(of_syncs[:, 1], of_events[:, 2]),
        "arrival": column(np.zeros(split, np.int64), of_events[:, 3]),
        "offset": column(of_syncs[:, 2], nothing), "delay": column(of_syncs[:, 3], nothing),
        "precision": blank, "skew_error_ppb": blank, "first_seq": blank,
    }  # fmt: skip
    source = np.concatenate([of_syncs[:, 0], of_events[:, 0]])
    zeros = np.zeros(rows, np.int64)
    names = [f"s{n}" for n in range(int(source.max()) + 1)]
    codes = {"site": zeros, "source": source, "stream": zeros, "type": zeros, "clock": source}
    texts = {"site": ["main"], "source": names, "stream": ["events"], "type": ["A"], "clock": names}
    return RunRows(numbers | codes, texts)


arrivals = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12)), min_size=1, max_size=25).map(
    lambda pairs: [(s, q, 1000 * q, 10 * n) for n, (s, q) in enumerate(pairs)]
)


@given(arrivals)
def test_gaps_copies_and_waits_are_those_of_brute_force(
    events: list[tuple[int, int, int, int]],
) -> None:
    found = setup_of_log(columns(events))
    for source in found.sources:
        mine = [each for each in events if f"s{each[0]}" == source.name]
        numbers = [seq for _, seq, _, _ in mine]
        assert source.link is not None
        assert source.link.trials == max(numbers) - min(numbers) + 1
        assert source.link.lost == source.link.trials - len(set(numbers))
        assert source.link.duplicates == len(numbers) - len(set(numbers))
        waits = []
        for place, (_, seq, _, arrival) in enumerate(mine):
            before = mine[:place]
            later = [when for _, other, _, when in before if other > seq]
            if later and seq not in [other for _, other, _, _ in before]:
                waits.append(arrival - later[0])
        assert source.link.reordered == len(waits)
        assert source.link.gap_wait_ns == max(waits, default=0)
        transits = sorted(arrival - ts for _, _, ts, arrival in mine)
        half = transits[math.ceil(len(transits) / 2) - 1]
        assert (source.link.least_ns, source.link.p50_ns) == (transits[0], half)
    newest, late = -1, []
    for _, _, ts, _ in events:
        late += [newest - ts] if ts < newest else []
        newest = max(newest, ts)
    assert found.lateness_ns is not None
    assert found.lateness_ns[3] == max(late, default=0)


def test_offsets_lie_on_the_line_between_two_syncs() -> None:
    syncs = ((0, 1_000, 10, 4), (0, 2_000, 30, 4), (1, 500, -7, 2))
    events = [(0, n, ts, 5_000 + n) for n, ts in enumerate((900, 1_250, 2_000, 9_000))]
    events += [(1, 0, 100, 6_000), (2, 0, 100, 6_000)]
    found = setup_of_log(columns(events, syncs))
    refs = {each.name: each.link.most_ns for each in found.sources if each.link}
    assert refs["s0"] == 5_000 - (900 + 10)
    assert refs["s1"] == 6_000 - (100 - 7)
    assert refs["s2"] == 6_000 - 100
    assert [each.name for each in found.synced] == ["s0", "s1"]
    assert found.t_a_ns == 4


@pytest.mark.parametrize(
    ("choice", "known"),
    [
        (ClockChoice(exact=False), {}),
        (ClockChoice(exact=False, declared=(("s0", 40, 3),)), {"s0": (40, 3), "s1": (0, 0)}),
        (ClockChoice(declared=(("s0", 40, 3),)), {"s0": (40, 3), "s1": (0, 0)}),
        (ClockChoice(exact=False, declared=(("s9", 40, 3),)), {}),
    ],
)
def test_a_stated_clock_counts_as_one_sync_that_does_not_age(
    choice: ClockChoice, known: dict[str, tuple[int, int]]
) -> None:
    found = setup_of_log(columns([(0, 0, 100, 6_000), (1, 0, 100, 6_000)]), choice=choice)
    assert {each.name: (each.clock.offset_ns, each.clock.bound_ns()) for each in found.synced} == (
        known
    )
    for each in found.sources:
        assert each.link is not None
        assert each.link.most_ns == 5_900 - known.get(each.name, (0, 0))[0]
    assert bool(found.concerns) != bool(known)


def test_an_event_that_arrives_before_it_happened_makes_a_log_not_fit() -> None:
    syncs = ((0, 0, 0, 2 * MS), (1, 0, 0, 2 * MS))
    events = [(0, 0, 1000 * MS, 505 * MS), (1, 0, 1000 * MS, 1001 * MS)]
    (said, forbids), *more = setup_of_log(columns(events, syncs)).concerns
    assert not more
    assert forbids
    assert "before they can have happened" in said
    assert not setup_of_log(columns(events[1:], syncs)).concerns


def test_a_clock_that_was_set_is_named() -> None:
    syncs = tuple((0, n * 10**9, 0 if n < 3 else 5 * MS, 1000) for n in range(6))
    (source,) = setup_of_log(columns([(0, 0, 0, 10)], syncs)).sources
    assert source.clock.steps == (5 * MS,)


@given(arrivals, arrivals, st.integers(-50, 50))
def test_two_logs_are_compared_as_brute_force_does(
    first: list[tuple[int, int, int, int]], second: list[tuple[int, int, int, int]], apart: int
) -> None:
    second = [(s, q, ts, arrival + apart) for s, q, ts, arrival in second]
    came: list[dict[tuple[int, int], int]] = []
    for events in (first, second):
        came.append({})
        for source, seq, _, arrival in events:
            came[-1].setdefault((source, seq), arrival)
    shared = came[0].keys() & came[1].keys()
    if not shared:
        with pytest.raises(UserError, match="no event in common"):
            compare_logs(columns(first), columns(second))
        return
    found = compare_logs(columns(first), columns(second))
    later = sorted(came[1][each] - came[0][each] for each in shared)
    assert found.median_ns == later[(len(later) - 1) // 2]
    for each in found.sources:
        code = int(each.name.removeprefix("s"))
        mine = [{key for key in log if key[0] == code} for log in came]
        assert each.both == len(mine[0] & mine[1])
        assert each.missing_a == len(mine[1] - mine[0])
        assert each.missing_b == len(mine[0] - mine[1])
        for events, out in ((first, each.out_of_order_a), (second, each.out_of_order_b)):
            seqs = [seq for source, seq, _, _ in events if source == code]
            behind = {seq for n, seq in enumerate(seqs) if any(o > seq for o in seqs[:n])}
            assert out == len(behind)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two sources with known clocks and ways."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.toml").write_text(SHOP)
    assert run(["simulate", str(folder / "shop.toml"), "--out", str(folder / "shop.log")]) == 0
    return folder / "shop.log"


def test_a_simulated_logs_clocks_ways_and_losses_are_found(shop: Path) -> None:
    found = {each.name: each for each in setup_of_log(read_columns(shop)).sources}
    a, b = found["a"], found["b"]
    # What a is behind grows by 15 us a second; its way there is 4 ms longer than back.
    assert a.clock.offset_ns is not None
    assert b.clock.offset_ns is not None
    assert abs(a.clock.offset_ns - 301 * MS) <= a.clock.offset_bound_ns + MS
    assert abs(b.clock.offset_ns + 3_600_000 * MS) <= b.clock.offset_bound_ns
    assert (a.clock.delay_ns, b.clock.delay_ns) == pytest.approx((12 * MS, 4 * MS), abs=10_000)
    assert a.link is not None
    assert b.link is not None
    low, high = a.link.loss_bounds
    assert low <= 0.03 <= high
    assert b.link.lost == 0
    for link, way in ((a.link, 8 * MS), (b.link, 2 * MS)):
        # An event waits up to 20 ms for the agent's next poll.
        assert way - link.transit_error_ns <= link.least_ns
        assert link.most_ns <= way + 20 * MS + link.transit_error_ns
    assert (a.period_ns or 0) == pytest.approx(200 * MS, rel=0.1)


def test_the_verdict_of_a_log(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit, not_fit = "EVENT SEQ(A a, B b) WITHIN 20 s", "EVENT SEQ(A a, B b) WITHIN 10 ms"
    twin = tmp_path / "twin.toml"
    words = ["validate", "--log", str(shop), "--quiet"]
    out = tmp_path / "out"
    summary = ["--summary", str(tmp_path / "junit.xml")]
    code = run([*words, "--query", fit, "--scenario", str(twin), "--out", str(out), *summary])
    assert code == 0
    cases = (tmp_path / "junit.xml").read_text()
    assert f'<testcase classname="{shop}" name="q1 can be decided">' in cases
    assert "<system-out>fit with care; " in cases
    assert "not fit" not in capsys.readouterr().out
    page = (out / "validate.html").read_text()
    assert "What the queries ask" in page
    assert "Change first" in page  # what a lost is not sent again: fit with care
    (asked,) = json.loads((out / "validate.json").read_text())["queries"]
    assert asked["verdict"] == "fit with care"
    assert asked["uncertain_measured"] < 0.01
    assert asked["order_gap_ns"] >= 12 * MS // 2 + 4 * MS // 2
    assert run(["check", str(twin)]) == 0
    capsys.readouterr()
    assert run([*words, "--query", not_fit, "--json", *summary]) == 1
    assert '<failure message="not fit; WITHIN 10' in (tmp_path / "junit.xml").read_text()
    (asked,) = json.loads(capsys.readouterr().out)["queries"]
    assert asked["verdict"] == "not fit"
    assert asked["smallest_ns"] > 10 * MS


def test_two_logs_by_the_command(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "--two-logs", str(shop), str(shop), "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["missing_a"] + each["missing_b"] for each in found["sources"]] == [0, 0]


@pytest.mark.slow
def test_two_logs_have_a_page(shop: Path, tmp_path: Path) -> None:
    scenario = shop.parent / "shop.toml"
    words = ["simulate", str(scenario), "--set", "sources.a.link.up.jitter=50ms", "--quiet"]
    assert run([*words, "--out", str(tmp_path / "wifi.log")]) == 0
    words = ["validate", "--two-logs", str(shop), str(tmp_path / "wifi.log"), "--quiet"]
    assert run([*words, "--out", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "two-logs.json").read_text())
    page = (tmp_path / "out" / "two-logs.html").read_text()
    a = found["sources"][0]
    assert a["name"] == "a"
    for name, other in (("A", "B"), ("B", "A")):
        missing = a[f"missing_{name.lower()}"]
        assert missing > 1  # 3 % of 450, other ones in each
        assert f"{name} misses {missing} events that {other} has" in page
    assert "How much later B had the events than A" in page
    assert "Again: <code>slackwater" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give one of --config"),
        (["--log", "a", "--config", "b"], "give one of --config"),
        (["--log", "nothing.log"], "no such folder"),
        (["--config", "nothing.toml"], "nothing.toml"),
        (["--log", "x", "--uncertain", "200 %"], "--uncertain 200 %"),
        (["--log", "x", "--query", "EVENT SEQ(A a"], "query q1"),
        (["--log", "x", "--uncertain", "5"], 'at most 1, such as 0.05 or "5 %"'),
        (["--log", "x", "--gap", "soon"], "--gap: 'soon' is not a duration"),
        (["--log", "x", "--duration", "5s"], "--duration goes with --config"),
        (["--log", "x", "--rate"], "--rate goes with --config"),
        (["--two-logs", "x", "y", "--server", "z"], "--server goes with --config"),
        (["--log", "x", "--scenario", "z"], "--scenario z: call it NAME.toml"),
        (["--log", "x", "--scenario", "z/z.toml"], "--scenario z/z.toml: no folder z"),
        (["--log", "x", "--scenario", "here.toml"], "--scenario here.toml: exists already"),
        (
            ["--log", "x", "--scenario", "z.toml", "--recording", "r.csv"],
            'no column is "ts", the event time; say which, as in mapping={"ts": "time"}',
        ),
        (["--two-logs", "x", "y", "--scenario", "z"], "--scenario goes with --config or --log"),
    ],
)
def test_bad_input(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("here.toml").write_text("mine")
    Path("r.csv").write_text("time,type\n1,A\n")
    assert run(["validate", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_query_of_what_the_log_lacks_is_reported(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--log", str(shop), "--query", "EVENT SEQ(A a, C c) WITHIN 1 s"]) < 2
    assert "no event is of type 'C'; there is A, B" in capsys.readouterr().err
    wrong = "SELECT avg(celsiu) FROM events WINDOW TUMBLING 10 s"
    assert run(["validate", "--log", str(shop), "--query", wrong]) == 2
    assert "no event has an attribute 'celsiu'" in capsys.readouterr().err


def test_line_numbers_are_no_arrivals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"type": "A", "ts": 1}\n{"type": "B", "ts": 2}\n')
    assert run(["log", "import", str(trace), "--out", str(tmp_path / "t.log")]) == 0
    assert run(["validate", "--log", str(tmp_path / "t.log")]) == 2
    assert "line numbers" in capsys.readouterr().err


@pytest.mark.slow
def test_a_page_says_how_it_was_made_and_has_tiles_in_the_colour_of_the_verdict(
    shop: Path, tmp_path: Path
) -> None:
    words = ["validate", "--log", str(shop), "--quiet", "--out", str(tmp_path / "out")]
    care, unfit = "EVENT SEQ(A a, B b) WITHIN 20 s", "EVENT SEQ(A a, B b) WITHIN 10 ms"
    for query, code, kind in ((care, 0, "care"), (unfit, 1, "fails")):
        assert run([*words, "--query", query]) == code
        page = (tmp_path / "out" / "validate.html").read_text()
        assert f'<section id="verdict" class="{kind}">' in page
        assert f'<li class="{kind}">' in page
        assert ('<div class="tile fails">' in page) is bool(code)  # care is amber, never red
        assert f'<li class="{kind}">' in page
        for said in ("clock known to ±", "lost on the way", "time to result p95", "Done on 20"):
            assert said in page
        run_section = page.partition('<section id="run">')[2]
        assert "Again: <code>slackwater" in run_section
        assert "numpy" in run_section
    # A colour of its own, in light and in dark.
    assert page.count("--care: #") == 2
    assert page.count("--care-ground: #") == 2
