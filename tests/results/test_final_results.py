"""Final results: what the ``+``/``-`` log of a pass leaves, each once, in order of time."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.output.export import export_jsonl
from slackwater.engine.output.part_store import HELD_BYTES, PartStore
from slackwater.engine.output.result_kinds import final_results
from slackwater.engine.output.spark_parts import END
from tests.results.written import write_results

Change = dict[str, Any]


def window(site: str, query: str, start: int, value: float, key: str | None) -> Change:
    values = {"sum(v)": value}
    return {
        "op": "+", "query": query, "site": site, "at": 0,
        "window": {"start": start, "end": start + 10}, "key": {"k": key}, "value": values,
        "low": values, "middle": values, "high": values, "certain": 1, "ambiguous": 0,
        "missing": 0,
    }  # fmt: skip


def match(
    site: str, query: str, times: list[int], length: int, tag: str | None, lacks: list[str]
) -> Change:  # fmt: skip
    """``lacks``: times that half-known events do not have, the first event first."""
    events: list[dict[str, Any]] = [
        {"site": site, "stream": "events", "source": "s", "seq": None, "type": "A", "ts": ts,
         "te": ts + length, "ref": ts + 3, "attrs": {} if tag is None else {"tag": tag}}
        for ts in times
    ]  # fmt: skip
    for event, half in zip(events, lacks, strict=False):
        event.update(dict.fromkeys({"te": ("te",), "ts": ("ts", "ref"), "": ()}[half]))
    return {
        "op": "+", "query": query, "site": site, "at": 0, "known_at": 0,
        "certainty": "confirmed", "probability": 1.0, "events": events,
    }  # fmt: skip


SITES = st.sampled_from(["main", "x", "zoo"])
RESULTS = st.builds(
    window, SITES, st.sampled_from(["w", "v"]), st.integers(-3, 3),
    st.sampled_from([1, 2, 0.5]), st.sampled_from(["a", None]),
) | st.builds(
    match, SITES, st.just("m"), st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.sampled_from([0, 5]), st.sampled_from(["é", None]),
    st.lists(st.sampled_from(["", "te", "ts"]), max_size=2),
)  # fmt: skip


@st.composite
def logs(draw: st.DrawFn) -> list[list[Change]]:
    """Batches of changes, of which each retraction takes back what was emitted before."""
    shown: list[Change] = []
    batches: list[list[Change]] = [[]]
    for at in range(draw(st.integers(1, 25))):
        if draw(st.booleans()) and shown:
            change = shown.pop(draw(st.integers(0, len(shown) - 1))) | {"op": "-"}
        else:
            change = draw(RESULTS)
            shown.append(change)
        batches[-1].append(change | {"at": at})
        if draw(st.integers(0, 3)) == 0:
            batches.append([])
    return batches


def left(batches: list[list[Change]]) -> list[Change]:
    """The slow twin: one list, from which each retraction removes the first equal result."""
    found: list[Change] = []
    for change in (change for batch in batches for change in batch):
        if change["op"] == "+":
            found.append(change)
            continue
        content = {name: value for name, value in change.items() if name not in ("op", "at")}
        equal = [each for each in found if content.items() <= each.items()]
        found.remove(equal[0])
    return sorted(found, key=place)


def place(result: Change) -> tuple[Any, ...]:
    if "window" in result:
        times = [result["window"]["end"], result["window"]["start"]]
    else:
        spans = [span(event) for event in result["events"]]
        times = [max(end for _, end in spans), min(start for start, _ in spans)]
    return (result["site"], ["w", "m", "v"].index(result["query"]), *times)


def span(event: dict[str, Any]) -> tuple[int, int]:
    """From its start to its end; one that lacks the one is there at the other."""
    if event["te"] is None:
        return event["ref"], event["ref"]
    if event["ts"] is None:
        return event["te"], event["te"]
    return event["ref"], event["ref"] + event["te"] - event["ts"]


def exported(store: PartStore) -> list[Change]:
    out = io.StringIO()
    count = export_jsonl(store, out, queries=["w", "m"])
    lines = out.getvalue().splitlines()
    assert len(lines) == count
    return [json.loads(line) for line in lines]


@given(
    batches=logs(),
    hold=st.sampled_from([0, 900, HELD_BYTES]),
    rows=st.sampled_from([1, 3, 99]),
    few=st.sampled_from([0, 1024]),
)
@settings(max_examples=30, deadline=None)
def test_each_result_that_remains_once_in_order_of_time(
    batches: list[list[Change]],
    hold: int,
    rows: int,
    few: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = PartStore(tmp_path_factory.mktemp("parts"), hold)
    for number, batch in enumerate(batches, 1):  # Spark's last one, too
        write_results(store, END if number == len(batches) else number, batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.engine.output.result_kinds._ROWS_AT_ONCE", rows)
        patch.setattr("slackwater.engine.output.result_kinds._FEW", few)
        assert exported(final_results(store)) == left(batches)


def test_a_pass_with_fewer_results_leaves_none_of_an_earlier_one(tmp_path: Path) -> None:
    for count in (5, 1):
        store = PartStore(tmp_path)
        for name in ("windows", "matches"):
            for file in (tmp_path / name).glob("*"):
                file.unlink()
        for number in range(count):
            write_results(store, number, [window("main", "w", number, 1, None)])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("slackwater.engine.output.result_kinds.HELD_BYTES", 1)
            patch.setattr("slackwater.engine.output.result_kinds._ROWS_AT_ONCE", 1)
            assert len(exported(final_results(store))) == count
