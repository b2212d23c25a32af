"""``[[abstract]]`` in an agent's settings file: what is read, printed and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.edge_agent.drivers.agent_file import AgentSettings, read_agent
from slackwater.edge_agent.errors import SettingsError

HEAD = """
[agent]
source = "fridge"
[[stream]]
name = "climate"
attrs = { celsius = "float", shelf = "str" }
[[stream]]
name = "reads"
attrs = { tag = "str" }
[[input]]
kind = "stdin"
"""
BANDS = """
[[abstract]]
stream = "climate"
into = "intervals"
kind = "bands"
value = "celsius"
by = ["shelf"]
bands = ["LOW", 50, "MEDIUM", 100.5, "HIGH"]
hysteresis = 1
min = "2 s"
"""
STAY = """
[[abstract]]
stream = "reads"
into = "stays"
kind = "presence"
type = "STAY"
by = ["tag"]
gap = "3 s"
max = "1 h"
lag = "500 ms"
when_full = "drop-newest"
"""


def read(folder: Path, text: str) -> AgentSettings:
    path = folder / "agent.toml"
    path.write_text(text)
    return read_agent(path, lambda: 0, lambda: "device")


def test_settings_are_read_and_their_streams_are_made(tmp_path: Path) -> None:
    settings = read(tmp_path, HEAD + BANDS + STAY)
    bands, stay = settings.abstracts
    assert (bands.names, bands.edges) == (("LOW", "MEDIUM", "HIGH"), (50, 100.5))
    assert (bands.min_ns, bands.hysteresis, bands.keep, bands.begins) == (2 * 10**9, 1, False, True)
    assert (stay.gap_ns, stay.max_ns, stay.silence_ns) == (3 * 10**9, 3600 * 10**9, 3_500_000_000)
    assert {stream.name: dict(stream.attrs) for stream in settings.streams} == {
        "climate": {"celsius": "float", "shelf": "str"}, "reads": {"tag": "str"},
        "intervals": {"shelf": "str", "cut": "str", "readings": "int"},
        "stays": {"tag": "str", "cut": "str", "readings": "int"},
    }  # fmt: skip
    assert settings.when_full["stays"] == "drop-newest"


def test_what_is_printed_says_the_same(tmp_path: Path) -> None:
    settings = read(tmp_path, HEAD + BANDS + STAY)
    again = read(tmp_path, settings.printed)
    assert again.abstracts == settings.abstracts
    assert again.printed == settings.printed


def test_two_abstractions_may_write_into_one_stream(tmp_path: Path) -> None:
    other = BANDS.replace('"LOW", 50', '"COLD", 3')
    assert len(read(tmp_path, HEAD + BANDS + other).streams) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            BANDS.replace("hysteresis", "hysterese"),
            "[abstract] hysterese: no such setting; did you mean",
        ),
        (BANDS.replace('"climate"', '"climat"'), 'stream: "climat" is not known; did you mean'),
        (BANDS.replace('"bands"', '"band"'), 'kind: "band" is not known; did you mean "bands"?'),
        (BANDS.replace('into = "intervals"', 'into = "reads"'), "reads is a stream of readings"),
        (BANDS.replace("bands = [", 'bands = "LOW" #['), "bands: write a list, not 'LOW'"),
        (BANDS + STAY.replace('"stays"', '"intervals"'), "have other attributes: shelf"),
        (BANDS + BANDS, "write each [[abstract]] once"),
        (STAY + '[delivery]\nheartbeat_lag = "1 s"\n', "heartbeat_lag: must be at least 3500 ms"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as error:
        read(tmp_path, HEAD + text)
    assert said in str(error.value)
