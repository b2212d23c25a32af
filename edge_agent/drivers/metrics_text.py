"""An agent's status as Prometheus reads it (text format 0.0.4); docs/reference.md has the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from edge_agent.outputs import SessionState
from edge_agent.timesync import SyncState

KIND: Final = "text/plain; version=0.0.4; charset=utf-8"
_SIZES: Final = ("bytes", "unwritten_bytes")
_Sample = tuple[Mapping[str, str], int]
_Family = tuple[str, str, str, Iterable[_Sample]]
"""Name, type, what it is, samples."""


def metrics_text(status: Mapping[str, Any]) -> str:
    """``status`` as ``status_of`` gives it; counters count since the start of the agent."""
    lines: list[str] = []
    for name, kind, told, samples in _families(status):
        lines += [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{_labels(labels)} {value}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _families(status: Mapping[str, Any]) -> Iterator[_Family]:
    own = {"site": status["site"], "source": status["source"]}
    yield "slackwater_agent_info", "gauge", "1; who the agent is.", [(own, 1)]
    yield (
        "slackwater_agent_state", "gauge", "1 for the state that the session is in.",
        [({"state": each.value}, int(each.value == status["state"])) for each in SessionState],
    )  # fmt: skip
    yield (
        "slackwater_agent_clock_state", "gauge", "1 for the state that time sync is in.",
        [({"state": each.value}, int(each.value == status["clock"])) for each in SyncState],
    )  # fmt: skip
    yield (
        "slackwater_agent_unacked_bytes", "gauge", "Kept in memory for the gateway's ack.",
        [({}, status["unacked_bytes"])],
    )  # fmt: skip
    yield (
        "slackwater_agent_next_number", "gauge", "Number that the next event will get.",
        [({"stream": stream}, number) for stream, number in status["next_seq"].items()],
    )  # fmt: skip
    for size in _SIZES:
        yield (
            f"slackwater_agent_outbox_{size}", "gauge", "Size of a stream's part of the outbox.",
            [({"stream": name}, each[size]) for name, each in status["outbox"].items()],
        )  # fmt: skip
    yield (
        "slackwater_agent_outbox_total", "counter", "What has happened to the outbox.",
        [
            ({"stream": name, "what": what}, count)
            for name, each in status["outbox"].items()
            for what, count in each.items()
            if what not in _SIZES
        ],
    )  # fmt: skip
    yield (
        "slackwater_agent_input_total", "counter", "What each input counts.",
        [
            ({"input": name, "what": what}, count)
            for name, each in status["inputs"].items()
            for what, count in each.items()
        ],
    )  # fmt: skip
    for part, name, told in (
        ("outlet", "events", "What has become of the inputs' events."),
        ("session", "session", "What has happened in the session."),
        ("sync", "sync", "What has happened in time sync."),
        ("sockets", "sockets", "What has happened to connections."),
    ):
        counts = sorted(status[part].items())
        yield (
            f"slackwater_agent_{name}_total", "counter", told,
            [({"what": what}, count) for what, count in counts],
        )  # fmt: skip


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
