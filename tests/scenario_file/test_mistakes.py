"""Errors in a scenario file are reported with the line and the remedy."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from slackwater.edge_agent.settings_file import read_toml
from slackwater.engine.core.errors import UserError
from slackwater.scenarios.from_file import SCHEMA, TEMPLATE, FromFile, schema
from slackwater.simulator.emulator.settings import read_links_file

CHANGES = [
    ("seed = 1 ", "seed = -1 ", "seed: -1 is negative; give a whole number"),
    ('duration = "2 min"', 'duration = "2 parsec"', "unknown time unit 'parsec'"),
    ('duration = "2 min"', "", "duration is missing"),
    ("offset_spread =", "offset_sprea =", "clock.offset_sprea: unknown setting; known are offset"),
    ("skew_ppm_spread = 20", "skew_ppm_spread = 400000", "clock.skew_ppm: beyond 25 %"),
    ('delay = "5 ms" ', 'delay = "-5 ms" ', "link.delay: must not be negative"),
    ("loss = 0.02", "loss = 2", 'link.loss: expected a share from 0 to 1, as in 0.02 or "2 %"'),
    ("loss = 0.02", 'loss = "2"', "link.loss: expected a share from 0 to 1"),
    ("loss = 0.02", "lost = 0.02", "link.lost: unknown setting; known are delay"),
    ("jitter =", "jiter =", "link.jiter: unknown setting; known are"),
    ('jitter = "10 ms"', 'jitter = "-10 ms"', "link.jitter: must not be negative"),
    ('delay = "5 ms" ', 'delay = { model = "uniform", low = 0, high = "1 ms" }', "make it 0"),
    ('type = "EXIT"', 'type = ""', "states.exit.type: must have 1 to 200 characters"),
    ('key = "tag"', 'key = ""', "machines[0].key: must have 1 to 200 characters"),
    ('stream = "climate"', 'stream = ""', "workload.stream: must have 1 to 200 characters"),
    ('name = "exit"', 'name = "exit"\nsite = ""', "sources[2].site: must have 1 to 200"),
    ('stay = "1 s"', 'stay = "1 s"\nattrs.celsius = "hot"', "attribute 'celsius' is a number of"),
    (
        'stay = "1 s"',
        'stay = 0\nattrs.x = "hot"\n[machines.states.y]\nsource = "exit"\nstay = 0\nattrs.x = 1',
        "states.y.attrs.x: int, and str in the state exit; give both one kind",
    ),
    ("recall >= 0.99", "recall => 0.99", "unknown comparison '=>'; write \">=\""),
    ("recall >= 0.99", "recall != 0.99", "unknown comparison '!='; use one of < <= > >= ="),
    ("recall >= 0.99", "recall >= 99", "'99' is not from 0 to 1: recall is a share"),
    ("recall >= 0.99", "recall >= nan", "'nan' is not a number"),
    ("recall >= 0.99", "theft: missing <= 1 %", "missing is of all events, not of a query"),
    ("<= 3 s", "<= 1.2.3", "'1.2.3' is not a duration"),
    ("attrs.celsius =", "attrs.x = 99999999999999999999\nattrs.celsius =", "is beyond 64 bits"),
    ("count = 3", "count = 0", "sources[0].count: must lie in 1..10000"),
    ('name = "counter"', 'name = "shelf"', "two groups of sources are called 'shelf'"),
    ('name = "counter"', "", "sources[1]: name is missing"),
    ('model = "periodic"', 'model = "periodical"', "use one of periodic, poisson"),
    ("low = 18", "low = 99", "attrs.celsius.low: must not lie above high"),
    ('period = "500 ms"', 'period = "1 ns"', "sources: would make 120,000,000,000 events; at most"),
    ("[engine]", '[engine]\nclock = ["sharp"]', "engine.clock: --clock sharp: write exact"),
    ("[engine]", '[engine]\nclock = "exact"', "a list of texts, found 'exact'; write [\"exact\"]"),
    ("seed = 1 ", "gateway.frame_rows = 0\nseed = 1 ", "gateway.frame_rows: must be positive"),
    ("seed = 1 ", 'gateway.tick_every = "-1 ms"\nseed = 1 ', "tick_every: must not be negative"),
    ('every = "300 ms"', 'every = "0 ms"', "machines[0].every: must be positive"),
    ("exit = 0.1 }", "exitt = 0.1 }", "states.shelf.next: no state 'exitt'; there are shelf"),
    ("counter = 0.9", "counter = 0.95", "states.shelf.next: chances sum to more than 1"),
    ('source = "counter"', 'source = "desk"', "no source 'desk'; there are shelf, counter"),
    ('start = "shelf"', 'start = "door"', "machines[0].start: no state 'door'"),
    ("SEQ(SHELF s,", "SEQ(SHELF s s", "queries.theft: query line 1, column 19"),
    ("avg(celsius)", "avg(celsiu)", "queries.climate: query line 1, column 12: no event has an"),
    ("theft: wrong", "theft: wrongly", "unknown metric 'wrongly'; did you mean \"wrong\"?"),
    ("theft: wrong", "thief: wrong", "no query 'thief'; did you mean \"theft\"?"),
    ("recall >= 0.99", "recall is fine", 'write "[QUERY:] METRIC <= VALUE"'),
    ("<= 3 s", "<= 3", "thresholds[3]: '3': give a unit, as in 3 s"),
    ("<= 3 s", "<= 3 parsec", "unknown time unit 'parsec'"),
    ("<= 0.1 %", "<= many", "'many' is not a number"),
    ("[engine]", "[engin]", "engin: unknown setting; known are title"),
    ("[engine]", '[engine]\nanswers_after = "-1 ms"', "answers_after: must not be negative"),
    ('order = "sequence"', 'order = "seqence"', "engine.order: order 'seqence': unknown operator"),
    ('"bounded:1s"', '"bounded:soon"', "engine.barrier: "),
    ("count = 3", "cuont = 3", "cuont: unknown setting; known are name, count, workload"),
    ("[clock]", "[clock", "not TOML"),
    ('type = "TEMPERATURE"', "type = { A = -1 }", "type.A: expected a chance"),
    ("attrs.celsius", "attrs.celsius.x.y", "celsius"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), CHANGES)
def test_a_mistake_is_reported_with_its_line(
    tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    text = TEMPLATE.read_text("utf-8")
    assert right in text
    path = tmp_path / "shop.toml"
    path.write_text(text.replace(right, wrong, 1))
    with pytest.raises(UserError) as raised:
        FromFile(path).read_settings([])
    error_text = str(raised.value)
    assert message in error_text
    assert error_text.startswith(str(path))
    line = error_text.removeprefix(f"{path}:").partition(":")[0]
    if not any(absent in message for absent in ("not TOML", "is missing", "chances sum")):
        assert line.isdigit(), error_text


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("link.los=0.3", 'link.los=0.3: unknown setting; known are delay, .* mean "loss"'),
        ("sources.shelf.cuont=3", 'sources.shelf.cuont=3: unknown setting.* mean "count"'),
        ("sources.shelv.count=3", 'sources.shelv.count: none is named .* mean "shelf"'),
        ("lnk.loss=0.3", 'lnk.loss=0.3: lnk: unknown setting.* mean "link"'),
        ("link.reliable=no", "link.reliable=no: expected true or false, found 'no'"),
        ("link.delay.model=uniform", "link.delay.model: link.delay is '5 ms', which"),
        ('thresholds=["recal >= 0.9"]', r'thresholds: thresholds\[0\]: .* mean "recall"'),
        ("machines.books.name=", r"machines.books.name=: must have 1 to 200 characters"),
        ("sources=[]", "sources: there must be at least one"),
        ("queries.theft=EVENT", "queries.theft=EVENT: query line 1, column 6"),
        ("engine.order=seq", 'engine.order=seq: order .* mean "sequence"'),
        ('clock.steps=[{at="1 s"}]', r"clock.steps: clock.steps\[0\]: by is missing"),
    ],
)
def test_a_wrong_option_is_blamed_itself(tmp_path: Path, pair: str, said: str) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(TEMPLATE.read_text("utf-8"))
    with pytest.raises(UserError, match=f"^--set {said}"):
        FromFile(path).read_settings(["seed=2", pair])


@pytest.mark.parametrize(
    ("path", "value"),
    [("link.loss", "2 %"), ("machines.books.states.exit.seen", "99 %"), ("link.jitter", "0 s")],
)
def test_a_share_may_be_a_percentage(tmp_path: Path, path: str, value: str) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(TEMPLATE.read_text("utf-8"))
    assert FromFile(file).read_settings([f"{path}={value}"])[path] == value


@pytest.mark.parametrize(
    "pair", ["link", "=3", "link..delay=1ms", "seed.x=1", "sources.desk.count=2"]
)
def test_a_wrong_path_is_reported(tmp_path: Path, pair: str) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(TEMPLATE.read_text("utf-8"))
    with pytest.raises(UserError, match=r"--set|seed"):
        FromFile(path).read_settings([pair])


def test_a_mark_before_the_text_is_no_mistake(tmp_path: Path) -> None:
    """Windows' Notepad writes one; agents, emulators and scenarios read files of people alike."""
    path = tmp_path / "shop.toml"
    path.write_text(TEMPLATE.read_text("utf-8"), "utf-8-sig")
    assert FromFile(path).name == "shop"
    path.write_text('name = "door"\n', "utf-8-sig")
    assert read_toml(path).text("name") == "door"
    with pytest.raises(UserError) as error_text:
        read_links_file(path)
    assert "not TOML" not in str(error_text.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml: No such file"):
        FromFile(tmp_path / "none.toml")


def test_the_published_schema_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == schema()


def test_the_schema_knows_the_settings_that_are_read() -> None:
    known = schema()
    read = {
        "clock": ("offset", "offset_spread", "skew_ppm", "steps", "resolution"),
        "link": ("delay", "jitter", "loss", "reliable", "outages", "up", "down"),
        "source": ("name", "count", "workload", "recording", "clock", "link", "sync", "restarts"),
        "state": ("source", "type", "stay", "lasts", "seen", "next", "attrs"),
    }
    for table, keys in read.items():
        assert set(keys) <= set(known["$defs"][table]["properties"]), table
    for table in tomllib.loads(TEMPLATE.read_text("utf-8")):
        assert table in known["properties"], table


def test_what_the_schema_does_not_know_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    for table in schema()["properties"]:
        text = TEMPLATE.read_text("utf-8").replace(f"{table} =", f"{table}_ =", 1)
        text = text.replace(f"[{table}]", f"[{table}_]").replace(f"[[{table}]]", f"[[{table}_]]")
        path.write_text(text)
        if f"{table}_" in tomllib.loads(text):
            with pytest.raises(UserError, match=f"{table}_: unknown setting|no sources"):
                FromFile(path)
