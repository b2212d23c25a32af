"""Settings files of agents and gateways: every mistake is told with its place and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.drivers.agent_file import AgentSettings, read_agent
from edge_agent.errors import SettingsError
from edge_agent.messages import StreamSchema
from edge_agent.settings_file import Table, quantity, read_toml, shown_ns
from edge_agent.units import NS_PER
from engine.errors import UserError
from engine.gateway.settings import GatewaySettings
from engine.log.retention import Limits
from engine.server.log_keeper import KeepSettings
from engine.server.site_file import read_site
from engine.units import parse_duration

INPUT = '[[input]]\nkind = "stdin"\n'


def an_agent(folder: Path, text: str) -> AgentSettings:
    path = folder / "agent.toml"
    path.write_text(text)
    return read_agent(path, lambda: 0, lambda: "device-1")


def test_an_agent_of_few_words_has_defaults(tmp_path: Path) -> None:
    found = an_agent(tmp_path, INPUT)
    assert (found.session.site, found.session.source) == ("main", "device-1")
    assert (found.host, found.port, found.ntp_port) == ("127.0.0.1", 9750, 9750)
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
    ("text", "told"),
    [
        (
            "[agent]\nsorce = 'a'\n" + INPUT,
            '[agent] sorce: no such setting; did you mean "source"?',
        ),
        ("[agnt]\n" + INPUT, 'agent.toml:1: agnt: no such setting; did you mean "agent"?'),
        ("", "agent.toml: input: there is none: write [[input]] with its kind"),
        ("[[input]]\n", "[input] kind: must be given"),
        ("[[input]]\nkind = 'sdtin'\n", '"sdtin" is not known; did you mean "stdin"?'),
        ("[[input]]\nkind = 'exec'\ncommand = 'ls'\n", "command: write a list of texts"),
        (INPUT + "pace = 2\n", "[input] pace: no such setting"),
        ("[gateway]\nport = 70000\n" + INPUT, "port: write a whole number from 1 to 65535"),
        ("[gateway]\nport = true\n" + INPUT, "port: write a whole number"),
        ("[delivery]\nreconnect = 5\n" + INPUT, 'reconnect: write a duration as "200 ms"'),
        ("[delivery]\nreconnect = '5 parsecs'\n" + INPUT, "is not a duration"),
        ("[delivery]\nreconnect = '11 s'\n" + INPUT, "reconnect_ns_max must not be below"),
        ("[[stream]]\nname = 'a'\nattrs = {v = 'number'}\n" + INPUT, '"number" is not known'),
        ("[[stream]]\nname = 'a'\n[[stream]]\nname = 'a'\n" + INPUT, "of different names"),
        ("[gateway]\ndrain_max = 5\n" + INPUT, "[gateway] drain_max: needs an outbox"),
        ("[time]\nservers = ['a b']\n" + INPUT, "[time] servers: 'a b' is no server"),
        ("[time]\nservers = ['a:0']\n" + INPUT, "[time] servers: 'a:0' is no server"),
        ("[time]\nservers = ['a:99999']\n" + INPUT, "'a:99999' is no server"),
        ("[time]\ngateway = false\n" + INPUT, "servers: must be given: the gateway is not"),
        ("[tls]\ncertificate = 'a.pem'\n" + INPUT, "certificate and key go together"),
        ("[tls]\nauthorities = 'a.pem'\n" + INPUT, "[tls] on: write true"),
        ("[agent]\ntoken_file = 'gone'\n" + INPUT, "token_file"),
        ("[agent\n", "agent.toml: not TOML"),
        ("agent = 3\n" + INPUT, "agent: write a table, [agent]"),
        ("input = 3\n", "input: write tables, [[input]]"),
    ],
)
def test_a_mistake_of_an_agent_is_told(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        an_agent(tmp_path, text)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[gateway]\n", "[gateway] log: must be given"),
        ("[gateway]\nlog = 'a'\nlisten = '0.0.0.0'\n", "has no tokens, so anyone could write"),
        ("[gateway]\nlog = 'a'\n[limits]\nframe_evry = '1 s'\n", 'did you mean "frame_every"?'),
        ("[gateway]\nlog = 'a'\n[limits]\nframe_rows = 0\n", "from 1 to"),
        ("[gateway]\nlog = 'a'\n[tokens]\n'/x' = 'a'\n", 'write "SITE/SOURCE" = "TOKEN"'),
        ("[gateway]\nlog = 'a'\n[tokens]\nx = ''\n", "an empty token lets anyone in"),
        ("[gateway]\nlog = 'a'\n[log]\nkeep = '30 s'\n", "[log] keep: must be at least 1 min"),
        ("[gateway]\nlog = 'a'\n[log]\nkeep = 30\n", 'keep: write a duration as "200 ms"'),
        ("[gateway]\nlog = 'a'\n[log]\nkeep_size = '1 KiB'\n", "must be at least 1 MiB"),
        (
            "[gateway]\nlog = 'a'\n[log]\nkept = '1 d'\n",
            'kept: no such setting; did you mean "keep"',
        ),
        ("[gateway]\nlog = 'a'\n[log]\nunread = 'drop'\n", '"drop" is not known'),
        ("[gateway]\nlog = 'a'\n[tls]\nkey = 'x'\n", "certificate: must be given with TLS"),
    ],
)
def test_a_mistake_of_a_site_is_told(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(UserError) as error:
        read_site(tmp_path / "site.toml")
    assert told in str(error.value)


def test_a_site_of_few_words_has_the_core_s_defaults(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[gateway]\nlog = 'a'\n[tokens]\nx = '1'\n'b/y' = '2'\n")
    found = read_site(tmp_path / "site.toml")
    tokens = {("main", "x"): "1", ("b", "y"): "2"}
    assert found.gateway == GatewaySettings(tokens=tokens)
    assert found.keep == KeepSettings()
    assert (found.log, found.port) == (tmp_path / "a", 9750)
    assert "'1'" not in found.printed
    assert '"1"' not in found.printed


def test_a_site_says_what_its_log_keeps(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        "[gateway]\nlog = 'a'\n"
        "[log]\ncompact = false\nkeep = '30 d'\nkeep_size = '5 GiB'\nunread = 'delete'\n"
    )
    limits = Limits(age_ns=30 * 86400 * 10**9, bytes=5 << 30, unread=True)
    assert read_site(tmp_path / "site.toml").keep == KeepSettings(compact=False, limits=limits)


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


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_toml(tmp_path / "none.toml")


def test_what_nobody_asked_for_is_refused_in_inner_tables() -> None:
    table = Table({"a": {"b": 1}}, "f")
    table.table("a")
    with pytest.raises(SettingsError, match=r"f: \[a\] b: no such setting"):
        table.done()
