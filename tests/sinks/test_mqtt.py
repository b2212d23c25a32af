"""The kind ``mqtt`` beside Mosquitto."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from slackwater.edge_agent.errors import SettingsError
from slackwater.engine.sinks.base import RetryError
from slackwater.engine.sinks.mqtt import mqtt_sink
from tests.live.conftest import free_port, until
from tests.live.test_other_programs import NEEDS_MOSQUITTO, Broker
from tests.sinks.receivers import Answers, run_through, table_of
from tests.sinks.test_http import items


@pytest.fixture(name="broker")
def _broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.stop()


class Subscriber:
    """Keeps messages of all topics."""

    def __init__(self, port: int) -> None:
        self.messages: list[tuple[str, int, dict[str, Any]]] = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.client.on_message = lambda *given: self.messages.append(
            (given[2].topic, given[2].qos, json.loads(given[2].payload))
        )
        subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: subscribed.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        self.client.subscribe("#", 1)
        assert subscribed.wait(10)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@NEEDS_MOSQUITTO
@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_results_are_messages_in_order(broker: Broker, tmp_path: Path, protocol: str) -> None:
    answers = Answers(tmp_path / "answers")
    answers.write(*({"n": n} for n in range(300)))
    answers.write({"n": 0}, site="ward%203%2B%23")
    subscriber = Subscriber(broker.port)
    table = table_of({"url": f"mqtt://127.0.0.1:{broker.port}", "protocol": protocol})
    run_through(answers.forwarder(mqtt_sink(table, "s")))
    until(lambda: len(subscriber.messages) == 301, "messages")
    subscriber.close()
    main = [item for topic, qos, item in subscriber.messages if topic == "slackwater/q1/main"]
    assert [item["result"]["n"] for item in main] == [*range(300)]
    assert main[7]["key"].endswith("/main/7")
    assert {topic for topic, _, _ in subscriber.messages} == {
        "slackwater/q1/main", "slackwater/q1/ward%203%2B%23"
    }  # fmt: skip
    assert {qos for _, qos, _ in subscriber.messages} == {1}


@NEEDS_MOSQUITTO
def test_a_broker_that_goes_and_comes_back(broker: Broker) -> None:
    table = table_of({"url": f"mqtt://127.0.0.1:{broker.port}", "topic": "a/{query}"})
    sink = mqtt_sink(table, "s")
    sink.deliver(items(3))
    broker.stop()
    with pytest.raises(RetryError, match=r"127\.0\.0\.1: "):
        sink.deliver(items(3))
    with pytest.raises(RetryError, match="refused"):
        sink.deliver(items(3))
    broker.start()
    subscriber = Subscriber(broker.port)
    sink.deliver(items(3))
    until(lambda: len(subscriber.messages) == 3, "messages")
    sink.close()
    subscriber.close()
    assert {topic for topic, _, _ in subscriber.messages} == {"a/q"}


@NEEDS_MOSQUITTO
def test_a_broker_that_refuses_a_user_or_a_topic(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    try:
        rules = tmp_path / "rules"
        rules.write_text("topic write open/#\n")
        with broker.file.open("a") as file:
            file.write(f"acl_file {rules}\n")
        broker.stop()
        broker.start()
        url = f"mqtt://127.0.0.1:{broker.port}"
        sink = mqtt_sink(table_of({"url": url, "topic": "closed/{query}"}), "s")
        with pytest.raises(RetryError, match=r"does not take it: Not authorized"):
            sink.deliver(items(1))
        sink = mqtt_sink(table_of({"url": url, "topic": "open/{query}"}), "s")
        sink.deliver(items(1))
        sink.close()
        broker.stop()
        text = broker.file.read_text().replace("allow_anonymous true", "allow_anonymous false")
        broker.file.write_text(text)
        broker.start()
        with pytest.raises(RetryError, match=r"the broker refuses: Not authorized"):
            mqtt_sink(table_of({"url": url}), "s").deliver(items(1))
    finally:
        broker.stop()


def test_a_broker_that_says_nothing_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mqtt://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RetryError, match="no answer"):
            mqtt_sink(table_of({"url": url, "timeout": "200 ms"}), "s").deliver(items(1))
    with pytest.raises(RetryError, match="refused"):
        mqtt_sink(table_of({"url": f"mqtt://127.0.0.1:{free_port()}"}), "s").deliver(items(1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "mqtt://a", "topic": "a/{who}"}, "topic: may have {query} and {site}"),
        ({"url": "mqtt://a", "topic": "a/{"}, "topic: may have"),
        ({"url": "mqtt://a", "topic": "a/+/{query}"}, "topic: must have a character, and none"),
        ({"url": "mqtt://a", "topic": ""}, "topic: must have a character"),
        ({"url": "mqtt://a", "protocol": "4"}, 'protocol: "4" is not known'),
        ({"url": "mqtt://u:geheim@a", "password": "b"}, "password: there is one in url, too"),
        ({"url": "mqtt://a", "tls": {"on": True}}, "tls: an mqtt address has no TLS"),
    ],
)
def test_mistakes_are_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as found:
        mqtt_sink(table_of(settings), "s")
    assert said in str(found.value)
    assert "geheim" not in str(found.value)


def test_a_password_in_the_address_is_not_printed() -> None:
    table = table_of({"url": "mqtt://user:geheim@a"})
    mqtt_sink(table, "s")
    assert 'url = "mqtt://user:(not shown)@a"' in table.printed()
