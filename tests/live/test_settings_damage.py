"""Whatever is wrong in agent.toml or site.toml is told with file and line, never by a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_agent.drivers.agent_file import read_agent
from edge_agent.errors import SettingsError
from engine.errors import UserError
from engine.server.site_file import read_site
from tests.scenario_file.test_damage import SIGNS, WRONG

AGENT = """
[agent]
source = "door"
site = "main"
status = "status.json"
status_every = "5 s"
stop_timeout = "5 s"
[gateway]
host = "10.0.0.2"
port = 9750
ntp_port = 9751
drain_max = 100
[delivery]
connections = 2
heartbeat = "1 s"
heartbeat_lag = "2 min"
ack_timeout = "10 s"
ack_timeout_min = "1 s"
reconnect = "200 ms"
reconnect_max = "10 s"
unacked_max = "1 MiB"
pull_back = "1 MiB"
[sync]
attempts = 4
spacing = "20 ms"
resync = "30 s"
skew_error_ppb = 50_000
[time]
servers = ["ntp1", "[::1]:1123"]
gateway = true
[outbox]
folder = "outbox"
max = "64 MiB"
sync_every = "20 ms"
[clock]
ahead_ms = 3
fast_ppm = 2
[metrics]
listen = "127.0.0.1"
port = 9760
[[stream]]
name = "climate"
when_full = "drop-oldest"
[stream.attrs]
celsius = "float"
room = "str"
[[stream]]
name = "reads"
attrs = { tag = "str" }
[[stream]]
name = "ball"
attrs = { x = "int" }
[[abstract]]
stream = "climate"
into = "bands"
kind = "bands"
value = "celsius"
by = ["room"]
bands = ["LOW", 50, "HIGH"]
hysteresis = 0.5
gap = "1 min"
lag = "1 s"
[[input]]
kind = "stdin"
stream = "climate"
time_unit = "ms"
map = { ts = "when" }
[[input]]
kind = "exec"
command = ["./reader", "-v"]
stream = "reads"
restart = "always"
restart_wait = "1 s"
[[input]]
kind = "hl7-mllp"
stream = "climate"
port = 2575
zone = "+01:00"
connections = 3
message_max = "64 KiB"
map = { celsius = "OBX-5", room = "PV1-3.1" }
[[input]]
kind = "rfid-llrp"
stream = "reads"
host = "10.0.0.9"
keepalive = "5 s"
same_tag_within = "1 s"
ghost_reads = 2
[input.antennas]
1 = "IN"
2 = "OUT"
[[input]]
kind = "mqtt"
stream = "climate"
host = "10.0.0.5"
topics = ["a/+/b"]
keepalive = "60 s"
[[input]]
kind = "soccer-udp"
stream = "ball"
listen = "127.0.0.1"
port = 9777
[[input]]
kind = "replay"
file = "old.jsonl"
pace = 1.5
stream = "reads"
"""
SITE = """
[gateway]
log = "site.log"
listen = "0.0.0.0"
port = 9750
ntp_port = 9751
dead_letters = "refused.jsonl"
dead_letters_max = "1 MiB"
[tokens]
"main/door" = "secret"
lamp = "another"
[limits]
frame_every = "100 ms"
frame_rows = 4096
frame_bytes = "1 MiB"
tick_every = "100 ms"
connections_max = 100
[log]
compact = true
keep = "30 d"
keep_size = "1 GiB"
unread = "keep"
[page]
listen = "127.0.0.1"
port = 9790
metrics_sources_max = 10
[engine]
kind = "embedded"
order = "sequence:latency=500ms"
barrier = "immediate"
formats = ["jsonl", "parquet"]
parquet_every = "1 min"
save_every = "10 s"
certainty = "pairwise"
late = true
[[query]]
name = "theft"
text = "EVENT SEQ(SHELF s, EXIT e) WHERE s.tag = e.tag WITHIN 1 min"
[[query]]
text = "SELECT count(*) WINDOW TUMBLING 10 s"
"""
SETTING = re.compile(r'(?P<key>[\w."/]+) = ')
WHOLE = ("not TOML", "must be given", "there is none", "give ", "has no tokens")
"""Mistakes of what is not there, or of the file as a whole; a parser of TOML names its own line."""


def agent(path: Path) -> object:
    return read_agent(path, lambda: 0, lambda: "device-1")


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "agent.toml": (AGENT, agent), "site.toml": (SITE, read_site),
}  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str]:
    """Which file, and its text with one or two things wrong, or not so wrong."""
    name = draw(st.sampled_from(sorted(READERS)))
    lines = READERS[name][0].splitlines()
    kept = list(lines)
    numbers = [number for number, line in enumerate(lines) if SETTING.match(line)]
    for _ in range(draw(st.integers(1, 2))):
        how = draw(st.sampled_from(["value", "value", "key", "sign", "gone", "twice", "table"]))
        number = draw(st.sampled_from(numbers if how in ("value", "key") else range(len(lines))))
        line = lines[number]
        found = SETTING.match(line)
        if how == "value" and found:
            lines[number] = f"{found['key']} = {draw(st.sampled_from(WRONG))}"
        elif how == "key" and found:
            lines[number] = line.replace(found["key"], found["key"].strip('"/') + "x", 1)
        elif how == "sign" and line:
            at = draw(st.integers(0, len(line) - 1))
            lines[number] = line[:at] + draw(st.sampled_from(SIGNS)) + line[at + 1 :]
        elif how == "gone":
            lines[number] = ""
        elif how == "table":
            lines[number] = f"{line}\n[{draw(st.sampled_from(['agent', 'gateway', 'x', 'log']))}]"
        else:
            lines[number] = f"{line}\n{draw(st.sampled_from(kept))}"
    return name, "\n".join(lines)


@given(damaged())
@settings(deadline=None)
@example(("agent.toml", "a = " + "[" * 5_000))
@example(("agent.toml", "a = " + "9" * 5_000))
@example(("site.toml", "a = " + "{ a = " * 2_000))
@example(("site.toml", "[gateway]\nlog = 'a\rb'"))
def test_damage_is_told_with_its_file_and_line(
    tmp_path_factory: pytest.TempPathFactory, given: tuple[str, str]
) -> None:
    name, text = given
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(text.encode())
    try:
        READERS[name][1](path)
    except (SettingsError, UserError) as error:
        told = str(error)
        assert told.startswith(f"{path}:"), told
        assert "\x00" not in told
        line = told.removeprefix(f"{path}:").partition(":")[0]
        if line.isdigit():
            assert 1 <= int(line) <= len(text.splitlines())
        else:
            assert any(words in told for words in WHOLE), told


@pytest.mark.parametrize("name", sorted(READERS))
def test_both_are_right_as_they_are(tmp_path: Path, name: str) -> None:
    text, read = READERS[name]
    (tmp_path / name).write_text(text)
    read(tmp_path / name)


PLACES: Sequence[tuple[str, str, str, str]] = [
    ("agent.toml", 'host = "10.0.0.2"', "host = 3", "[gateway] host: write a text"),
    ("agent.toml", 'resync = "30 s"', "resync = 30", '[sync] resync: write a duration as "200 ms"'),
    ("agent.toml", 'celsius = "float"', 'celsius = "flaot"', '[stream.attrs] celsius: "flaot"'),
    ("agent.toml", 'command = ["./reader", "-v"]', 'comand = ["./r"]', "[input] command: must be"),
    ("agent.toml", "ghost_reads = 2", "ghost_raeds = 2", "[input] ghost_raeds: no such setting"),
    ("agent.toml", 'into = "bands"', "", "[abstract] into: must be given"),
    ("site.toml", 'log = "site.log"', "", "[gateway] log: must be given"),
    ("site.toml", 'lamp = "another"', 'lamp = ""', "[tokens] lamp: an empty token"),
    ("site.toml", "frame_rows = 4096", "frame_rows = 0", "[limits] frame_rows: write a whole"),
    ("site.toml", "late = true", "late = 1", "[engine] late: write true or false"),
]


@pytest.mark.parametrize(("name", "right", "wrong", "message"), PLACES)
def test_the_line_is_the_wrong_one_or_its_table_s(
    tmp_path: Path, name: str, right: str, wrong: str, message: str
) -> None:
    text, read = READERS[name]
    path = tmp_path / name
    path.write_text(text.replace(right, wrong, 1))
    with pytest.raises((SettingsError, UserError)) as raised:
        read(path)
    told = str(raised.value)
    lines = text.splitlines()
    at = lines.index(right) + 1
    if "must be" in message:  # the table's
        at = next(n for n in range(at, 0, -1) if lines[n - 1].startswith("["))
    assert told.startswith(f"{path}:{at}: {message}"), told
