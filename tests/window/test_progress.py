"""Windows of every kind close by progress, not by their group's next event; and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.query import query
from engine.stream.released import IN_ORDER, LATE, Strings
from engine.window.kinds import windows_of
from engine.window.settings import WindowSettings
from tests.window.conftest import Event, Stream, batch, run

KINDS = ("TUMBLING 10", "SLIDING 10 EVERY 5", "SESSION 10", "ROWS 2")


@pytest.mark.parametrize("kind", KINDS)
def test_an_idle_group_is_told_by_anothers_event_or_by_a_promise(kind: str) -> None:
    idle = (Event(1, key=0, release=1), Event(2, key=0, release=2))
    text = f"SELECT count(*) GROUP BY g WINDOW {kind}"

    def told(stream: Stream) -> list[tuple[Any, ...]]:
        operator = windows_of(query(text))
        found = operator.process(batch(stream, Strings()))
        return [(r["at"], r["key"]["g"], r["value"]["count(*)"]) for r in found]

    by_event = told(Stream((*idle, Event(40, key=1, release=7))))
    by_promise = told(Stream(idle, steps=((2, 40, 7),)))
    assert by_event == by_promise
    assert by_event
    # ROWS is full with its second event; where clocks are right nothing may overtake it then.
    assert {(at, key) for at, key, _ in by_event} == {(2 if kind == "ROWS 2" else 7, 0)}
    assert by_event[-1][2] == 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_idle_site_tells_its_last_windows_when_its_input_ends(kind: str) -> None:
    operator = windows_of(query(f"SELECT count(*) WINDOW {kind}"))
    stream = Stream((Event(1, unc=2), Event(2, unc=2)))
    operator.process(batch(stream, Strings()))
    found = list(operator.finish(99))
    assert {r["at"] for r in found} == {99}
    assert found[-1]["value"]["count(*)"] == 2


@st.composite
def lossy(draw: st.DrawFn) -> tuple[Stream, tuple[int, ...]]:
    """A source's numbered events, of which runs are lost; some of the lost come late."""
    n = draw(st.integers(4, 16))
    refs = [10 * i + draw(st.integers(0, 9)) for i in range(n)]
    lost = draw(st.lists(st.integers(1, n - 2), unique=True, max_size=n // 2))
    events: list[Event] = []
    gaps: list[tuple[int, str, int, int, int, int]] = []
    run_of: list[int] = []
    for i, ref in enumerate(refs):
        if i in lost:
            run_of.append(i)
            continue
        if run_of:
            low = refs[run_of[0] - 1]
            gaps.append((len(events), "s0", run_of[0], len(run_of), low, ref))
            run_of = []
        events.append(Event(ref, seq=i, status=IN_ORDER))
    come = draw(st.lists(st.sampled_from(lost), unique=True)) if lost else []
    events += [Event(refs[i], seq=i, status=LATE) for i in come]
    cuts = tuple(draw(st.lists(st.integers(0, len(events)), max_size=3)))
    return Stream(tuple(events), gaps=tuple(gaps)), cuts


@given(case=lossy())
@settings(max_examples=50, deadline=None)
def test_counts_add_up_to_what_was_released_and_one_window_misses_all_that_is_lost(
    case: tuple[Stream, tuple[int, ...]],
) -> None:
    stream, cuts = case
    made = WindowSettings(correction_horizon_ns=10**6)

    def net(window: str) -> list[dict[str, Any]]:
        plan = query(f"SELECT count(*) WINDOW {window}")
        found = run(lambda: windows_of(plan, made), stream, cuts, 10**6)  # type: ignore[arg-type, return-value]
        standing: list[dict[str, Any]] = []
        for r in found:
            content = {name: value for name, value in r.items() if name not in {"op", "at"}}
            if r["op"] == "+":
                standing.append(content)
            else:
                standing.remove(content)
        return standing

    lost = sum(gap[3] for gap in stream.gaps) - sum(e.status == LATE for e in stream.events)
    assert sum(r["value"]["count(*)"] for r in net("TUMBLING 20")) == len(stream.events)
    for window in ("TUMBLING 1000", "SESSION 100"):
        (one,) = net(window)
        assert (one["value"]["count(*)"], one["missing"]) == (len(stream.events), lost)
    (one,) = net(f"ROWS {len(stream.events)}")
    assert one["missing"] == lost
