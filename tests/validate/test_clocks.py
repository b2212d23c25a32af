"""``slackwater clocks``, the verdict on excluded sources, and validate's bounds of a log."""

from __future__ import annotations

import json
import random
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slackwater as sw
from slackwater.engine.cli.app import run
from slackwater.engine.core.clocks.arrivals import declaration, estimate, fastest_delay
from slackwater.engine.core.units import parse_duration
from slackwater.engine.hosts.pipeline import prepare
from slackwater.engine.log.input.input_read import InputForm
from slackwater.engine.scenario import Claim, Pass, Score

S, MS = 10**9, 10**6
BASE = 1_772_352_000 * S


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def gateway(d2_fast_ns: int) -> list[dict[str, Any]]:
    """d1, d2 and d3, an event every 600 ms; six numbers of d1 are lost, d3 gains 50 us a second."""
    rng = random.Random(3)
    rows = []
    for n in range(300):
        for name, phase, fast in (("d1", 0, 0), ("d2", 200, d2_fast_ns), ("d3", 400, 108 * MS)):
            true = BASE + (600 * n + phase) * MS
            gained = 50 * (true - BASE) // 10**6 if name == "d3" else 0
            if name == "d1" and n in (20, 21, 99, 150, 151, 260):
                continue
            arrival = true + 20 * MS + int(rng.expovariate(1 / (15 * MS)))
            rows.append(
                {"source": name, "seq": n, "ts": true + fast + gained, "arrival": arrival, "t": 1.0}
            )
    return sorted(rows, key=lambda row: int(row["arrival"]))


def clocks_of(rows: list[dict[str, Any]], tmp_path: Path) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in sw.clocks(write(tmp_path / "in.jsonl", rows))}


def test_own_files_09_and_09c(tmp_path: Path) -> None:
    for fast in (-2500 * MS, 2500 * MS, 5000 * MS):
        found = clocks_of(gateway(fast), tmp_path)
        d2, d3, d1 = found["d2"], found["d3"], found["d1"]
        assert abs(d2["offset_ns"] + fast) < 5 * MS
        assert d2["low_ns"] <= -fast <= d2["high_ns"]
        assert d1["low_ns"] <= 0 <= d1["high_ns"]
        assert d3["low_ns"] <= -108 * MS <= d3["high_ns"]
        assert d3["low_ns"] <= -117 * MS <= d3["high_ns"]
        assert d3["skew_ppb"] == pytest.approx(-50_000, abs=8_000)
        assert {each["known_by"] for each in found.values()} == {"arrivals"}
        name, _, rest = d2["clock"].partition("=")
        offset, _, bound = rest.partition("±")
        assert name == "d2"
        middle = parse_duration(offset.removeprefix("-")) * (-1 if offset[0] == "-" else 1)
        half = parse_duration(bound)
        assert middle - half <= d2["low_ns"] <= d2["high_ns"] <= middle + half


def test_09c_an_excluded_source_is_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "in.jsonl", gateway(5000 * MS))
    query = "SELECT count(*) AS n GROUP BY source WINDOW TUMBLING 1 h"
    report = tmp_path / "report"
    assert run(["query", query, "--input", str(path), "--quiet", "--report", str(report)]) == 0
    reported = capsys.readouterr().err.splitlines()
    assert reported[0].startswith(
        "warning: all 300 events of d2 excluded: its clock is about 5 s fast; try --clock d2=-5s±"
    )
    found = json.loads((report / "report.json").read_text())
    assert found["verdict"]["headline"].startswith("All 300 events of d2 excluded: its clock")
    page = (report / "report.html").read_text()
    assert "All in order" not in page
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sw.query(path, query)
    assert "all 300 events of d2 excluded" in str(caught[0].message)


def test_compare_says_first_what_it_excludes_and_takes_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path / "in.jsonl", gateway(5000 * MS)))
    out = tmp_path / "compared"
    command = ["compare", "--input", path, "--order", "none", "--order", "sequence", "--quiet"]
    assert run([*command, "--out", str(out)]) == 0
    said = next(each for each in capsys.readouterr().out.splitlines() if "Recommended" in each)
    assert said.startswith(
        "Recommended: All 300 events of d2 excluded: its clock is about 5 s fast"
    )
    found = json.loads((out / "compare.json").read_text())
    assert found["verdict"]["headline"].startswith("All 300 events of d2 excluded")
    option = said.split("try --clock ")[1].split(". ")[0]
    assert run([*command, "--json", "--clock", option]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "excluded" not in found["verdict"]["headline"]
    assert found["verdict"]["suits"] == "none"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert sw.compare(path, "none").suits is None
        assert sw.compare(path, "none", clock=option).suits == "none"
    said = [str(each.message) for each in caught]
    assert "all 300 events of d2 excluded" in said[0]
    others = "nothing is known of the clocks of d1, "
    assert [each.startswith(others) for each in said[1:]] == [True, True]


class FastGateway:
    """A scenario of a log in which the clock of d2 is 5 s fast."""

    name, title, what = "fast", "Fast", "Three devices."

    def options(self) -> dict[str, Any]:
        return {}

    def make(self, directory: Path, _options: Mapping[str, Any], _data: Path) -> dict[str, Any]:
        rows = write(directory / "in.jsonl", gateway(5000 * MS))
        made = prepare([str(rows)], directory, InputForm(unit="ns"))
        made.directory.rename(directory / "log")
        manifest = {"scenario": self.name, "log_sha256": "", "options": {}, "sources": {}}
        (directory / "manifest.json").write_text(json.dumps(manifest))
        return manifest

    def passes(self, _options: Mapping[str, Any]) -> list[Pass]:
        return [Pass("main", "sequence")]

    def queries(self, _options: Mapping[str, Any]) -> dict[str, str]:
        return {"n": "SELECT count(*) AS n GROUP BY source WINDOW TUMBLING 1 h"}

    def score(self, _directory: Path, _options: Mapping[str, Any]) -> Score:
        return Score((Claim("Something is true", holds=True),))


def test_the_report_of_a_scenario_leads_with_what_is_excluded() -> None:
    with pytest.warns(sw.SlackwaterWarning, match="300 events of d2"):
        done = sw.run(FastGateway())
    with done:
        headline = json.loads((done.folder / "report.json").read_text())["verdict"]["headline"]
        page = done.report.read_text()
    assert re.match(
        r"All 300 events of d2 excluded: its clock is about 5 s fast; "
        r'try \[engine\] clock = \["d2=-5s±\S+"\]\. The claim holds', headline,
    )  # fmt: skip
    assert '<section id="verdict" class="care">' in page
    assert "All in order" not in page


def test_07_rfid_reader_ahead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """logged,epc,rssi,timestamp
2021-01-24 17:14:09.154,E2000000000000000000AAAA,-33,2021-01-24 17:14:23.346000
2021-01-24 17:14:09.193,E2000000000000000000AAAA,-33,2021-01-24 17:14:23.385000
2021-01-24 17:14:09.234,E2000000000000000000BBBB,-41,2021-01-24 17:14:23.427000
2021-01-24 17:14:09.274,E2000000000000000000AAAA,-33,2021-01-24 17:14:23.467000
2021-01-24 17:14:10.301,E2000000000000000000BBBB,-40,2021-01-24 17:14:24.493000
"""
    path = tmp_path / "reads.csv"
    path.write_text(text, encoding="utf-8")
    arguments = ["--map", "ts=timestamp", "--map", "arrival=logged"]
    query = "SELECT count(*) AS n GROUP BY epc WINDOW TUMBLING 1 s"
    assert run(["query", query, "--input", str(path), "--quiet", *arguments]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: all 5 events of s0 excluded: its clock is about 14 s fast")
    assert "--clock s0=-14.19" in line


def test_of_several_clocks_of_a_source_the_fast_one_is_named(tmp_path: Path) -> None:
    rows = [
        row | {"clock": f"{row['source']}/{int(row['seq']) % 2}"}
        | ({"ts": int(row["ts"]) + 60 * S} if int(row["seq"]) % 2 else {})
        for row in gateway(0)
    ]  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(sw.order(write(tmp_path / "in.jsonl", rows)))
    (line,) = [str(each.message) for each in caught if "events of d2 excluded" in str(each.message)]
    assert line.startswith("150 of 300 events of d2 excluded: its clock is about 60 s fast")
    assert "d2/1=-59.99" in line


def test_few_excluded_events_do_not_blame_the_clock(tmp_path: Path) -> None:
    rows = gateway(0)
    rows[500]["ts"] += 7200 * S
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(sw.order(write(tmp_path / "in.jsonl", rows)))
    (first, *_) = [str(each.message) for each in caught]
    assert first.startswith(f"1 of {294 if rows[500]['source'] == 'd1' else 300} events of")
    assert "up to 120 min after they arrived" in first
    assert "clock=" not in first


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "in.jsonl", gateway(-2500 * MS))
    assert run(["clocks", str(path), "--quiet", "--out", str(tmp_path / "page")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("d2 is about 2.5 s slow.")
    assert "--clock d2=2.5s±" in shown
    assert "a way that is long look the same" in " ".join(shown.split())
    assert run(["clocks", str(path), "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["clocks"]] == ["d1", "d2", "d3"]
    stored = json.loads((tmp_path / "page" / "clocks.json").read_text())
    assert stored["clocks"] == found["clocks"]
    assert "Offset over time" in (tmp_path / "page" / "clocks.html").read_text()


def test_without_arrivals_nothing_is_reported(tmp_path: Path) -> None:
    found = clocks_of([{"ts": n, "source": "a"} for n in range(9)], tmp_path)
    assert (found["a"]["known_by"], found["a"]["offset_ns"], found["a"]["clock"]) == (
        "nothing", None, None,
    )  # fmt: skip


def test_syncs_tell_offset_skew_steps_and_age(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(40):
        at = BASE + n * 60 * S
        offset = n * 60 * 20_000 + (3 * S if n >= 25 else 0)
        rows.append({"kind": "sync", "source": "a", "ts": at, "offset": offset, "delay": 2 * MS,
                     "arrival": at + offset + MS})  # fmt: skip
        rows.append({"source": "a", "ts": at + S, "arrival": at + offset + S + 5 * MS})
    (found,) = sw.clocks(write(tmp_path / "in.jsonl", rows))
    assert found["known_by"] == "syncs"
    assert found["syncs"] == 40
    assert [(at - BASE) // (60 * S) for at, _ in found["steps"]] == [25]
    assert found["steps"][0][1] == pytest.approx(3 * S, abs=2 * MS)
    assert found["skew_ppb"] == pytest.approx(20_000, abs=100)
    assert found["offset_ns"] == pytest.approx(39 * 60 * 20_000 + 3 * S, abs=MS)
    assert found["age_ns"] == 60 * S
    assert found["last_sync_ns"] == BASE + 39 * 60 * S
    assert found["declared_ns"] >= 3 * S // 2, "the step leaves what came before it in doubt"


def test_the_minimum_filter_against_brute_force() -> None:
    """No offset that arrivals refute is allowed, and the line lies below every difference."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        n = int(rng.integers(30, 400))
        true = np.sort(rng.integers(0, 3600 * S, n))
        skew = int(rng.integers(-60, 60))
        offset = int(rng.integers(-5 * S, 5 * S)) + true * skew // 10**6
        delay = 10 * MS + rng.exponential(20 * MS, n).astype(np.int64)
        arrival = np.sort(true + delay)
        found = estimate(true - offset, arrival)
        assert not found.steps
        least = int((arrival - true + offset).min())
        assert min(found.most_ns, found.most_first_ns) <= least + MS
        assert found.skew_ppb is not None
        assert abs(found.skew_ppb - skew * 1000) < 20_000
        assert fastest_delay([found]) == found.jitter_ns


def test_a_clock_that_was_set_is_seen_in_arrivals() -> None:
    true = np.arange(400) * S
    arrival = true + 20 * MS + (np.arange(400) * 7919 % 13) * MS
    stamps = true - np.where(np.arange(400) >= 250, 30 * S, 0)
    found = estimate(stamps, arrival)
    ((at, by),) = found.steps
    assert at == stamps[250]
    assert by == pytest.approx(30 * S, abs=20 * MS)
    assert found.most_ns == pytest.approx(30 * S, abs=30 * MS)


def test_a_declaration_covers_its_range() -> None:
    rng = random.Random(1)
    for _ in range(300):
        low = rng.randint(-(10 ** rng.randint(1, 12)), 10 ** rng.randint(1, 12))
        high = low + rng.randint(0, 10 ** rng.randint(1, 11))
        _, _, rest = declaration("x", low, high).partition("=")
        offset, _, bound = rest.partition("±")
        middle = parse_duration(offset.removeprefix("-")) * (-1 if offset[0] == "-" else 1)
        half = parse_duration(bound)
        assert middle - half <= low <= high <= middle + half
        assert 2 * half <= 2 * (high - low) + 8


@pytest.mark.parametrize("unit", [1, MS, S])
@pytest.mark.parametrize("rounded", ["stamps", "arrivals", "both"])
def test_times_of_whole_units_are_covered_by_what_they_leave_open(unit: int, rounded: str) -> None:
    """A clock that writes seconds is known to seconds; to the nearest one or the last."""
    chance = random.Random(unit)
    for _ in range(200):
        offset, n = chance.randint(-3 * S, 3 * S), chance.randint(1, 12)
        true = [chance.randint(0, 900 * S) for _ in range(n)]
        delays = [chance.randint(MS, 2 * MS), *(chance.randint(MS, 5 * S) for _ in true[1:])]
        halves = chance.choice([0, unit // 2])

        def whole(times: list[int], which: str, halves: int = halves) -> np.ndarray:
            is_rounded = rounded in (which, "both")
            return np.array([
                (each + halves) // unit * unit if is_rounded else each for each in times
            ])  # fmt: skip

        stamps = whole([each - offset for each in true], "stamps")
        arrivals = whole([t + d for t, d in zip(true, delays, strict=True)], "arrivals")
        low, high = estimate(stamps, arrivals).between(MS)
        assert low <= offset <= high


def test_what_is_stated_of_clocks_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In Python, on the command line and in a site's file."""
    trace, log, site = tmp_path / "t.jsonl", tmp_path / "t.log", tmp_path / "site.toml"
    rows = [
        {"source": name, "seq": n, "type": type_, "ts": 1000 * n + shift, "arrival": 1000 * n + at}
        for n in range(40) for name, type_, shift, at in (("a", "A", 0, 30), ("b", "B", -460, 70))
    ]  # fmt: skip
    trace.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert run(["log", "import", str(trace), "--out", str(log), "--time-unit", "ms"]) == 0
    asked, stated = "EVENT SEQ(A a, B b) WITHIN 200 ms", "b=500ms±5ms"
    read = sw.read(log)
    assert sw.validate(read, asked, clock=stated)["verdict"] == "fit"
    assert sw.validate(read, asked)["verdict"] == "not fit"
    words = ["validate", "--log", str(log), "--query", asked]
    site.write_text(
        f'[gateway]\nlog = "t.log"\n[engine]\nkind = "embedded"\nclock = ["{stated}"]\n'
        f"[[query]]\nname = 'q'\ntext = '{asked}'\n",
        encoding="utf-8",
    )
    for more, code in (
        (["--clock", stated], 0),
        ([], 1),
        (["--clock", "a=exact", "--clock", stated], 0),
        (["--site", str(site)], 0),
    ):
        assert run([*words, *more]) == code, more
    assert run(["validate", "--config", "agent.toml", "--clock", "exact"]) == 2
    assert "--clock goes with --log" in capsys.readouterr().err


def one_sync_a_day() -> list[dict[str, Any]]:
    """Case 14: a sync at the start, and a clock that is 1.778 s further off after 24 h."""
    rows: list[dict[str, Any]] = [
        {"kind": "sync", "source": "h10", "offset": 0, "delay": 40, "ts": -1000, "arrival": -900},
        {"kind": "sync", "source": "verity", "offset": -622, "delay": 40, "ts": -378,
         "arrival": -900},
    ]  # fmt: skip
    for n in range(5):
        true = 5000 + n * 21_600_000
        fast = 622 + round(true / 86_400_000 * 1778)
        rows.append({"source": "h10", "seq": n, "type": "TAP_H10", "ts": true,
                     "arrival": true + 100})  # fmt: skip
        rows.append({"source": "verity", "seq": n, "type": "TAP_VERITY", "ts": true + fast,
                     "arrival": true + 130})  # fmt: skip
    return rows


def test_14_polar_two_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, log = write(tmp_path / "one.jsonl", one_sync_a_day()), tmp_path / "one.log"
    imported = ["log", "import", str(trace), "--out", str(log), "--time-unit", "ms", "--quiet"]
    assert run(imported) == 0
    capsys.readouterr()
    query = "EVENT SEQ(TAP_H10 a, TAP_VERITY b) WITHIN 10 s"
    validating = ["validate", "--log", str(log), "--query", query, "--json", "--quiet"]
    assert run(validating) == 1, "not fit"
    found = json.loads(capsys.readouterr().out)
    report = tmp_path / "report"
    ordering = ["order", "--input", str(log), "--order", "none", "--report", str(report)]
    assert run([*ordering, "--quiet", "--out", str(tmp_path / "o.jsonl")]) == 0
    engine = json.loads((report / "report.json").read_text())["clock_error"]["sources"]
    for source in found["sources"]:
        clock = source["clock"]
        assert clock["bound_ns"] == engine[f"main/{source['name']}"]["bound_ns"]["max"]
        assert clock["bound_ns"] > 1778 * MS, "the truth"
        assert clock["age_ns"] > 24 * 3600 * S


def test_a_slow_clock_or_a_slow_link_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A monitor 20 s slow behind an agent whose own clock is right, says its sync."""
    rows: list[dict[str, Any]] = []
    for n in range(40):
        for name, slow in (("mon", 20 * S), ("nurse", 0)):
            at = BASE + n * 10 * S
            said = {"kind": "sync", "offset": 0, "delay": 2 * MS, "ts": at, "arrival": at + MS}
            rows.append({"source": name, **said})
            rows.append({"source": name, "seq": n, "ts": at + S - slow, "arrival": at + S + 5 * MS})
    rows.sort(key=lambda row: int(row["arrival"]))
    trace, log = write(tmp_path / "in.jsonl", rows), tmp_path / "in.log"
    found = {each["name"]: each["lag_ns"] for each in sw.clocks(trace)}
    assert found["nurse"] == pytest.approx(4 * MS, abs=MS)
    assert found["mon"] == pytest.approx(20 * S, abs=10 * MS)
    reported = "all events of mon came 20 s or more after they can have happened: a slow clock"
    assert run(["clocks", str(trace), "--quiet"]) == 0
    assert reported in capsys.readouterr().out.lower()
    assert run(["log", "import", str(trace), "--out", str(log), "--quiet"]) == 0
    run(["validate", "--log", str(log), "--query", "EVENT SEQ(A a, B b) WITHIN 10 s", "--quiet"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "FIT WITH CARE" in shown
    assert reported in shown
    report = tmp_path / "report"
    ordering = ["order", "--input", str(trace), "--report", str(report), "--quiet"]
    assert run([*ordering, "--out", str(tmp_path / "o.jsonl")]) == 0
    assert reported.removeprefix("all ") in (report / "report.html").read_text()


def test_unknown_clocks_are_never_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, log = write(tmp_path / "in.jsonl", gateway(2500 * MS)), tmp_path / "in.log"
    assert run(["log", "import", str(trace), "--out", str(log), "--quiet"]) == 0
    capsys.readouterr()
    assert run(["validate", "--log", str(log), "--quiet"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("NOT FIT")
    assert "clocks are unknown" in shown
    (row,) = [line.split() for line in shown.splitlines() if line.startswith("d2") and "-2" in line]
    assert row[:3] == ["d2", "-2.48", "s"]
    assert "0 ms" not in " ".join(row), "a delay below 0 is not known to 0 ms"
