"""``slackwater query --sink``: results of one pass go to another program."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.core.errors import SlackwaterError
from slackwater.engine.sinks import program
from slackwater.engine.sinks.base import SinkSettings
from slackwater.engine.sinks.program import read_target, send
from tests.cli.conftest import CommandRun
from tests.sinks.receivers import KeptReceiver, flaky, http_server

Cli = Callable[..., CommandRun]
COUNT = "SELECT count(*) FROM events GROUP BY v WINDOW TUMBLING 1 s"


def events(folder: Path, count: int = 30) -> Path:
    path = folder / "events.jsonl"
    sites = ("main", "ward 3/bed")
    path.write_text(
        "".join(
            json.dumps({"type": "A", "site": sites[n % 2], "ts": n * 1000, "v": n % 7}) + "\n"
            for n in range(count)
        )
    )
    return path


def test_results_go_there_as_the_command_prints_them(cli: Cli, here: Path) -> None:
    words = ["query", COUNT, COUNT, "--input", str(events(here)), "--time-unit", "ms"]
    printed = cli(*words).out.splitlines()
    with http_server() as server:
        done = cli(*words, "--sink", server.url)
        again = cli(*words, "--sink", server.url, "--quiet", "--out", "o.csv")
        changed = cli(*words[:-2], "--time-unit", "s", "--sink", server.url, "--quiet")
    assert done.out == again.out == changed.out == ""
    assert "60 results delivered to http" in done.err
    first, second, third = (server.taken[n : n + 60] for n in (0, 60, 120))
    assert first == second
    assert not {each["key"] for each in first} & {each["key"] for each in third}
    for query in ("q1", "q2"):
        for site in ("main", "ward 3/bed"):
            wanted = [
                line
                for line in map(json.loads, printed)
                if (line["query"], line["site"]) == (query, site)
            ]
            found = [
                each["result"] for each in first
                if (each["result"]["query"], each["result"]["site"]) == (query, site)
            ]  # fmt: skip
            assert found == wanted
            assert wanted
    assert len((here / "o.csv").read_text().splitlines()) == 61


def test_changes_go_with_their_retractions(cli: Cli, here: Path) -> None:
    words = [
        "query", "SELECT count(*) FROM events WINDOW TUMBLING 10 s EMIT EARLY EVERY 3 s", "--input",
        str(events(here)), "--time-unit", "ms", "--changes", "--quiet",
    ]  # fmt: skip
    printed = [json.loads(line) for line in cli(*words).out.splitlines()]
    with http_server() as server:
        cli(*words, "--sink", server.url)
    found = [each["result"] for each in server.taken]
    assert {result["op"] for result in found} == {"+", "-"}
    assert sorted(found, key=json.dumps) == sorted(printed, key=json.dumps)
    standing: list[str] = []
    for each in server.taken:
        if each["result"]["op"] == "+":
            standing.append(each["id"])
        else:
            standing.remove(each["id"])


def test_what_is_refused_fails_the_command_and_is_kept(cli: Cli, here: Path) -> None:
    program = f"exec:{sys.executable} -c 'import sys; sys.exit(65)'"
    words = ["query", COUNT, "--input", str(events(here, 3)), "--time-unit", "ms"]
    done = cli(*words, "--sink", program)
    assert done.code == 1
    assert "--sink: 3 of 3 results were refused, and are in exec.dead.jsonl" in done.err
    assert len((here / "exec.dead.jsonl").read_text().splitlines()) == 3


def test_a_receiver_that_is_away_fails_the_command_after_a_while(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PATIENCE_S", 0.05)
    results = here / "results.jsonl"
    results.write_text(
        "".join(f'{{"op":"+","query":"q1","site":"main","n":{n}}}\n' for n in range(250))
    )
    receiver = KeptReceiver(answer=flaky(0, 1.0))
    sink = SinkSettings(name="s", receiver=receiver, retry_s=(0.01, 0.01))
    said: list[str] = []
    with pytest.raises(SlackwaterError, match=r"0 of 250 results are delivered: not now; the same"):
        send(results, sink, here / "one", said.append)
    receiver.answer = flaky(1, 0.5)
    assert send(results, sink, here / "two", said.append) == 250
    assert [item.result["n"] for item in receiver.items] == [*range(250)]


def test_a_file_says_what_an_address_cannot(cli: Cli, here: Path) -> None:
    with http_server() as server:
        (here / "crm.toml").write_text(
            f'[[sink]]\nkind = "http"\nname = "crm"\nurl = "{server.url}"\ntoken = "geheim"\n'
            'confirmed_only = true\nsettle = "1 h"\n'
        )
        words = ["query", COUNT, "--input", str(events(here)), "--time-unit", "ms"]
        done = cli(*words, "--sink", "crm.toml")
    assert "30 results delivered to crm" in done.err
    assert server.posts[0].headers["Authorization"] == "Bearer geheim"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("ftp://a", "--sink: write http://HOST/PATH"),
        ("localhost", "--sink: write http://HOST/PATH"),
        ("http://", "--sink: [sink] url: write"),
        ("exec:a 'b", "--sink exec: No closing quotation"),
        ("exec:", "--sink: [sink] command: write the program"),
        ("mqtt://[a", "--sink: Invalid IPv6 URL"),
        ("none.toml", "none.toml: No such file"),
    ],
)
def test_a_target_that_is_none_is_refused_before_the_pass(cli: Cli, target: str, said: str) -> None:
    done = cli("query", COUNT, "--input", "not-there.jsonl", "--sink", target)
    assert done.code == 2
    assert said in done.err


@pytest.mark.parametrize(
    ("target", "kind", "more"),
    [
        ("mqtt://u@h:1/a/b", "MqttReceiver", {"_topic": "a/b"}),
        ("mqtts://h", "MqttReceiver", {"_topic": "slackwater/{query}/{site}"}),
        ("https://h/a?b=c", "HttpReceiver", {"_path": "/a?b=c"}),
        ("exec:a 'b c' d", "ProgramReceiver", {"_command": ["a", "b c", "d"]}),
    ],
)
def test_targets(target: str, kind: str, more: dict[str, Any]) -> None:
    receiver = read_target(target).receiver
    assert type(receiver).__name__ == kind
    assert {name: getattr(receiver, name) for name in more} == more


def test_a_password_in_an_address_is_in_no_report(cli: Cli, here: Path) -> None:
    with http_server() as server:
        url = server.url.replace("http://", "http://user:geheim@")
        words = ["query", COUNT, "--input", str(events(here)), "--time-unit", "ms"]
        done = cli(*words, "--sink", url)
    assert done.code == 2
    assert "without user and password" in done.err
    assert "geheim" not in done.err
