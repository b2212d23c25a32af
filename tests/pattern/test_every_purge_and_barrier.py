"""Matches, certainty and net result by definition: every purge and barrier, promises true and
broken, clocks that err and sources that have sent nothing yet, cut anywhere (SPEC 4.1-4.3).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.barrier.slow_book import SlowBook
from tests.pattern.chain_lines import Line, event, pog, results_of, sync
from tests.pattern.slow_certainty import Definition, Seen, Tree, all_steps, text_of, type_of

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
BARRIERS = ["immediate", "punctuation", "bounded", "hold:0", "hold:5", "adaptive"]
PURGES = ["late", "late:D", "slack:K", "promises", "promises:D"]
COUNTS = ["promises_broken", "too_late", "matches_dropped", "matches_corrected", "buffered"]


@dataclass
class World:
    """A trace, and its events as they are to be understood."""

    lines: list[Line] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    late: int = 0
    """How late an event came at most, behind the largest time before it."""


def world_of(chance: random.Random, types: list[str], *, true: bool, resync: bool) -> World:
    """Records at one instant each. Clocks are right within what they state, or so we are told."""
    made, now, clock = World(), 1, {}
    for number, source in enumerate(SOURCES):
        clock[source] = (chance.choice([0, 0, 1, 3, 6]), number)
        made.lines.append(sync(source, clock[source][0]))
        # So that it is known whom to wait for.
        made.lines += [pog(kind, -100, source, 0) for kind in types]
    times = [chance.randint(0, LATEST) for _ in range(chance.randint(2, 8))]
    events = [(chance.choice(types), ts, chance.choice(SOURCES[:-1])) for ts in times]
    if chance.random() < 0.5:
        events.sort(key=lambda one: one[1])
    newest = 0
    for row, (kind, ts, source) in enumerate(events):
        for _ in range(chance.choice([0, 1, 3])):
            said, by = chance.choice([*types, None]), chance.choice(SOURCES)
            later = [t for k, t, s in events[row:] if s == by and said in (None, k)]
            most = min(later, default=LATEST + 20)
            promised = most if true else chance.randint(0, LATEST + 20)
            made.lines.append(pog(said, promised, by, now + row))
        if resync and chance.random() < 0.3:
            by, unc = chance.choice(SOURCES), chance.choice([0, 2, 8])
            clock[by] = (unc, len(made.lines))
            made.lines.append({**sync(by, unc, now + row), "ts": -1 - row})
        made.lines.append({**event(kind, ts, source, now + row), "seq": row})
        made.seen.append(Seen(kind, ts, *clock[source]))
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


@pytest.mark.parametrize("purge", PURGES)
@pytest.mark.parametrize("barrier", BARRIERS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_by_definition(folder: Path, purge: str, barrier: str, seed: int) -> None:
    chance = random.Random(seed)
    tree, true, resync = chance.choice(TREES), chance.random() < 0.7, chance.random() < 0.2
    types = sorted({type_of(step) for step in all_steps(tree)})
    world = world_of(chance, types, true=true, resync=resync)
    cuts = [chance.randint(1, len(world.lines)) for _ in range(chance.randint(1, 3))]
    ordered = chance.choice(["", ",ordered"])
    named = (f"bounded:{world.late}" if barrier == "bounded" else barrier) + ordered
    kept = purge.replace("D", str(world.late)).replace("K", str(world.late))
    text = f"EVENT {text_of(tree)} WITHIN {WITHIN}"
    found, counts = results_of(folder, text, world.lines, named, kept)
    again, counts_again = results_of(folder, text, world.lines, named, kept, cuts=cuts)
    assert again == found
    assert [counts_again.get(name) for name in COUNTS] == [counts.get(name) for name in COUNTS]
    broken = rows_broken(world, types)
    assert not (true and broken)
    if "promises" in kept or barrier in ("punctuation", "adaptive"):
        assert counts["promises_broken"] == broken
    stands = standing(found)
    if barrier in ("punctuation", "bounded") and not broken and not resync:
        assert all(r["op"] == "+" for r in found)
    if (purge == "late") or not (resync or ("promises" in kept and broken)):
        assert stands == Definition(tree, WITHIN).answers(world.seen)
