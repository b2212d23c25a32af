"""Every fault of a scenario file is reported with its line, and never by a traceback."""

from __future__ import annotations

import json
import re
import tomllib
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.scenarios.from_file import TEMPLATE, FromFile, schema
from slackwater.scenarios.from_file.perfect_world import PerfectWorld
from slackwater.scenarios.from_file.scoring import _of_stream
from slackwater.scenarios.network_correlation.agents import FILE as MACHINE_ROOM
from slackwater.scenarios.soccer.network import FILE as SOCCER
from slackwater.scenarios.warehouse.devices import FILE as COLD_STORE

LINES = TEMPLATE.read_text("utf-8").splitlines()
SETTING = re.compile(r"(?P<off># )?(?P<key>[\w.]+) = ")
SETTINGS = [number for number, line in enumerate(LINES) if SETTING.match(line)]
WRONG = (
    "-1", "0", "2.5", "true", "nan", "-inf", "1e400", "9223372036854775808", '""', '"x"',
    '"5 parsec"', '"-5 s"', '"99999999999 d"', '"5 s"', '"50 %"', "[]", "{}", "[[1]]", '[1, "a"]',
    '["a", "a"]', "[{}]", '{ model = "x" }', "{ model = [] }", "{ A = nan }", "07:32:00",
    '{ model = "uniform", low = "5 s", high = "1 s" }', '[{ at = "5 s", by = 1 }]',
)  # fmt: skip
SIGNS = ["", '"', "=", "[", "]", "{", "}", "#", ".", "-", "9", "é"]
NO_LINE = ("not TOML", "is missing", "no sources")
"""Mistakes that stand nowhere; a parser of TOML names its own lines."""


@st.composite
def damaged(draw: st.DrawFn) -> list[str]:
    """The template with one or two things wrong, or not so wrong."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 2))):
        how = draw(st.sampled_from(["value", "value", "key", "sign", "gone", "twice"]))
        number = draw(st.sampled_from(SETTINGS if how in ("value", "key") else range(len(LINES))))
        line = lines[number]
        found = SETTING.match(line)
        if how == "value" and found:
            lines[number] = f"{found['key']} = {draw(st.sampled_from(WRONG))}"
        elif how == "key" and found:
            more = draw(st.sampled_from(["x", ".y", "_ns"]))
            lines[number] = line.removeprefix("# ").replace(found["key"], found["key"] + more, 1)
        elif how == "sign" and line:
            at = draw(st.integers(0, len(line) - 1))
            lines[number] = line[:at] + draw(st.sampled_from(SIGNS)) + line[at + 1 :]
        elif how == "gone":
            lines[number] = ""
        else:
            lines[number] = f"{line}\n{draw(st.sampled_from(LINES))}"
    return lines


@given(damaged())
@settings(deadline=None)
def test_damage_is_reported_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.toml"
    path.write_text("\n".join(lines), "utf-8")
    try:
        FromFile(path)
    except UserError as error:
        message_text = str(error)
        assert message_text.startswith(f"{path}:"), message_text
        assert "\x00" not in message_text
        if not any(words in message_text for words in NO_LINE):
            line = message_text.removeprefix(f"{path}:").partition(":")[0]
            assert line.isdigit(), message_text
            assert 1 <= int(line) <= len("\n".join(lines).splitlines())


WHERE = [
    ("count = 3 ", "count = 0 ", "must lie in 1..10000"),
    ("[[sources]]", "[[sorces]]", 'did you mean "sources"?'),
    ("skew_ppm_spread =", "skew_pmm_spread =", 'did you mean "skew_ppm_spread"?'),
    ("[[machines]]", "[machines]", "write [[machines]]"),
    ('period = "500 ms"', 'period = "500"', "give a unit, as in 500 ms"),
    ('period = "500 ms"', "period = 500", 'give a unit, as in "500 ms"'),
    ('delay = "5 ms" ', "delay = 5 ", 'delay: 5: give a unit, as in "5 ms"'),
    ('duration = "2 min"', "duration = 120", "duration: 120: give a unit"),
    ("loss = 0.02", "loss = 1.5", "loss"),
    ('delay = "5 ms" ', 'delay = "5 sm" ', "unknown time unit 'sm'"),
    ("link.delay = ", "link.dealy = ", "link.dealy: unknown setting"),
    ('model = "periodic"', "model = []", "use one of periodic, poisson"),
    ('every = "300 ms"', 'every = "soon"', "machines"),
    ('  "missing <= 0.1 %"', '  "mising <= 0.1 %"', "thresholds"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), WHERE)
def test_the_line_is_the_wrong_one(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    at = next(number for number, line in enumerate(LINES) if line.startswith(right))
    lines = [*LINES[:at], LINES[at].replace(right, wrong), *LINES[at + 1 :]]
    path = tmp_path / "shop.toml"
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(UserError) as raised:
        FromFile(path)
    message_text = str(raised.value)
    assert message in message_text, message_text
    assert message_text.startswith(f"{path}:{at + 1}: "), message_text


SMALL, LARGE = 20_000, 80_000
BYTES_PER_EVENT_MAX = 120
"""Some ten columns of numbers; names as Python objects took 1,000."""


def written(folder: Path, events: int) -> Path:
    """A run's truth, and its ordered stream without the last event."""
    at = np.arange(events) * 1000
    source = pa.array([f"m-{n}" for n in range(5)] * (events // 5)).dictionary_encode()
    one = pa.array(["s"] * events).dictionary_encode()
    truth = {
        "site": one, "source": source, "stream": one, "seq": np.arange(events) // 5,
        "incarnation": np.zeros(events, np.int64), "true_ts": at, "ts": at + 7, "type": one,
    }  # fmt: skip
    (folder / "truth").mkdir(parents=True)
    pq.write_table(pa.table(truth), folder / "truth" / "events.parquet")
    clocks = {"true_ns": [0, 10**9], "engine_ns": [0, 10**9]}
    pq.write_table(pa.table(clocks), folder / "truth" / "clocks.parquet")
    ordered = folder / "runs" / "main" / "ordered"
    ordered.mkdir(parents=True)
    more = {"arrival": at, "ref": at, "release": at + 9, "status": np.zeros(events, np.int8)}
    table = pa.table(truth | more).slice(0, events - 1)
    pq.write_table(table, ordered / "batch-000000000000-0.parquet")
    (folder / "manifest.json").write_text(json.dumps({"rows": {"event": events - 1}}))
    return folder


def peak(work: Callable[[], object]) -> int:
    """Bytes of Python and NumPy at the most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_score_takes_few_bytes_an_event(tmp_path: Path) -> None:
    small, large = (written(tmp_path / str(many), many) for many in (SMALL, LARGE))
    for work in (
        lambda run: PerfectWorld.read(run, ()),
        lambda run: _of_stream(run, "main", LARGE),
    ):
        work(small)  # code is loaded
        grown = peak(lambda: work(large)) - peak(lambda: work(small))  # noqa: B023 - called here
        assert grown < BYTES_PER_EVENT_MAX * (LARGE - SMALL)


def test_what_is_scored_is_what_happened_and_what_came(tmp_path: Path) -> None:
    run = written(tmp_path, SMALL)
    world = PerfectWorld.read(run, ())
    assert len(world) == SMALL
    assert world.identity(7) == ("s", "m-2", "s", 1, 7007)
    found = _of_stream(run, "main", SMALL)
    assert found["missing"] == pytest.approx(1 / SMALL)
    assert (found["late"], found["disorder"], found["hold_p95"]) == (0.0, 0.0, 9.0)


KNOWN = schema()
TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
    "boolean": bool,
}  # fmt: skip
READ = {
    "type", "properties", "additionalProperties", "required", "items", "anyOf", "$ref", "const",
    "enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "description", "title", "$schema",
    "$defs",
}  # fmt: skip
"""Keywords that ``faults`` reads, or that say nothing of values."""


def faults(value: Any, asked: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Where ``value`` is not what a schema asks for."""
    assert set(asked) <= READ, sorted(set(asked) - READ)
    if "$ref" in asked:
        yield from faults(value, KNOWN["$defs"][asked["$ref"].rpartition("/")[2]], place)
    if "anyOf" in asked and all(list(faults(value, each, place)) for each in asked["anyOf"]):
        yield f"{place}: none of the kinds: {value!r}"
    if "const" in asked and value != asked["const"]:
        yield f"{place}: not {asked['const']!r}"
    if "enum" in asked and value not in asked["enum"]:
        yield f"{place}: none of {asked['enum']}"
    if "pattern" in asked and not re.search(asked["pattern"], str(value)):
        yield f"{place}: {value!r} is not {asked['pattern']}"
    names = asked.get("type", [])
    kinds = [TYPES[name] for name in ([names] if isinstance(names, str) else names)]
    if kinds and not any(isinstance(value, kind) for kind in kinds):
        yield f"{place}: {value!r} is not of type {names}"
        return
    if isinstance(value, (int, float)):
        low, high = asked.get("minimum", value), asked.get("maximum", value)
        if not low <= value <= high or value <= asked.get("exclusiveMinimum", value - 1):
            yield f"{place}: {value} is out of its range"
    if isinstance(value, list) and "items" in asked:
        for number, each in enumerate(value):
            yield from faults(each, asked["items"], f"{place}[{number}]")
    if isinstance(value, dict):
        known = asked.get("properties", {})
        yield from (f"{place}: no {key}" for key in asked.get("required", ()) if key not in value)
        for key, each in value.items():
            rest = asked.get("additionalProperties", True)
            if key in known or isinstance(rest, dict):
                yield from faults(each, known.get(key, rest), f"{place}.{key}")
            elif not rest:
                yield f"{place}: {key} is unknown"


@pytest.mark.parametrize(
    "path", [TEMPLATE, SOCCER, COLD_STORE, MACHINE_ROOM], ids=lambda path: path.name
)
def test_the_schema_takes_what_is_read(path: Path) -> None:
    assert list(faults(tomllib.loads(path.read_text("utf-8")), KNOWN)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('sensor = "reader"', "sensor = 3"), ('gap = "3200 ms"', "gap = 3200"),
        ("in_pairs = true", 'in_pairs = "yes"'), ("hysteresis = 0.3", "histeresis = 0.3"),
        ('bands = ["LOW", 4,', 'bands = [["LOW"], 4,'), ("seed = 1", "seed = -1"),
        ('{ model = "cold-store"', '{ model = "warm-store"'),
    ],
)  # fmt: skip
def test_the_schema_refuses_slips(old: str, new: str) -> None:
    text = COLD_STORE.read_text("utf-8")
    assert old in text
    assert list(faults(tomllib.loads(text.replace(old, new, 1)), KNOWN))
