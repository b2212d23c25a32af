"""Programs of another hand that count as devices do, on real sockets up to the embedded engine."""

from __future__ import annotations

import json
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from urllib.request import urlopen

import pytest

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from tests.live.conftest import Field, free_port, until
from tests.live.test_answers import answered

QUERY = "SELECT count(*) AS n, sum(v) AS s FROM events GROUP BY source WINDOW TUMBLING 1 s"
SCHEMA = m.StreamSchema("events", {"v": "int"})
BEGUN = time.time_ns() // 10**9 * 10**9
STEP = 10**7


def stamp_of(place: int) -> int:
    return BEGUN - 7 * 10**9 + place * STEP


class Peer:
    """A device that speaks the wire and counts in ``bits``, from ``first`` on."""

    def __init__(self, port: int, name: str, bits: int, first: int) -> None:
        self.bits, self.first, self.acked = bits, first, 0
        self._socket = socket.create_connection(("127.0.0.1", port), 20)
        self._decoder = wire.Decoder()
        self._answers: Iterator[m.Message] = iter(())
        stream = m.HelloStream(SCHEMA, first, first)
        self._say(m.Hello("main", name, "", 1, True, 0, (stream,)))
        welcome = self._heard()
        assert isinstance(welcome, m.Welcome)
        (self.welcomed,) = welcome.next_seqs
        self._say(m.Sync(0, 0, 0, BEGUN, 0, 0))

    def send(self, numbers: range) -> None:
        for number in numbers:
            value = struct.pack("<q", number % 5)
            stamp = struct.pack("<q", stamp_of(number - self.first))
            seq = number % 2**self.bits
            self._say(m.Data(0, seq, 1, stamp, None, None, None, (m.Values(value, None),)))

    def until_acked(self, number: int) -> None:
        while self.acked < number:
            ack = self._heard()
            assert isinstance(ack, m.Ack), ack
            (self.acked,) = ack.next_seqs

    def close(self) -> None:
        self._socket.close()

    def _say(self, message: m.Message) -> None:
        self._socket.sendall(wire.encode(message))

    def _heard(self) -> m.Message:
        while True:
            for message in self._answers:
                return message
            self._answers = self._decoder.feed(self._socket.recv(1 << 16))


def net_counts(field: Field) -> Counter[tuple[str, str]]:
    """Of the query's answers so far: what their insertions less their retractions count."""
    net: Counter[tuple[str, str]] = Counter()
    whole, _, _ = answered(field, "q").rpartition(b"\n")
    for line in whole.splitlines():
        each = json.loads(line)
        sign = 1 if each["op"] == "+" else -1
        net[each["key"]["source"], str(each["window"])] += sign * each["value"]["n"]
    return net


@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.timeout(180)
def test_peers_whose_numbers_wrap_through_a_kill(field: Field, declared: bool) -> None:
    """Two devices of 8 and 16 bits; the gateway is killed in the middle; copies come again."""
    page = free_port()
    more = "[seq_bits]\nevents = 8\n" if declared else ""
    field.site(
        f'{more}[limits]\nframe_every = "10 ms"\n[page]\nport = {page}\n'
        '[engine]\nkind = "embedded"\nclock = ["exact"]\n'
        f'[[query]]\nname = "q"\ntext = "{QUERY}"\n'
    )
    server = field.serve()
    bits = {"a": 8} if declared else {"a": 8, "b": 16}
    first = {"a": 0, "b": 65_300}
    peers = {name: Peer(field.port, name, each, first[name]) for name, each in bits.items()}
    for name, peer in peers.items():
        peer.send(range(first[name], first[name] + 300))
        peer.until_acked(first[name] + 300)
    server.process.kill()
    server.process.wait()
    for peer in peers.values():
        peer.close()
    assert declared or "counter of 8 bits" in server.text
    server = field.serve()
    for name, each in bits.items():
        begin = first[name]
        peer = Peer(field.port, name, each, begin)
        assert peer.welcomed == begin + 300
        peer.send(range(begin + 280, begin + 700))
        peer.until_acked(begin + 700)
        peers[name] = peer
    metrics = urlopen(f"http://127.0.0.1:{page}/metrics").read().decode()
    assert "slackwater_events_reused_total 0.0" in metrics
    assert 'slackwater_source_events_duplicate_total{site="main",source="a"} 20.0' in metrics
    for peer in peers.values():
        peer.close()
    until(lambda: len(net_counts(field)) >= 6 * len(bits), "what is compiled first", 90)
    server.end()
    exported = field.start("log", "export", "site.log", "--out", "o.jsonl")
    assert exported.end(None) == 0
    rows = [json.loads(line) for line in (field.folder / "o.jsonl").read_text().splitlines()]
    for name in bits:
        found = [row for row in rows if row.get("kind", "event") == "event"
                 and row["source"] == name]  # fmt: skip
        begin = first[name]
        assert [row["seq"] for row in found] == list(range(begin, begin + 700)), name
        assert [row["ts"] for row in found] == [stamp_of(n) for n in range(700)]
    net = net_counts(field)
    assert set(net.values()) == {100}
    assert len(net) >= 6 * len(bits)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_agent_counts_what_its_device_has_lost(field: Field) -> None:
    """Numbers of 8 bits on standard input: two are lost, one comes twice, one is left out as 0."""
    field.site()
    server = field.serve()
    name = field.agent_file("d", '[[input]]\nkind = "stdin"\nseq_bits = 8\nmap = { seq = "n" }\n')
    field.change(name, "[agent]", '[agent]\nstatus = "status.json"')
    agent = field.fed(name)
    begun = time.time_ns()
    lines = []
    for number in range(600):
        record = {"n": number % 256, "ts": begun + number, "v": number}
        if number == 256:
            del record["n"]
        if number in (100, 300):
            continue
        lines += [json.dumps(record)] * (1 + (number == 400))
    agent.feed(*lines)
    agent.finish()
    status = json.loads((field.folder / "status.json").read_text())
    found = {k: v for k, v in status["inputs"]["stdin"].items() if k.startswith("device")}
    assert found == {"device_lost": 2, "device_copies": 1, "device_unnumbered": 1}
    server.end()
    exported = field.start("log", "export", "site.log", "--out", "o.jsonl")
    assert exported.end(None) == 0
    rows = [json.loads(line) for line in (field.folder / "o.jsonl").read_text().splitlines()]
    values = [row["attrs"]["v"] for row in rows if row.get("kind", "event") == "event"]
    assert values == [number for number in range(600) if number not in (100, 300)]


def has_rows(field: Field, count: int) -> bool:
    return len(field.rows()) == count


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_what_a_device_sent_while_its_agent_was_stopped_is_counted_as_lost(field: Field) -> None:
    """An agent that was killed knows nothing of the numbers before."""
    field.site()
    server = field.serve()
    listens = '[[input]]\nkind = "stdin"\nseq_bits = 8\nmap = { seq = "n" }\n'
    name = field.agent_file("d", listens, '[outbox]\nfolder = "outbox"\n')
    field.change(name, "[agent]", '[agent]\nstatus = "status.json"')
    found = []
    begun, sent = time.time_ns(), 0
    for first in (250, 259, 270, 290):
        agent = field.fed(name)
        for number in range(first, first + 6):
            agent.feed(json.dumps({"n": number % 256, "ts": begun + number, "v": number}))
        sent += 6
        until(partial(has_rows, field, sent), "the events")
        if first == 270:
            agent.end(signal.SIGKILL)
            continue
        agent.end()
        status = json.loads((field.folder / "status.json").read_text())
        found.append(status["inputs"]["stdin"].get("device_lost", 0))
    assert found == [0, 3, 0]
    assert server.end() == 0
