"""Kinds of input are entry points: ours, those of other packages, and those that lack something."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from slackwater.edge_agent.inputs.registry import GROUP, OURS
from tests.inputs.outlet import a_named_input, an_input, mistake

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", OURS)
def test_our_kinds_can_be_loaded(name: str) -> None:
    assert callable(EntryPoint(name, OURS[name].maker, GROUP).load())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(OURS[name].extras) <= set(extras["optional-dependencies"])


def test_an_agent_with_our_kinds_looks_through_no_packages() -> None:
    code = (
        "import sys, slackwater.edge_agent.command as c; c.main(['check', '/dev/stdin']); "
        "sys.exit('importlib.metadata' in sys.modules)"
    )
    settings = '[[input]]\nkind = "stdin"\n'
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=settings,
        text=True,
        check=False,
        cwd=ROOT,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_package_adds_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "geiger.py").write_text(
        "from slackwater.edge_agent.inputs.replay import replay_input\n\n\n"
        "def geiger_input(table, around):\n    table.integer('tube', 1)\n"
        "    return replay_input(table, around)\n"
    )
    info = tmp_path / "geiger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: geiger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\ngeiger = geiger:geiger_input\n")
    monkeypatch.syspath_prepend(tmp_path)
    named = a_named_input({"kind": "geiger", "tube": 3, "file": "a.csv"}, {})
    assert named.name == "geiger"


def test_an_extra_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith("slackwater.edge_agent.inputs.mqtt")
    ]:
        monkeypatch.delitem(sys.modules, name)
    for name in ["paho", *(name for name in sys.modules if name.startswith("paho."))]:
        monkeypatch.setitem(sys.modules, name, None)
    assert mistake({"kind": "mqtt", "topics": ["a"]}, {}).endswith(
        "[input] kind: it needs paho: pip install 'slackwater[mqtt]'"
    )


def test_a_kind_that_cannot_be_used_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "slackwater.edge_agent.inputs.replay:no_such_thing", GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [broken])
    assert "slackwater.edge_agent.inputs.replay:no_such_thing cannot be used" in mistake(
        {"kind": "broken"}, {}
    )
    assert '"brokn" is not known; did you mean "broken"?' in mistake({"kind": "brokn"}, {})


def test_ours_count_before_others_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EntryPoint("replay", "geiger:geiger_input", GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [other])
    assert an_input({"kind": "replay", "file": "a.csv"}, {})


HL7, LLRP, MQTT, SOCCER = "hl7-mllp", "rfid-llrp", "mqtt", "soccer-udp"


@pytest.mark.parametrize(
    ("kind", "settings", "attrs", "message"),
    [
        (HL7, {}, {"patnt": "str"}, 'patnt is no field of a message; did you mean "patient"?'),
        (HL7, {"map": {"bed": "PV1-3"}}, {}, "stream events has no such attribute"),
        (HL7, {"zone": "Mars/Base"}, {}, 'zone: write "local", "+01:00" or'),
        (HL7, {"observation": "row"}, {}, '"row" is not known; known are type, attr'),
        (HL7, {"message_max": "1 GiB"}, {}, "must be at most 262144 B"),
        (HL7, {"prot": 1}, {}, 'prot: no such setting; did you mean "port"?'),
        (HL7, {"type": "A"}, {}, "type: no such setting"),
        (LLRP, {}, {}, "host: must be given"),
        (LLRP, {"host": "r"}, {"rsi": "int"}, 'did you mean "rssi"?'),
        (LLRP, {"host": "r"}, {"tag": "int"}, "attribute tag (int) is nothing that a reader says"),
        (LLRP, {"host": "r", "antennas": {"a": "X"}}, {}, "a: write the number of an antenna"),
        (LLRP, {"host": "r", "antennas": {"0": "X"}}, {}, "0: write the number of an antenna"),
        (LLRP, {"host": "r", "ghost_reads": 21}, {}, "write a whole number from 1 to 20"),
        (
            LLRP,
            {"host": "r", "clock": "wall"},
            {},
            '"wall" is not known; known are device, agent, arrival',
        ),
        (MQTT, {}, {}, "topics: must be given"),
        (MQTT, {"topics": []}, {}, "topics: write the topics to subscribe to"),
        (MQTT, {"topics": ["a"], "parts": ["lin"]}, {"line": "int"}, 'did you mean "line"?'),
        (MQTT, {"topics": ["a"], "value": "type"}, {}, '"type" is no field or attribute'),
        (MQTT, {"topics": ["a"], "password": "x", "password_file": "y"}, {}, "not both"),
        (MQTT, {"topics": ["a"], "keepalive": "1 ms"}, {}, "must be at least 1 s"),
        (MQTT, {"topics": ["a"], "reconnect": "2 s", "reconnect_max": "1 s"}, {}, "at least 2 s"),
        (MQTT, {"topics": ["a"], "tls": {"certificate": "a.pem"}}, {}, "key go together"),
        (SOCCER, {}, {"speed": "int"}, "attribute speed (int) is no value of a position"),
        (SOCCER, {}, {"ts": "int"}, "attribute ts (int) is no value"),
        (SOCCER, {"zero": "noon"}, {}, 'zero: write an instant as "2013-06-29T13:00:00Z"'),
        (SOCCER, {"types": {"4": 5}}, {}, "4: write a text in quotes"),
    ],
)
def test_mistakes_in_settings_are_reported(
    kind: str, settings: dict[str, Any], attrs: dict[str, str], message: str
) -> None:
    assert message in mistake({"kind": kind, **settings}, attrs)
