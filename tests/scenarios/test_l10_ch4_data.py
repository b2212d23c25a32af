"""L10 chapter 4's streams and counting: by their definitions, and by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import IN_ORDER
from slackwater.scenarios.papers.l10.ch4.built import built
from slackwater.scenarios.papers.l10.ch4.sequence_scan import SEARCHES, Scan, scan
from slackwater.scenarios.papers.l10.ch4.streams import TYPES, PointStream, released, stream

SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)


@pytest.mark.parametrize("late_share", SHARES)
@pytest.mark.parametrize("slack", [20, 60])
def test_exactly_the_wanted_share_is_out_of_order_and_none_beyond_the_slack(
    late_share: float, slack: int
) -> None:
    made = stream(2000, late_share, slack, seed=3)
    newest, out_of_order, longest = -1, [], 0
    for ts in made.ts.tolist():
        out_of_order.append(ts < newest)
        newest = max(newest, ts)
        longest = max(longest, newest - ts)
    assert out_of_order == made.late.tolist()
    assert sum(out_of_order) == round(2000 * late_share)
    assert longest <= slack
    assert longest > slack / 2 or not late_share
    assert sorted(made.ts.tolist()) == list(range(2000))
    assert set(made.kind.tolist()) == set(range(len(TYPES)))


def test_the_same_seed_gives_the_same_stream_and_another_another() -> None:
    first, again, other = stream(500, 0.5, 20, 1), stream(500, 0.5, 20, 1), stream(500, 0.5, 20, 2)
    assert np.array_equal(first.ts, again.ts)
    assert np.array_equal(first.kind, again.kind)
    assert not np.array_equal(first.ts, other.ts)


def test_a_slack_too_small_for_the_share_is_an_error() -> None:
    with pytest.raises(ValueError, match="90% cannot be out of order with a slack of 5"):
        stream(1000, 0.9, 5, 1)


def test_the_matcher_is_given_the_stream_as_it_arrives() -> None:
    made = stream(300, 0.3, 20, 1)
    batch = released(made)
    assert batch.columns["ref"].tolist() == made.ts.tolist()
    assert [batch.strings.text(code) for code in batch.columns["type"].tolist()] == [
        TYPES[kind] for kind in made.kind.tolist()
    ]
    assert batch.columns["release"].tolist() == list(range(300))
    assert set(batch.columns["status"].tolist()) == {IN_ORDER}
    assert not batch.columns["unc"].any()


def by_definition(ts: list[int], kind: list[int], steps: int, within: int) -> set[tuple[int, ...]]:
    by_step = [[row for row, of in enumerate(kind) if of == step] for step in range(steps)]
    return {
        rows
        for rows in itertools.product(*by_step)
        if all(ts[a] < ts[b] for a, b in itertools.pairwise(rows))
        and ts[rows[-1]] - ts[rows[0]] <= within
    }


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 4),
    st.permutations(range(12)),
    st.lists(st.integers(0, 3), min_size=12, max_size=12),
    st.integers(0, 12),
    st.sampled_from(list(SEARCHES.values())),
    st.booleans(),
    st.booleans(),
)
def test_the_scan_finds_every_match_of_any_order(
    steps: int, ts: list[int], kind: list[int], within: int, search: int, clock: bool,
    partition: bool,
) -> None:  # fmt: skip
    """With a slack that covers all; the stacks are sorted, and RIPs count what is older."""
    kind = [of % steps for of in kind]
    asked = Scan(within, 12, clock=clock, partition=partition, search=search)
    found = scan(np.array(ts, np.int64), np.array(kind, np.int64), steps, asked)
    assert found.matches == len(by_definition(ts, kind, steps, within))
    for step, (times, rips) in enumerate(found.stacks):
        assert times == sorted(time for time, of in zip(ts, kind, strict=True) if of == step)
        before = found.stacks[step - 1][0] if step else []
        assert rips == [sum(other < time for other in before) for time in times]


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 4), st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(0, 12))
def test_with_late_handling_off_every_match_of_an_ordered_stream_is_found(
    steps: int, kind: list[int], within: int
) -> None:
    kind, ts = [of % steps for of in kind], list(range(len(kind)))
    asked = Scan(within, 5, late=False)
    found = scan(np.array(ts, np.int64), np.array(kind, np.int64), steps, asked)
    assert found.matches == len(by_definition(ts, kind, steps, within))
    assert found.steps == 0


def built_one_by_one(
    made: PointStream, steps: int, within: int, slack: int, *, partition: bool
) -> tuple[int, int]:
    """Every sequence that Algorithm 7 builds, made."""
    counts = [0, 0]
    stacks: list[list[int]] = [[] for _ in range(steps)]
    clock = -1
    for now, step in zip(made.ts.tolist(), made.kind.tolist(), strict=True):
        is_newest = now > clock
        clock = max(clock, now)
        stacks = [[ts for ts in stack if ts + within + slack >= clock] for stack in stacks]
        stacks[step].append(now)
        if is_newest and step < steps - 1:
            continue
        seen = [
            [ts for ts in stack if not (is_newest and partition) or ts + within >= clock]
            for stack in stacks
        ]
        seen[step] = [now]
        counts[not is_newest] += sum(
            all(a < b for a, b in itertools.pairwise(one)) for one in itertools.product(*seen)
        )
    return counts[0], counts[1]


@pytest.mark.parametrize("partition", [False, True])
@pytest.mark.parametrize(("late_share", "slack"), [(0.0, 6), (0.4, 6), (0.7, 20)])
def test_sequences_built_are_counted_as_if_built(
    partition: bool, late_share: float, slack: int
) -> None:
    for seed in range(5):
        made = stream(60, late_share, slack, seed)
        three = PointStream(made.ts, made.kind % 3, made.late)
        counted = built(three.ts, three.kind, 3, 7, slack, partition)
        assert counted == built_one_by_one(three, 3, 7, slack, partition=partition)


def test_with_the_partition_an_ordered_stream_builds_matches_only() -> None:
    made = stream(3000, 0.0, 20, 1)
    matches = scan(made.ts, made.kind, len(TYPES), Scan(20, 20)).matches
    assert built(made.ts, made.kind, len(TYPES), 20, 40, True) == (matches, 0)
    assert built(made.ts, made.kind, len(TYPES), 20, 40, False)[0] > 100 * matches
