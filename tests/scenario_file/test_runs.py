"""Scenario files run: what their metrics are in worlds whose answer is known."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.engine.cli.app import run as command
from slackwater.scenarios.from_file import FromFile

BASE = """
duration = "20 s"
thresholds = ["recall >= 99 %", "precision >= 99 %", "uncertain <= 0", "missing <= 0",
              "detection_delay_max <= 100 ms"]
[[sources]]
name = "door"
count = 2
[[machines]]
name = "visitors"
key = "who"
every = "500 ms"
start = "in"
[machines.states.in]
source = "door"
type = "ENTRY"
stay = { model = "uniform", low = "1 s", high = "4 s" }
next = { out = 0.8 }
[machines.states.out]
source = "door"
type = "EXIT"
stay = "0 s"
[queries]
stays = "EVENT SEQ(ENTRY i, EXIT o) WHERE i.who = o.who WITHIN 1 min"
counts = "SELECT count(*) FROM visitors WINDOW TUMBLING 5 s"
[engine]
order = "none"
"""


def ran(path: Path, text: str, **settings: object) -> Any:
    path.write_text(text)
    return slackwater.run(FromFile(path), settings)


def metrics(of: Any) -> dict[str, dict[str, float]]:
    return dict(of.score.facts["metrics"])


def test_a_perfect_world_is_answered_perfectly(tmp_path: Path) -> None:
    with ran(tmp_path / "perfect.toml", BASE) as done:
        assert [claim.text for claim in done.score.claims if not claim.holds] == [
            "counts: detection_delay_max <= 100 ms"  # a window waits for the next event
        ]
        found = metrics(done)
        assert found["stays"]["results"] == done.score.facts["true_results"]["stays"] > 10
        assert found["events"]["events"] > 30
        assert found["events"]["disorder"] == 0
        # An event waits for its poll, 20 ms at most; the link takes nothing.
        assert 0 < found["stays"]["detection_delay_max"] <= 20e6


def test_what_is_known_of_clocks_without_a_sync_is_said(tmp_path: Path) -> None:
    """As ``--clock`` says it: no answer to a question of time comes within a second."""
    uncertain = {}
    for clock in ('["exact"]', "[]", '["door-1=0s±3s"]'):
        text = f"{BASE}clock = {clock}\n"
        how = r"nothing is known of the clocks of door-1, door-2.*say .engine. clock = ..exact"
        warned = pytest.warns(UserWarning, match=how) if clock == "[]" else nullcontext()
        with warned, ran(tmp_path / "slow.toml", text, **{"link.delay": "2 s"}) as done:
            uncertain[clock] = metrics(done)["stays"]["uncertain"]
            assert metrics(done)["stays"]["recall"] == 1.0
            found = {each["certainty"] for each in done.results if each["query"] == "stays"}
            assert ("unknown" in found) == (clock == "[]")
    assert uncertain['["exact"]'] == 0
    assert uncertain["[]"] > 0.2
    assert 0 < uncertain['["door-1=0s±3s"]'] < uncertain["[]"]


def test_a_query_for_what_never_happens_says_so(tmp_path: Path) -> None:
    with ran(tmp_path / "typo.toml", BASE.replace("SEQ(ENTRY i", "SEQ(ENTYR i")) as done:
        said = {claim.text: claim.detail for claim in done.score.claims}
    assert said["stays: recall >= 99 %"].startswith("it is 100 %; no true result and no final one")
    assert said["counts: recall >= 99 %"] == "it is 100 %"


def test_what_is_lost_is_missing(tmp_path: Path) -> None:
    lossy = BASE + "[link]\nloss = 0.3\nreliable = false\n"
    lossy = lossy.replace("count = 2", "count = 2\nresend = false")
    with ran(tmp_path / "lossy.toml", lossy) as done:
        found = metrics(done)
        sources = done.manifest["events_by_source"].values()
        gone = sum(each.get("link_lost", 0) for each in sources)
        assert 0.15 < found["events"]["missing"] < 0.45, (gone, found["events"])
        assert found["stays"]["recall"] < 0.8
        assert found["stays"]["precision"] == 1.0
        assert not all(claim.holds for claim in done.score.claims)


@pytest.mark.slow
def test_a_lopsided_link_leaves_clocks_in_doubt(tmp_path: Path) -> None:
    wrong = BASE + '[clock]\noffset_spread = "30 s"\n'
    with ran(tmp_path / "wrong.toml", wrong) as even:
        assert metrics(even)["stays"] | {"uncertain": 0.0, "recall": 1.0} == metrics(even)["stays"]
    short = wrong.replace('low = "1 s"', 'low = "100 ms"')
    with ran(tmp_path / "lopsided.toml", short + '[link.up]\ndelay = "900 ms"\n') as lopsided:
        found = metrics(lopsided)["stays"]
        assert found["uncertain"] > 0.01
        assert found["recall"] == 1.0, "what may be true is emitted"
        assert found["wrong"] == 0.0


def test_a_run_in_which_nothing_happens_says_so(tmp_path: Path) -> None:
    with pytest.raises(slackwater.UserError, match=r"idle.toml: nothing happens in its duration"):
        ran(tmp_path / "idle.toml", BASE, duration="1 us")


@pytest.mark.slow
def test_the_same_file_gives_the_same_run(tmp_path: Path) -> None:
    hashes = set()
    for seed in (1, 1, 2):
        with ran(tmp_path / "same.toml", BASE, seed=seed) as done:
            hashes.add(done.manifest["log_sha256"])
    assert len(hashes) == 2


@pytest.mark.slow
def test_settings_are_set_by_path(tmp_path: Path) -> None:
    settings = {"sources.door.count": 5, "link.delay": "50 ms", "machines.visitors.key": "tag"}
    text = BASE.replace("i.who = o.who", "i.tag = o.tag")
    with pytest.raises(slackwater.UserError, match=r"set.toml:\d+"):
        ran(tmp_path / "set.toml", text + "[link]\ndelays = 3\n")
    with ran(tmp_path / "set.toml", text, **settings) as done:
        assert len(done.manifest["sources"]) == 5
        assert metrics(done)["stays"]["recall"] == 1.0
        assert metrics(done)["stays"]["detection_delay_p50"] >= 50e6


def test_thresholds_decide_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(BASE.replace('"detection_', '"stays: detection_'))
    quiet = ["run", "mine.toml", "--in-process", "--quiet", "--overwrite"]
    assert command(quiet) == 0
    assert json.loads(Path("out/mine/report.json").read_text())["verdict"]["holds"]
    assert command([*quiet, "--set", "link.delay=200ms"]) == 1
    assert command([*quiet, "--set", "link.delay=-1ms"]) == 2


def test_a_recording_is_replayed_through_clocks_and_links(tmp_path: Path) -> None:
    rows = [
        (f"r{n % 2}", 1000 + 10 * n, "ENTRY" if n % 3 else "EXIT", n % 4, n / 2) for n in range(300)
    ]
    table = "reader,time,type,who,level\n" + "".join(
        f"{reader},{ts},{kind},{who},{level}\n" for reader, ts, kind, who, level in rows
    )
    (tmp_path / "reads.csv").write_text(table)
    text = """
    title = "What if our readers were on Wi-Fi?"
    thresholds = ["recall >= 95 %", "missing <= 0"]
    [clock]
    offset_spread = "2 s"
    [link]
    delay = "1 ms"
    jitter = "1 ms"
    [[sources]]
    recording.file = "reads.csv"
    recording.time_unit = "ms"
    recording.mapping = { ts = "time", source = "reader" }
    [queries]
    pairs = "EVENT SEQ(ENTRY i, EXIT o) WHERE i.who = o.who WITHIN 50 ms"
    level = "SELECT avg(level) FROM events WINDOW TUMBLING 1 s"
    """
    with ran(tmp_path / "replay.toml", text) as done:
        assert set(done.manifest["sources"]) == {"main/r0", "main/r1"}
        assert metrics(done)["events"]["events"] == 300
        expected = sum(
            a[2] == "ENTRY" and b[2] == "EXIT" and a[3] == b[3] and 0 < b[1] - a[1] <= 50
            for a in rows
            for b in rows
        )
        assert done.score.facts["true_results"]["pairs"] == expected > 0
        assert metrics(done)["pairs"]["recall"] == 1.0
    part = text.replace("[queries]", 'recording.only = ["r1"]\nrecording.speed = 2\n[queries]')
    with ran(tmp_path / "part.toml", part) as done:
        assert set(done.manifest["sources"]) == {"main/r1"}
        assert metrics(done)["events"]["events"] == 150


def test_a_link_slower_than_a_handshake_is_waited_for(tmp_path: Path) -> None:
    with ran(tmp_path / "slow.toml", BASE, **{"link.delay": "2 s"}) as done:
        found = metrics(done)
        assert found["events"]["missing"] == 0
        assert found["stays"]["recall"] == 1
        assert found["stays"]["detection_delay_max"] >= 2e9


@pytest.mark.slow
def test_sources_of_which_nothing_comes_have_a_verdict(tmp_path: Path) -> None:
    """Of one kind of sources, then of all: what they alone know is asked for all the same."""
    mute = (
        '[[sources]]\nname = "lamp"\nlink.loss = 1.0\n[sources.workload]\nmodel = "periodic"\n'
        'period = "1 s"\nstream = "light"\nattrs.lux = 3\n'
    )
    asked = '[queries]\nlux = "SELECT avg(lux) FROM light WINDOW TUMBLING 5 s"\n'
    text = BASE.replace("[[machines]]", mute + "[[machines]]").replace("[queries]\n", asked)
    with ran(tmp_path / "mute.toml", text) as done:
        found = metrics(done)
        assert found["lux"]["recall"] == 0
        assert found["stays"]["recall"] == 1
    with ran(tmp_path / "dead.toml", text, **{"link.loss": 1.0}) as done:
        found = metrics(done)
        assert found["events"]["missing"] == 1
        assert [found[name]["recall"] for name in ("stays", "counts", "lux")] == [0, 0, 0]
        assert done.score.facts["true_results"]["stays"] > 10
        assert not any(claim.holds for claim in done.score.claims if "recall" in claim.text)


def test_an_event_that_happens_too_seldom_for_the_run(tmp_path: Path) -> None:
    text = BASE.replace("[machines.states.in]", "[machines.states.in]\nattrs.badge = 5").replace(
        "i.who = o.who", "i.badge = 5 AND i.who = o.who"
    )
    often = '[sources.workload]\nmodel = "periodic"\nperiod = "1 s"\nstream = "beat"\n[[machines]]'
    text = text.replace("[[machines]]", often).replace('"500 ms"', '"1 d"')
    with ran(tmp_path / "seldom.toml", text) as done:
        assert done.score.facts["true_results"]["stays"] == 0
