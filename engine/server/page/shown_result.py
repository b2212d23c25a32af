"""A result line as the page shows it: short texts, and an identity that its retraction shares."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

_TEXT_MAX: Final = 200
_EVENTS_MAX: Final = 6
_FIELDS_MAX: Final = 6


def shown(line: bytes, unit_ns: int) -> dict[str, Any]:
    """What the page gets of a line whose times are in ``unit_ns``.

    ``key``: equal for an insertion and its retraction; ``at``, ``window`` [s]; ``what`` and
    ``more``: texts for people; ``certainty`` of a match, ``certain``, ``ambiguous`` and
    ``missing`` (numbers of events) of a window, where they are known.
    """
    result = json.loads(line)
    is_window = "window" in result
    what, more = _window(result) if is_window else _match(result)
    found = {
        "key": _key(result),
        "op": result["op"],
        "query": _cut(str(result.get("query"))),
        "site": _cut(str(result.get("site"))),
        "at": result["at"] * unit_ns / 1e9,
        "what": _cut(what),
        "more": _cut(more),
    }
    if is_window:
        found["window"] = [result["window"][end] * unit_ns / 1e9 for end in ("start", "end")]
    for name in ("certainty", "probability", "certain", "ambiguous", "missing"):
        if result.get(name) is not None:
            found[name] = result[name]
    return found


def _key(result: dict[str, Any]) -> str:
    """Of (query, site, window, key), or of the events."""
    identity: list[Any] = [result.get("query"), result.get("site")]
    if "window" in result:
        shifted = result.get("drift")  # R19's flag
        identity += [result["window"], result.get("key"), shifted]
    else:
        for event in result.get("events") or ():
            identity.append([event.get(name) for name in ("stream", "source", "seq", "ts")])
    text = json.dumps(identity, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _match(result: dict[str, Any]) -> tuple[str, str]:
    events = result.get("events") or []
    names = [f"{event.get('type') or 'event'}" for event in events[:_EVENTS_MAX]]
    left = len(events) - len(names) + int(result.get("events_left_out", 0))
    what = " → ".join(names) + (f" and {left} more" if left else "")
    told = []
    for event in events[:_EVENTS_MAX]:
        attrs = _fields(event.get("attrs") or {})
        told.append(f"{event.get('source')}{f' ({attrs})' if attrs else ''}")
    value = result.get("value")
    return what, (f"{_fields(value)}; " if isinstance(value, dict) else "") + ", ".join(told)


def _window(result: dict[str, Any]) -> tuple[str, str]:
    value = result.get("value")
    what = _fields(value) if isinstance(value, dict) else "nothing"
    key = result.get("key")
    return what, _fields(key) if isinstance(key, dict) else ""


def _fields(values: dict[str, Any]) -> str:
    told = [f"{name} {_plain(value)}" for name, value in list(values.items())[:_FIELDS_MAX]]
    return ", ".join(told)


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"
