"""Matches, certainty and net result by definition: every purge and barrier, promises true and
broken, clocks that err and sources that have sent nothing yet, cut anywhere (SPEC 4.1-4.3).

Beside tests/products this alone sees how certain each match is pair by pair, what sources that have
sent nothing may still change, and how many promises were broken.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.barrier.slow_book import SlowBook
from tests.pattern.chain_lines import Line, answered, event, pog, results_of, sync
from tests.pattern.slow_certainty import (
    Definition,
    Tree,
    UncertainEvent,
    all_steps,
    lasts_of,
    steps_of,
    text_of,
    type_of,
)  # fmt: skip

WITHIN = 9
LATEST = 24
TREES: list[Tree] = [
    ("SEQ", "a", "b"), ("SEQ", "a", "!c", "b"), ("SEQ", "a", "b", "!c"), ("SEQ", "!c", "a", "b"),
    ("SEQ", "!d", "a", "b", "!c"), ("SEQ", "a", "!c", "b", "!d"), ("SEQ", "a", "b", "c"),
    ("AND", "a", "b"), ("SEQ", "a", ("AND", "b", "c")), ("SEQ", ("AND", "a", "b"), "!c", "d"),
    ("SEQ", "a", "!c", ("AND", "b", "d")), ("SEQ", "!c", ("AND", "a", "b")),
    ("SEQ", ("AND", "a", "b"), "!c"), ("SEQ", "a", "!a2", "b"),
    ("AND", "b", ("SEQ", "a", "!b2", "c")), ("AND", "a", "b", "c"),
]  # fmt: skip
SOURCES = ["s1", "s2", "s3", "s4"]
"""The last one never sends anything."""
EACH_ITS_OWN = [f"s{number}" for number in range(9)]
"""For R19's rule, so that no two events share a clock."""
BARRIERS = ["immediate", "punctuation", "bounded", "hold:0", "hold:5", "adaptive"]
PURGES = ["late", "late:D", "slack:K", "promises", "promises:D"]
COUNTS = ["promises_broken", "too_late", "matches_dropped", "matches_corrected", "buffered"]


@dataclass
class World:
    """A trace, and its events as they are to be understood."""

    lines: list[Line] = field(default_factory=list)
    seen: list[UncertainEvent] = field(default_factory=list)
    late: int = 0
    """How late an event came at most, behind the largest time before it."""
    t_a: int = 0


def world_of(
    chance: random.Random, types: list[str], sources: list[str], *, true: bool, resync: bool
) -> World:
    """Records at one instant each. Clocks are right within what they state, or so they say."""
    made, now, clock = World(), 1, {}
    for number, source in enumerate(sources):
        clock[source] = (chance.choice([0, 0, 1, 3, 6]), number)
        made.t_a = max(made.t_a, 2 * clock[source][0])
        made.lines.append(sync(source, clock[source][0]))
        # So that it is known whom to wait for.
        made.lines += [pog(kind, -100, source, 0) for kind in types]
    times = [chance.randint(0, LATEST) for _ in range(chance.randint(2, 8))]
    own = sources[: len(times)] if sources is EACH_ITS_OWN else None
    events = [
        (chance.choice(types), ts, own[row] if own else chance.choice(sources[:-1]))
        for row, ts in enumerate(times)
    ]
    if chance.random() < 0.5:
        events.sort(key=lambda one: one[1])
    newest = 0
    for row, (kind, ts, source) in enumerate(events):
        for _ in range(chance.choice([0, 1, 3])):
            said, by = chance.choice([*types, None]), chance.choice(sources)
            later = [t for k, t, s in events[row:] if s == by and said in (None, k)]
            most = min(later, default=LATEST + 20)
            promised = most if true else chance.randint(0, LATEST + 20)
            made.lines.append(pog(said, promised, by, now + row))
        if resync and chance.random() < 0.3:
            by, unc = chance.choice(sources), chance.choice([0, 2, 8])
            # The first sync has overtaken it, and both agree: it changes nothing.
            made.lines.append({**sync(by, unc, now + row), "ts": -1 - row})
        made.lines.append({**event(kind, ts, source, now + row), "seq": row})
        made.seen.append(UncertainEvent(kind, ts, *clock[source]))
        made.late, newest = max(made.late, newest - ts), max(newest, ts)
    return made


def rows_broken(world: World, types: list[str]) -> int:
    """How many events lie below what was promised for their type before they came."""
    book, found = SlowBook(frozenset(types)), 0
    for line in world.lines:
        if line.get("kind") == "pog":
            book.promise(line.get("type"), line["source"], line["ts"], 0, 0)
        elif "kind" not in line:
            found += line["ts"] < book.covered[line["type"]]
            book.event(line["type"], line["source"], 0, 0)
    return found


def standing(results: list[dict[str, Any]]) -> dict[tuple[int, ...], str]:
    """By rows, how certain what stands in the end is; each is given and taken back in turns."""
    out: dict[tuple[int, ...], str] = {}
    for r in results:
        rows = tuple(e["seq"] for e in r["events"])
        assert (r["op"] == "+") == (rows not in out), f"{r['op']}{rows}"
        if r["op"] == "+":
            out[rows] = r["certainty"]
        else:
            del out[rows]
    return out


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worlds")


def in_order(results: list[dict[str, Any]], tree: Tree, world: World) -> bool:
    """Whether results come first in the order of their last event's time."""
    places = [place for place, step in enumerate(steps_of(tree)) if step in lasts_of(tree)]
    given: dict[tuple[int, ...], int] = {}
    for r in results:
        rows = tuple(e["seq"] for e in r["events"])
        given.setdefault(rows, max(world.seen[rows[place]].ref for place in places))
    return list(given.values()) == sorted(given.values())


@pytest.mark.parametrize("purge", PURGES)
@pytest.mark.parametrize("barrier", BARRIERS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_by_definition(folder: Path, purge: str, barrier: str, seed: int) -> None:
    chance = random.Random(seed)
    tree, true, resync = chance.choice(TREES), chance.random() < 0.7, chance.random() < 0.2
    by_delay = not resync and chance.random() < 0.2
    sources = EACH_ITS_OWN if by_delay else SOURCES
    types = sorted({type_of(step) for step in all_steps(tree)})
    world = world_of(chance, types, sources, true=true, resync=resync)
    cuts = [chance.randint(1, len(world.lines)) for _ in range(chance.randint(1, 3))]
    ordered = chance.choice(["", ",ordered"])
    asked = {
        "barrier": (f"bounded:{world.late}" if barrier == "bounded" else barrier) + ordered,
        "purge": purge.replace("D", str(world.late)).replace("K", str(world.late)),
        "certainty": "max-delay-r19" if by_delay else "pairwise",
    }
    text = f"EVENT {text_of(tree)} WITHIN {WITHIN}"
    found, counts = results_of(folder, text, world.lines, **asked)
    again, counts_again = results_of(folder, text, world.lines, **asked, cuts=cuts)
    assert again == found
    assert [counts_again.get(name) for name in COUNTS] == [counts.get(name) for name in COUNTS]
    broken = rows_broken(world, types)
    assert not (true and broken)
    if "promises" in purge or barrier in ("punctuation", "adaptive"):
        assert counts["promises_broken"] == broken
    stands = standing(found)
    if not broken and not resync:
        assert barrier not in ("punctuation", "bounded") or all(r["op"] == "+" for r in found)
        assert not ordered or in_order(found, tree, world)
    if purge == "late" or not (resync or ("promises" in purge and broken)):
        wanted = Definition(tree, WITHIN, world.t_a if by_delay else None)
        assert stands == wanted.answers(world.seen)


@pytest.mark.parametrize("purge", PURGES)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_behind_an_order_nothing_is_late(folder: Path, purge: str, seed: int) -> None:
    """So nothing need be kept for what is, and progress is as good as a promise."""
    chance = random.Random(seed)
    tree = chance.choice(TREES)
    types = sorted({type_of(step) for step in all_steps(tree)})
    world = world_of(chance, types, SOURCES, true=True, resync=False)
    barrier = chance.choice([name.replace("bounded", "bounded:0") for name in BARRIERS])
    found, counts = results_of(
        folder, f"EVENT {text_of(tree)} WITHIN {WITHIN}", world.lines, barrier,
        purge.replace("D", "0").replace("K", "0"), f"kslack:{world.late}",
        [chance.randint(1, len(world.lines)) for _ in range(chance.randint(0, 2))],
    )  # fmt: skip
    assert counts.get("promises_broken", 0) == 0
    assert standing(found) == Definition(tree, WITHIN).answers(world.seen)
    if barrier in ("punctuation", "bounded:0"):
        assert all(r["op"] == "+" for r in found)


# ---- by hand ----------------------------------------------------------------------------------
AB, NOT_BETWEEN = "EVENT SEQ(A a, B b)", "EVENT SEQ(A a, !C c, B b)"
SECOND, MS = 10**9, 10**6
# x = 10, s2 errs by 8: a C at 18 may lie before it, one at 19 cannot.
UNSEEN = [sync("s1", 0), sync("s2", 8), pog("C", 0, "s2", 0), event("A", 2, "s1"),
          event("B", 10, "s1")]  # fmt: skip
ERRING = [
    sync("s1", 0), sync("s2", 8), event("B", 100, "s1"), pog("A", 101, "s2", 100),
    pog(None, 101, "s1", 100), event("A", 101, "s2"),
]  # fmt: skip
UPSET: list[Line] = [
    event("A", 1, "s", 1), event("B", 9, "s", 2), pog("A", 20, "s", 3), pog("B", 20, "s", 3),
    event("B", 5, "s", 8),
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """``emitted``: how each result begins."""

    text: str
    lines: list[Line]
    emitted: list[str]
    asked: dict[str, str]
    broken: int = 0


CASES = {
    "a result out of order is counted when it was held": Case(
        AB, UPSET, ["+1,9", "+1,5"], {"barrier": "hold:3,ordered"}, 1
    ),
    "a result out of order is counted when it came at once": Case(
        AB, UPSET, ["+1,9", "+1,5"], {"barrier": "immediate,ordered"}, 1
    ),
    "what an unseen source may need is kept": Case(
        AB, ERRING, ["+101,100 uncertain @101"], {"purge": "promises"}
    ),
    "what an unseen source may need is there": Case(AB, ERRING, ["+101,100 uncertain @101"], {}),
    "a clock may still reach the scope": Case(
        NOT_BETWEEN, [*UNSEEN, pog("C", 18, "s2", 30), event("F", 40, "s1")],
        ["+2,10 confirmed @40"], {"barrier": "punctuation"},
    ),
    "no clock reaches the scope any more": Case(
        NOT_BETWEEN, [*UNSEEN, pog("C", 19, "s2", 30), event("F", 40, "s1")],
        ["+2,10 confirmed @30"], {"barrier": "punctuation"},
    ),
    # At 0.1 % for 10 s a clock is wrong by 10 ms more than when it was synchronised.
    "what grows with the age of a sync is counted on": Case(
        NOT_BETWEEN,
        [sync("s1", 0), sync("s2", MS, skew_error_ppb=10**6), pog("C", 0, "s2", 0),
         event("A", 9 * SECOND, "s1"), event("B", 10 * SECOND, "s1"),
         pog("C", 10 * SECOND + 8 * MS, "s2", 10 * SECOND + 8 * MS),
         event("C", 10 * SECOND + 8 * MS, "s2", 10 * SECOND + 9 * MS)],
        [f"+{9 * SECOND},{10 * SECOND} uncertain"], {"barrier": "punctuation"},
    ),
    "a source that is synchronised while a match waits counts": Case(
        NOT_BETWEEN,
        [sync("s1", 0), sync("s2", 0), *UNSEEN[2:], sync("s2", 8, 11), pog("C", 12, "s2", 12),
         event("C", 12, "s2", 13)],
        ["+2,10 uncertain @13"], {"barrier": "punctuation"},
    ),
    # A at 20 and B at 9, each wrong by up to 6, may be a match that is older than 1,10.
    "results in order wait for what two errors may bring together": Case(
        AB,
        [sync("s1", 0), sync("s2", 6), sync("s3", 6), event("A", 1, "s1"), event("B", 10, "s1"),
         event("B", 9, "s2", 11), pog("A", 0, "s3", 11), pog(None, 99, "s1", 12),
         pog(None, 99, "s2", 13), pog(None, 17, "s3", 14), pog("B", 99, "s3", 15),
         event("A", 20, "s3"), pog(None, 99, "s3", 21)],
        ["+1,9 ", "+20,9 ", "+1,10 "], {"barrier": "immediate,ordered"},
    ),
    # B at 10 is kept for A at 1, exactly WITHIN before it: a C may still take the match back.
    "the first event may lie a whole WITHIN before": Case(
        f"{NOT_BETWEEN} WITHIN 9",
        [event("A", 1, "s1", 1), event("B", 10, "s1", 2), pog("A", 99, "s1", 3),
         pog("B", 99, "s1", 4), event("C", 5, "s1", 5)],
        ["+1,10 confirmed @2", "-1,10 confirmed @5"], {"purge": "promises"},
    ),
    # s2 has said nothing, and holds C back until C is known to come from s1.
    "who covers a type is looked at when an event comes": Case(
        NOT_BETWEEN,
        [event("F", 1, "s2", 1), event("A", 1, "s1", 1), event("B", 5, "s1", 2),
         pog(None, 9, "s1", 3), event("C", 9, "s1", 4), event("F", 20, "s2", 20)],
        ["+1,5 confirmed @4"], {"barrier": "punctuation"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_by_hand_under_any_cut(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    every = range(1, len(case.lines))
    for cuts in ((), tuple(every), *itertools.combinations(every, 1)):
        found, counts = answered(tmp_path, case.text, case.lines, cuts=cuts, **case.asked)
        assert len(found) == len(case.emitted)
        assert all(r.startswith(want) for r, want in zip(found, case.emitted, strict=True)), found
        assert counts.get("promises_broken", 0) == case.broken


@pytest.mark.parametrize(
    ("text", "x"),
    [("SEQ(A a, !C c, B b)", 10), ("SEQ(A a, B b, !C c)", 18), ("SEQ(!C c, A a, B b)", 2)],
)
@pytest.mark.parametrize("barrier", ["punctuation", "punctuation,ordered", "bounded:0"])
def test_nothing_leaves_before_an_unseen_source_cannot_change_it(
    tmp_path: Path, text: str, x: int, barrier: str
) -> None:
    """s2 promises that nothing below x + 2 comes, and what it sends then may lie 8 earlier."""
    lines = [*UNSEEN, pog("C", x + 2, "s2", x + 10), pog(None, x + 2, "s1", x + 10),
             event("C", x + 2, "s2", x + 11)]  # fmt: skip
    if barrier == "bounded:0":
        c = max(x + 2, 10)
        lines[5:] = [event("F", c - 1, "s1", x + 10), event("C", c, "s2", x + 11)]
    found, counts = answered(tmp_path, f"EVENT {text} WITHIN 16", lines, barrier)
    assert (counts["promises_broken"], [result[0] for result in found]) == (0, ["+"])
    assert "uncertain" in found[0]
