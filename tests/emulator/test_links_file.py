"""The settings of ``slackwater emulate``: what is read, and what a mistake is told like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.cli.app import run
from engine.errors import UserError
from simulator.emulator.settings import read_emulation, read_links_file
from simulator.links import LinkSettings, Outage

SAMPLE = Path(__file__).resolve().parents[2] / "docs" / "samples" / "links.toml"
MS = 1_000_000


def test_the_sample_is_read() -> None:
    emulation = read_links_file(SAMPLE)
    up, down = (settings for *_, settings in emulation.links[0].ways)
    assert (up.fifo, up.loss.mean, up.queue_bytes) == (False, 0.02, 64_000)
    assert up.outages == (Outage(10_000 * MS, 2_000 * MS, 60_000 * MS),)
    assert down == LinkSettings(delay=down.delay)
    assert emulation.addresses == {"device": "10.203.0.1", "gateway": "10.203.0.2"}


def test_without_down_both_directions_are_alike_and_draw_apart() -> None:
    link = read_emulation({"links": [{"between": ["a", "b"], "up": {"loss": 0.1}}]}).links[0]
    (_, _, up, there), (_, _, down, back) = link.ways
    assert there == back
    assert (up, down) == ("link/a-b/up", "link/a-b/down")


def between(*names: Any) -> dict[str, Any]:
    return {"between": list(names)}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "links: links is missing"),
        ({"links": []}, "links.links: there must be at least one"),
        ({"links": [{}]}, "links.links[0]: between is missing"),
        ({"links": [between("a")]}, "between: name two namespaces"),
        ({"links": [between("a", "a")]}, "a link needs two different ends"),
        ({"links": [between("a", "b/..")]}, "'b/..' is no name of a namespace"),
        ({"links": [between("a", "lo")]}, "'lo' is no name of a namespace"),
        ({"links": [between("a", "b" * 16)]}, "is no name of a namespace"),
        ({"links": [between("a", "b"), between("b", "a")]}, "there are two between a and b"),
        ({"links": [between("a", "b") | {"up": {"reliable": True}}]}, "up.reliable: leave it out"),
        ({"links": [between("a", "b") | {"up": {"lost": 0.1}}]}, "up.lost: unknown setting"),
        ({"links": [between("a", "b") | {"mtu": 100}]}, "mtu: must lie in 576..65535"),
        ({"links": [between("a", "b")], "prefix": "../"}, "prefix: write 1 to 32"),
        ({"links": [between("a", "b")], "network": "10.0.0.0/31"}, "no room for 2 namespaces"),
        ({"links": [between("a", "b")], "network": "ten"}, "network: "),
        ({"links": [between("a", "b")], "seed": -1}, "seed: must not be negative"),
    ],
)
def test_a_mistake_is_told_with_its_place(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as caught:
        read_emulation(given)
    assert told in str(caught.value)
    assert str(caught.value).startswith("links")


def test_check_needs_no_root_and_prints_what_is_in_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["emulate", str(SAMPLE), "--check"]) == 0
    printed = capsys.readouterr().out
    assert "slackwater-gateway  10.203.0.2" in printed
    assert "gateway -> device: delay = Constant(delay_ns=5000000)" in printed


def test_files_that_cannot_be_read_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing, wrong = tmp_path / "no.toml", tmp_path / "wrong.toml"
    wrong.write_text("links = [")
    assert [run(["emulate", str(each)]) for each in (missing, wrong)] == [2, 2]
    said = capsys.readouterr().err
    assert f"{missing}: No such file or directory" in said
    assert f"{wrong}: not TOML" in said


def test_without_root_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert run(["emulate", str(SAMPLE)]) == 2
    assert "must be run as root: sudo slackwater emulate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--in", "device"], "--in needs a command"),
        (["--in", "lamp", "--", "true"], "--in lamp: no such namespace in the settings"),
    ],
)
def test_a_namespace_to_run_in_must_be_there_and_needs_a_command(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["emulate", str(SAMPLE), *words]) == 2
    assert told in capsys.readouterr().err
