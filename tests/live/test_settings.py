"""Settings of agents and gateways: what is read, and mistakes with file, line and remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.edge_agent.drivers.agent_file import AgentSettings, read_agent
from slackwater.edge_agent.drivers.session_driver import GatewayAddress
from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.settings_file import quantity, shown_ns
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import parse_duration
from slackwater.engine.gateway.settings import GatewaySettings
from slackwater.engine.hosts.live.program import Task
from slackwater.engine.log.retention import Limits
from slackwater.engine.query import query, to_text
from slackwater.engine.server.log_keeper import KeepSettings
from slackwater.engine.server.site_file import read_site
from tests.scenario_file.test_damage import SIGNS, WRONG

INPUT = '[[input]]\nkind = "stdin"\n'
ASKED = "[gateway]\nlog = 'a'\n[[query]]\n"
COUNT = "text = 'SELECT count(*) FROM events WINDOW TUMBLING 1 s'\n"


def an_agent(folder: Path, text: str) -> AgentSettings:
    path = folder / "agent.toml"
    path.write_text(text)
    return agent(path)


def test_an_agent_of_few_words_has_defaults(tmp_path: Path) -> None:
    found = an_agent(tmp_path, INPUT)
    assert (found.session.site, found.session.source) == ("main", "device-1")
    assert found.gateways == (GatewayAddress("127.0.0.1", 9750, 9750),)
    assert found.streams == (StreamSchema("events"),)
    assert found.session.heartbeat_ns == 0  # nobody said how late events are read


def test_who_says_how_late_events_are_read_may_promise(tmp_path: Path) -> None:
    found = an_agent(tmp_path, INPUT + '[delivery]\nheartbeat_lag = "2 s"\n')
    assert (found.session.heartbeat_ns, found.session.heartbeat_lag_ns) == (10**9, 2 * 10**9)


def test_standard_time_servers_are_asked_after_the_gateway(tmp_path: Path) -> None:
    found = an_agent(tmp_path, INPUT + "[time]\nservers = ['ntp1', '[::1]:1123', '10.0.0.1:99']\n")
    assert found.time_servers == (("ntp1", 123), ("::1", 1123), ("10.0.0.1", 99))
    assert found.session.time_places == (0, 1, 2, 3)
    only = an_agent(tmp_path, INPUT + "[time]\nservers = ['ntp1']\ngateway = false\n")
    assert only.session.time_places == (1,)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("[agnt]\n" + INPUT, 'agent.toml:1: agnt: no such setting; did you mean "agent"?'),
        ("", "agent.toml: input: there is none: write [[input]] with its kind"),
        ("[[input]]\n", "[input] kind: must be given"),
        ("[[input]]\nkind = 'sdtin'\n", '"sdtin" is not known; did you mean "stdin"?'),
        ("[[input]]\nkind = 'exec'\ncommand = 'ls'\n", "command: write a list of texts"),
        ("[gateway]\nport = 70000\n" + INPUT, "port: write a whole number from 1 to 65535"),
        ("[gateway]\nport = true\n" + INPUT, "port: write a whole number"),
        ("[delivery]\nreconnect = '5 parsecs'\n" + INPUT, "is not a duration"),
        ("[delivery]\nreconnect = '11 s'\n" + INPUT, "reconnect_max must not be below reconnect"),
        ("[[stream]]\nname = 'a'\nattrs = {v = 'number'}\n" + INPUT, '"number" is not known'),
        ("[[stream]]\nname = 'a'\n[[stream]]\nname = 'a'\n" + INPUT, "of different names"),
        ("[gateway]\ndrain_max = 5\n" + INPUT, "[gateway] drain_max: needs an outbox"),
        ("[time]\nservers = ['a b']\n" + INPUT, "[time] servers: 'a b' is no server"),
        ("[time]\nservers = ['a:0']\n" + INPUT, "[time] servers: 'a:0' is no server"),
        ("[time]\nservers = ['a:99999']\n" + INPUT, "'a:99999' is no server"),
        ("[time]\ngateway = false\n" + INPUT, "servers: must be given: the gateway is not"),
        ("[tls]\ncertificate = 'a.pem'\n" + INPUT, "certificate and key go together"),
        ("[tls]\nauthorities = 'a.pem'\n" + INPUT, "[tls] on: write true"),
        ("[tls]\non = true\nauthorities = 'a.pem'\n" + INPUT, "toml:3: [tls] authorities: "),
        (
            "[[input]]\nkind = 'mqtt'\ntls = {on = true, authorities = 'a.pem'}\n",
            "agent.toml:3: [input.tls] authorities: ",
        ),
        ("[gateway]\nhost = 'a..b'\n" + INPUT, "toml:2: [gateway] host: 'a..b' is no name of a"),
        ("[gateway]\nhosts = ['.local:1']\n" + INPUT, "toml:2: [gateway] hosts: '.local' is no"),
        (f"[time]\nservers = ['{'x' * 64}.org']\n" + INPUT, "toml:2: [time] servers: 'xxx"),
        ("[metrics]\nlisten = 'a..b'\n" + INPUT, "toml:2: [metrics] listen: 'a..b' is no name"),
        ("[[input]]\nkind = 'soccer-udp'\nlisten = 'a..b'\n", "toml:3: [input] listen: 'a..b' is"),
        ("[time]\nservers = 3\n" + INPUT, "toml:2: [time] servers: write a list"),
        (f"[agent]\nsource = '{'x' * 300}'\n" + INPUT, "toml:2: [agent] source: a name has"),
        ('[agent]\nstatus = "a\\u0000"\n' + INPUT, "toml:2: [agent] status: has a character NUL"),
        ('[[input]]\nkind = "exec"\ncommand = ["\\u0000"]\n', "toml:3: [input] command: has a"),
        ("[agent]\ntoken_file = 'gone'\n" + INPUT, "token_file"),
        ("[agent\n", "agent.toml: not TOML"),
        ("agent = 3\n" + INPUT, "agent: write a table, [agent]"),
        ("input = 3\n", "input: write tables, [[input]]"),
    ],
)
def test_a_mistake_of_an_agent_is_reported(text: str, reported: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        an_agent(tmp_path, text)
    assert reported in str(error.value)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("[gateway]\nlog = 'a'\nlisten = '0.0.0.0'\n", "has no tokens, so anyone could write"),
        ("[gateway]\nlog = 'a'\n[tokens]\n'/x' = 'a'\n", 'write "SITE/SOURCE" = "TOKEN"'),
        ("[gateway]\nlog = 'a'\n[log]\nkeep = '30 s'\n", "[log] keep: must be at least 1 min"),
        ("[gateway]\nlog = 'a'\n[log]\nkeep_size = '1 KiB'\n", "must be at least 1 MiB"),
        ("[gateway]\nlog = 'a'\n[log]\nunread = 'drop'\n", '"drop" is not known'),
        ("[gateway]\nlog = 'a'\n[answers]\nkeep = '1 s'\n", "[answers] keep: must be at least 1"),
        ("[gateway]\nlog = 'a'\n[seq_bits]\nx = 12\n", "a counter has 8, 16, 32 bits"),
        ("[gateway]\nlog = 'a'\n[tls]\nkey = 'x'\n", "certificate: must be given with TLS"),
        ("[gateway]\nlog = 'a'\nlisten = 'a..b'\n", "site.toml:3: [gateway] listen: 'a..b' is no"),
        (ASKED + "file = 'gone'\n", "site.toml:4: [query] file: "),
        (ASKED + COUNT + "[[table]]\nname = 'a'\npath = 'gone.csv'\n", "toml:7: [table] path: "),
        (ASKED + COUNT + f"[[table]]\nname = 'a'\npath = '{'a' * 300}'\n", "File name too long"),
        (ASKED + COUNT + "[engine]\nguard = 'x'\n", "site.toml:6: [engine] guard: "),
        (ASKED + COUNT + "[engine]\nclock = ['a']\n", "site.toml:6: [engine] clock: "),
        (ASKED + COUNT + "[engine]\nspill = 'state'\n", "site.toml:4: [query] text: "),
    ],
)
def test_a_mistake_of_a_site_is_reported(text: str, reported: str, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(UserError) as error:
        read_site(tmp_path / "site.toml")
    assert reported in str(error.value)


def test_a_site_of_few_words_has_the_core_s_defaults(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        "[gateway]\nlog = 'a'\n[tokens]\nx = '1'\n'b/y' = '2'\n[seq_bits]\ntags = 8\n"
    )
    found = read_site(tmp_path / "site.toml")
    tokens = {("main", "x"): "1", ("b", "y"): "2"}
    assert found.gateway == GatewaySettings(tokens=tokens, seq_bits={"tags": 8})
    assert found.keep == KeepSettings()
    assert (found.log, found.port) == (tmp_path / "a", 9750)
    assert "'1'" not in found.printed
    assert '"1"' not in found.printed


def test_a_site_says_what_its_log_and_its_answers_keep(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        ASKED + COUNT + "[log]\ncompact = false\nkeep = '30 d'\nkeep_size = '5 GiB'\n"
        "unread = 'delete'\n[answers]\nkeep = '2 d'\nkeep_size = '1 GiB'\n"
        "[[sink]]\nkind = 'exec'\ncommand = ['cat']\nbegin = 'now'\n"
    )
    limits = Limits(age_ns=30 * 86400 * 10**9, bytes=5 << 30, unread=True)
    found = read_site(tmp_path / "site.toml")
    assert found.keep == KeepSettings(compact=False, limits=limits)
    assert found.engine is not None
    task = found.engine
    assert task.keep == Limits(age_ns=2 * 86400 * 10**9, bytes=1 << 30)
    assert found.sinks is not None
    assert found.sinks.follows == {"exec": ("q1",)}
    assert [(sink.kind, sink.begins_now) for sink in found.sinks.sinks()] == [("exec", True)]
    assert Task.of_line(task.as_line()) == task


def test_printed_settings_are_settings(tmp_path: Path) -> None:
    text = (
        '[agent]\nsite = "a \\"b\\""\n'
        '[delivery]\nheartbeat_lag = "1500 us"\nunacked_max = "1 MiB"\n'
        "[[stream]]\nname = 'one'\nattrs = {v = 'int'}\n[[stream]]\nname = 'two'\n"
        "[[input]]\nkind = 'exec'\ncommand = ['a', 'b c']\nmap = {ts = 'when'}\n" + INPUT
    )
    first = an_agent(tmp_path, text)
    again = an_agent(tmp_path, first.printed)
    assert again.printed == first.printed
    assert (again.session, again.streams) == (first.session, first.streams)


@given(st.integers(0, 2**60))
def test_a_duration_is_shown_as_it_is_read(ns: int) -> None:
    assert quantity(shown_ns(ns), NS_PER, "a duration") == ns


def test_durations_are_written_as_in_queries() -> None:
    for text in ("90 s", "1.5min", "1.5 Minutes", "90 seconds"):
        assert quantity(text, NS_PER, "a duration") == parse_duration(text) == 90 * NS_PER["s"]
    for text in ("2 weeks", "2w", "2 Week", "14 d"):
        assert quantity(text, NS_PER, "a duration") == parse_duration(text) == 14 * NS_PER["d"]
        plan = query(f"EVENT SEQ(A a, B b) WITHIN {text}")
        assert to_text(plan).endswith("WITHIN 14 d")


@pytest.mark.parametrize("unit", ["month", "years", "Quarter", "workdays"])
def test_a_unit_of_no_fixed_length_is_refused_with_what_to_write(unit: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: parse_duration(f"2 {unit}"),
        lambda: query(f"EVENT SEQ(A a, B b) WHERE b.ts - a.ts < 2 {unit} WITHIN 5 s"),
        lambda: query(f"SELECT count(*) WINDOW SESSION 2 {unit}"),
        lambda: query(f"SELECT count(*) WINDOW SLIDING 2 {unit} EVERY 1 d"),
        lambda: quantity(f"2 {unit}", NS_PER, "a duration"),
    ]
    if unit != "workdays":
        calls.append(lambda: query(f"EVENT SEQ(A a, B b) WITHIN 2 {unit}"))
    for call in calls:
        with pytest.raises((UserError, SettingsError), match=r"no fixed length(.|\n)*in days"):
            call()


FOLDER = Path(__file__).parent / "settings"

SETTING = re.compile(r'(?P<key>[\w."/]+) = ')

WHOLE = ("not TOML", "must be given", "there is none", "give ", "has no tokens")
"""Mistakes of what is not there, or of the file as a whole; a parser of TOML names its own line."""


def agent(path: Path) -> AgentSettings:
    return read_agent(path, lambda: 0, lambda: "device-1")


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "agent.toml": ((FOLDER / "agent.toml").read_text(), agent),
    "site.toml": ((FOLDER / "site.toml").read_text(), read_site),
}


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
def test_damage_is_reported_with_its_file_and_line(
    tmp_path_factory: pytest.TempPathFactory, given: tuple[str, str]
) -> None:
    name, text = given
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(text.encode())
    try:
        READERS[name][1](path)
    except (SettingsError, UserError) as error:
        reported = str(error)
        assert reported.startswith(f"{path}:"), reported
        assert "\x00" not in reported
        line = reported.removeprefix(f"{path}:").partition(":")[0]
        if line.isdigit():
            assert 1 <= int(line) <= len(text.splitlines())
        else:
            assert any(words in reported for words in WHOLE), reported


@pytest.mark.parametrize("name", sorted(READERS))
def test_both_are_right_as_they_are(tmp_path: Path, name: str) -> None:
    text, read = READERS[name]
    (tmp_path / name).write_text(text)
    read(tmp_path / name)


PLACES = [
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
    reported = str(raised.value)
    lines = text.splitlines()
    at = lines.index(right) + 1
    if "must be" in message:  # the table's
        at = next(n for n in range(at, 0, -1) if lines[n - 1].startswith("["))
    assert reported.startswith(f"{path}:{at}: {message}"), reported
