"""Matches whose events have expired, above all under SKIP and LIMIT: a consumer that keeps a set of
the results never loses one that it was not given, and what stands is a choice.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from slackwater.engine.query.pattern_settings import PatternSettings
from tests.clocks.test_clock_cases import changes, event, sync

US, MS = 1_000, 1_000_000
PATTERNS = [
    "SEQ(A{1,2} a[], B b)",
    "SEQ(A a, B{1,3} b[])",
    "SEQ(A+ a[], !C c, B b)",
    "SEQ(A a, B b, !C c)",
    "SEQ(!C c, A a, B? b, A d)",
]
SIMPLE = ["SEQ(A a, B b)", "SEQ(A a, !C c, B b)", "SEQ(!C c, A a, B b)", "AND(A a, B b)"]
CHOICES = [
    "SKIP PAST LAST EVENT", "SKIP TO NEXT", "LIMIT 1", "LIMIT 2",
    "CONTIGUITY NEXT SKIP PAST LAST EVENT", "CONTIGUITY STRICT SKIP TO NEXT",
    "CONTIGUITY NEXT LIMIT 1", "", "CONTIGUITY NEXT",
]  # fmt: skip
Match = tuple[tuple[str, int], ...]


def text_of(pattern: str, choice: str, by: str) -> str:
    before, limit, n = choice.partition("LIMIT")
    return f"EVENT {pattern} {by} {before} WITHIN 12 us {limit}{n}"


def world(chance: random.Random, *, refutes: bool) -> list[dict[str, Any]]:
    """Events of two clocks that err by up to 3 us, some far too late; two events may arrive before
    they happened.
    """
    wide = chance.choice([0, 1, 3]) * US
    records = [sync("p", 0, delay=2 * wide), sync("q", 0, delay=2)]
    at = 10 * MS
    times = sorted(chance.sample(range(200), 45))
    for n in range(len(times)):  # some are moved back in the order of arrival
        if chance.random() < 0.15:
            other = min(len(times) - 1, n + chance.randrange(1, 9))
            times[n], times[other] = times[other], times[n]
    for n, time in enumerate(times):
        at += US
        if refutes and n in (22, 35):
            early = {"attrs": {"n": -n, "k": 0}, "arrival": at}
            records.append(event("p", "D", at + chance.choice([2, 20]) * US, **early))
        attrs = {"n": n, "k": chance.choice([0, 0, 1])}
        records.append(event(chance.choice("pqq"), chance.choice("AAABBC"), time * US, attrs=attrs,
                             arrival=at))  # fmt: skip
    return records


def applied(found: list[dict[str, Any]]) -> list[Match]:
    """What a set of the results holds in the end."""
    standing: dict[Match, dict[str, Any]] = {}
    for each in found:
        match = tuple((one["source"], one["attrs"]["n"]) for one in each["events"])
        said = {name: value for name, value in each.items() if name not in ("op", "at")}
        if each["op"] == "+":
            assert match not in standing, "given twice"
            standing[match] = said
        else:
            assert standing.pop(match, None) == said, "taken back without having been given"
    return list(standing)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2))]
)
@pytest.mark.parametrize("refutes", [False, True])
@pytest.mark.parametrize("choice", CHOICES)
def test_what_is_taken_back_was_given(choice: str, refutes: bool, seed: int) -> None:
    chance = random.Random(f"{choice} {refutes} {seed}")
    records = world(chance, refutes=refutes)
    pattern = chance.choice(PATTERNS if choice else PATTERNS + SIMPLE)
    by = chance.choice(["", "PARTITION BY k"])
    text = text_of(pattern, choice, by)
    kept = PatternSettings(
        keep_late_ns=chance.choice([0, 3, 10]) * US,
        certainty=chance.choice(["pairwise", "pairwise", "max-delay"]),
    )
    found = changes(text, records, guard=10**9, pattern=kept)
    standing = applied(found)
    assert found == changes(text, records, guard=10**9, pattern=kept, at_once=True), text
    is_choice(standing, records, choice, by)


def is_choice(standing: list[Match], records: list[dict[str, Any]], choice: str, by: str) -> None:
    """Whether what stands may stand together."""
    shift = {record["source"]: record["offset"] for record in records if "offset" in record}
    known = {
        (one["source"], one["attrs"]["n"]): (one["ts"] + shift[one["source"]], one["attrs"]["k"])
        for one in records if "type" in one
    }  # fmt: skip
    per: dict[Any, int] = {}
    spans: dict[int, list[tuple[int, int]]] = {}
    for match in standing:
        if "LIMIT" in choice:
            per[match[-1]] = per.get(match[-1], 0) + 1
            assert per[match[-1]] <= int(choice[-1])
        elif "TO NEXT" in choice:
            per[match[0]] = per.get(match[0], 0) + 1
            assert per[match[0]] == 1
        elif "PAST" in choice:
            partition = known[match[0]][1] if by else 0
            spans.setdefault(partition, []).append((known[match[0]][0], known[match[-1]][0]))
    for each in spans.values():
        each.sort(key=lambda span: span[1])
        assert all(one[1] < two[0] for one, two in itertools.pairwise(each)), each
