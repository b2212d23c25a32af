"""Windows behind an order: when they close, what they say of the clocks, how long they are kept."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chain import Chain, ChainSettings
from engine.cli.app import run
from engine.errors import UserError
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query
from engine.window.settings import parse_window
from tests.order.conftest import frame

COUNT = "SELECT count(*) WINDOW TUMBLING 10"


def answers(
    order: str, records: list[dict[str, Any]], text: str = COUNT, cuts: tuple[int, ...] = (),
    window: str = "horizon=60s",
) -> list[dict[str, Any]]:  # fmt: skip
    """All results; the chain is restored at each cut."""
    chosen = ChainSettings(
        parse_order(order), (query(text),), guards=Guards(None), window=parse_window(window)
    )
    chain, found = Chain(chosen, "main"), []
    for start, end in itertools.pairwise(
        [0, *sorted({c for c in cuts if 0 < c < len(records)}), len(records)]
    ):
        if end > start:
            found += list(chain.process([frame(records[start:end])]).results[0])
            chain = Chain.restored(chosen, "main", chain.snapshot())
    return found + list(chain.finish().results[0])


def events(times: list[int]) -> list[dict[str, Any]]:
    return [{"source": "a", "seq": n, "ts": ts, "arrival": 100 + n} for n, ts in enumerate(times)]


@pytest.mark.parametrize(
    ("order", "times", "at"),
    [
        ("kslack:5", [8, 14, 15, 40], 102),  # 15 - 5 = 10; 14 goes out with 40 only
        ("kslack-chain:5,20", [8, 14, 15, 40], 102),
        ("mp-kslack", [8, 3, 9, 14, 16, 40], 104),  # K = 6: 16 - 6
        ("aq-kslack:error=0.01", [8, 3, 9, 14, 16, 40], 104),
        ("ldop:0,window=5", [8, 14, 15, 40], 102),
        ("none", [8, 9, 10, 40], 102),
    ],
)
def test_spec_4_4_behind_a_slack_a_window_closes_when_the_slack_says(
    order: str, times: list[int], at: int
) -> None:
    first = answers(order, events(times))[0]
    assert (first["window"]["start"], first["at"]) == (0, at)


@given(
    times=st.lists(st.integers(0, 80), min_size=1, max_size=14),
    order=st.sampled_from(
        ["kslack:5", "kslack:0", "mp-kslack", "ldop:0,window=5", "kslack-chain:3,9"]
    ),
    cuts=st.lists(st.integers(0, 14), max_size=4),
)
@settings(max_examples=30, deadline=None)
def test_behind_a_slack_every_window_ends_right_under_any_cut(
    times: list[int], order: str, cuts: list[int]
) -> None:
    whole = answers(order, events(times))
    assert answers(order, events(times), cuts=tuple(cuts)) == whole
    net: dict[int, int] = {}
    for result in whole:
        start, n = result["window"]["start"], result["value"]["count(*)"]
        if result["op"] == "+":
            net[start] = n
        else:
            assert net.pop(start) == n
    assert net == {start: sum(start <= t < start + 10 for t in times)
                   for start in {t // 10 * 10 for t in times}}  # fmt: skip


def test_issue_10_count_bounds_of_one_synchronised_source() -> None:
    sync = {"kind": "sync", "source": "a", "offset": 0, "delay": 4, "arrival": 99}
    text = "SELECT count(*) WINDOW TUMBLING 100"
    found = answers("none", [sync, *events([100, 150, 199])], text)
    of_100 = [r for r in found if r["window"]["start"] == 100]
    assert (of_100[-1]["ambiguous"], of_100[-1]["bounds"]["count(*)"]) == (2, [2, 3])


def test_a_window_is_corrected_as_long_as_the_horizon_says() -> None:
    for horizon, times, count in ((25, [5, 34, 7], 2), (25, [5, 35, 7], 1), (0, [5, 10, 7], 1)):
        found = answers("none", events(times), window=f"horizon={horizon}")
        last = [r for r in found if r["window"]["start"] == 0 and r["op"] == "+"][-1]
        assert last["value"]["count(*)"] == count


def test_window_settings_that_cannot_be() -> None:
    for text in ("horizon", "horizons=5", "", "5s"):
        with pytest.raises(UserError, match="use horizon=DURATION"):
            parse_window(text)
    with pytest.raises(UserError, match="at most"):
        parse_window("horizon=40000 d")


def test_the_command_takes_the_horizon_and_tells_times_in_its_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = tmp_path / "t.jsonl", tmp_path / "o.jsonl"
    trace.write_text("".join(json.dumps(r) + "\n" for r in events([5, 12, 23, 7])))
    text = "SELECT min(ref), max(ts), count(ts) WINDOW TUMBLING 10 ms"
    shared = ["query", text, "--input", str(trace), "--order", "none", "--time-unit", "ms",
              "--guard", "off", "--quiet", "--out", str(out)]  # fmt: skip
    for horizon, values in (
        ("horizon=20", {"min(ref)": 5, "max(ts)": 7, "count(ts)": 2}),
        ("horizon=10ms", {"min(ref)": 5, "max(ts)": 5, "count(ts)": 1}),
    ):
        assert run([*shared, "--window", horizon]) == 0
        told = [json.loads(line) for line in out.read_text().splitlines()]
        of_0 = [one for one in told if one["window"] == {"start": 0, "end": 10}]
        assert of_0[-1]["value"] == of_0[-1]["middle"] == values
        assert of_0[-1]["bounds"]["min(ref)"] == [5, 5]
    assert run([*shared, "--window", "forever"]) == 2
    assert "use horizon=DURATION" in capsys.readouterr().err
    pattern = [
        "query",
        "EVENT SEQ(A a, B b) WITHIN 5",
        "--input",
        str(trace),
        "--window",
        "horizon=1s",
    ]
    assert run(pattern) == 2
    assert "--window is for SELECT" in capsys.readouterr().err
