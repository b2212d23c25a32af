"""The queries worked out by hand: how a file of them is read, and how a result is written there.

A case is a paragraph that begins with its name::

    # Three failed logins in a row
    habit: Flink CEP: times(3).consecutive()
    query:
        EVENT LOGIN{3} f[] WHERE f[i].ok = 0 WITHIN 10 s
    events: order=none
        LOGIN 1 ok=0
        reads/LOGIN@door 4..9 ok=1 user='ann'
    emitted:
        + LOGIN@1 LOGIN@2 LOGIN@5 | n=3
    because: what was reckoned by hand, and how.

Events stand in order of arrival: ``[STREAM/]TYPE[@SOURCE] TS[..TE] NAME=VALUE ...``; ``at`` (the
arrival), ``seq`` and ``id`` are those of the trace, a line of JSON is a record as it stands. Times
are in seconds.
Options behind ``events:`` are those of ``slackwater.query``. ``emitted`` are all results in the
order in which they were emitted; ``stands`` what is left of ``+`` by ``-``, in any order. Of
several statements those are looked at whose names stand before results.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
_TIME = r"(\d+(?:\.\d+)?)"
_EVENT = re.compile(rf"(?:(\w+)/)?(\w+)(?:@(\w+))?\s+{_TIME}(?:\.\.{_TIME})?((?:\s+\w+=\S+)*)$")
_FIELDS = {"at": "arrival", "seq": "seq", "id": "id"}


class Case(NamedTuple):
    """One query, the events it is asked of, and the results that a hand came to."""

    name: str
    habit: str
    query: str
    records: list[dict[str, Any]]
    options: dict[str, str]
    results: list[str]
    in_order: bool
    because: str


def cases() -> list[Case]:
    """All of them, file by file."""
    return [
        _case(paragraph)
        for path in sorted(FOLDER.glob("*.txt"))
        for paragraph in re.split(r"^# ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    ]


def _case(paragraph: str) -> Case:
    name, *lines = paragraph.rstrip().split("\n")
    parts: dict[str, list[str]] = {}
    for line in lines:
        if re.match(r"\w+:", line):
            part, said = line.split(":", 1)
            parts[part] = [said.strip()]
        elif line.strip():
            parts[part].append(line.strip())
    kind = "emitted" if "emitted" in parts else "stands"
    assert set(parts) == {"habit", "query", "events", kind, "because"}, name
    return Case(
        name,
        " ".join(parts["habit"]),
        "\n".join(parts["query"]).strip(),
        [record(line) for line in parts["events"][1:]],
        dict(option.split("=", 1) for option in parts["events"][0].split()),
        parts[kind][1:],
        kind == "emitted",
        " ".join(parts["because"]),
    )


def record(line: str) -> dict[str, Any]:
    """A line of ``events`` as a record of a trace."""
    if line.startswith("{"):
        return dict(json.loads(line))
    read = _EVENT.match(line)
    assert read is not None, line
    stream, kind, source, ts, te, rest = read.groups()
    given = {"stream": stream, "type": kind, "source": source, "ts": _value(ts)}
    attrs = {}
    for each in rest.split():
        key, value = each.split("=", 1)
        (given if key in _FIELDS else attrs)[_FIELDS.get(key, key)] = _value(value)
    given |= {"te": None if te is None else _value(te), "attrs": attrs}
    return {key: value for key, value in given.items() if value is not None}


def _value(word: str) -> Any:
    """A number or a truth value as in JSON, or a text, in quotes or without."""
    if word.startswith("'"):
        return word.strip("'")
    return json.loads(word) if re.fullmatch(r"-?\d+(\.\d+)?|true|false", word) else word


def written(result: dict[str, Any], *, named: bool) -> str:
    """A result as cases have it; ``named``: with its statement's name."""
    said = f"{result['op']} " + (f"{result['query']}: " if named else "")
    if "window" in result:
        window = result["window"]
        said += " ".join([f"{_short(window['start'])}..{_short(window['end'])}",
                          *_pairs(result.get("key") or {})])  # fmt: skip
    elif "alert" in result:
        said += f"{result['alert']} {_short(result['trace'])} {_short(result['ts'])}"
    else:
        said += " ".join(map(_happened, result["events"]))
    if "value" in result:
        said += " | " + " ".join(_pairs(result["value"]))
    said += "".join(f" {name}={result[name]}" for name in ("missing", "ambiguous")
                    if result.get(name))  # fmt: skip
    if result.get("certainty") == "uncertain":
        said += " uncertain"
    return said + (f" doubtful={','.join(result['doubtful'])}" if "doubtful" in result else "")


def _happened(event: dict[str, Any]) -> str:
    shown = " ".join(_pairs(event.get("attrs") or {}))
    what = f"{event['type'] or event['stream']}@{_short(event['ts'])}"
    return f"{what}({shown})" if shown else what


def _pairs(values: dict[str, Any]) -> list[str]:
    return [f"{name}={_short(value)}" for name, value in values.items()]


def _short(value: Any) -> str:
    if isinstance(value, float):
        value = round(value, 4)
        value = int(value) if value == int(value) else value
    return value if isinstance(value, str) else json.dumps(value)


def standing(results: list[str]) -> list[str]:
    """What is left of them: each ``-`` takes back a ``+`` of the same words."""
    left = Counter[str]()
    for result in results:
        left[result[2:]] += 1 if result.startswith("+") else -1
    assert min(left.values(), default=0) >= 0, left
    return sorted(f"+ {said}" for said in left.elements())
