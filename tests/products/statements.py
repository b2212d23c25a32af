"""Windows, repetitions, constraints, and statements over results, with what they answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.constraint.slow_traces import Seq
from tests.constraint.test_monitor import by_definition
from tests.pattern.conftest import Event as ReleasedEvent
from tests.pattern.repetition.slow_repetition import Slow
from tests.products.questions import (
    Answers,
    Pattern,
    Question,
    Result,
    before,
    counted,
    keyed,
    named,
    of_match,
)
from tests.products.worlds import Event
from tests.window.plain import STAGES, Product


# ---- windows -----------------------------------------------------------------------------------
def _plain_number(value: Any) -> Any:
    return round(float(value), 6) + 0.0 if isinstance(value, int | float) else value


def of_window(shifts: str) -> Callable[[Result], str]:
    """``shifts``: "", or the drift of R19's windows: TOGETHER or EACH."""

    def key(result: Result) -> str:
        where = result.get("window", result)
        stage = result.get("drift")  # R19's flag
        asked = {"": [], "TOGETHER": STAGES, "EACH": [stage]}[shifts]
        shown = {
            name: {one: _plain_number(value) for one, value in result[name].items()}
            for name in ("value", *asked)
        }
        return keyed(where["start"], where["end"], stage, result["key"], shown)

    return key


def window(product: Product, error: int = 0) -> Question:
    """``error``: of all clocks; then there are results of windows with possible events alone."""

    def plain(events: Sequence[Event]) -> Answers:
        return Counter(map(key, product.answers(counted(events), error)))

    key = of_window(product.drift)
    return Question(product.text, plain, key, kind="window")


# ---- repetitions and constraints: their own definitions ----------------------------------------
def released(event: Event, **attrs: Any) -> ReleasedEvent:
    shown = {name: event[name] for name in ("v", "w", "g", "h") if event[name] is not None}
    return ReleasedEvent(
        event["type"], event["ts"], source=event["source"], attrs=shown | attrs,
        long=event["te"] - event["ts"], seq=event["n"],
    )  # fmt: skip


def repetition(text: str) -> Question:
    def plain(events: Sequence[Event]) -> Answers:
        as_came = sorted(events, key=lambda event: event["n"])
        slow = Slow(text, [released(event) for event in as_came])
        return Counter(
            keyed([named(as_came[row]) for _, row in match], None)
            for match in slow.matches(range(len(as_came)))
        )

    return Question(text, plain, of_match, settled="CONTIGUITY" not in text and "LIMIT" not in text)


REPETITIONS = {
    text: repetition(f"EVENT {text}")
    for text in (
        "SEQ(A a, B+ b[], C c) WITHIN 14",
        "SEQ(A{1,2} a[], C c) WHERE c.g = 1 WITHIN 12 CONTIGUITY NEXT",
        "SEQ(A a, B? b, C c) WITHIN 12 PARTITION BY g CONTIGUITY STRICT",
        "SEQ(A+ a[] UNTIL a.v > 1, C c) WITHIN 12",
        "SEQ(A a, !N n, B+ b[]) WHERE b[i].v > b[i - 1].v WITHIN 15",
        "SEQ(A{1,2} a[], !N n, A{1,2} b[]) WITHIN 14 PARTITION BY g",
        "SEQ(A+ a[], OR(A, C) c, A* d[]) WITHIN 9 LIMIT 2",
    )
}


def constraint(seq: Seq, flow: str) -> Question:
    text = f"{seq.text()} UNDER CONSTRAINT flow FOR TRACE BY g AS {flow}"

    def plain(events: Sequence[Event]) -> Answers:
        in_order = sorted(events, key=lambda event: event["ts"])
        given = [released(event, id=event["g"]) for event in in_order]
        return Counter(
            keyed(alert, str(trace), in_order[row]["source"], in_order[row]["seq"])
            for row, alert, trace in by_definition(flow, seq, given)
        )

    def key(result: Result) -> str:
        return keyed(*(result[name] for name in ("alert", "trace", "source", "seq")))

    return Question(text, plain, key, instants=True, settled=False, kind="alert")


CONSTRAINTS = {
    flow: constraint(seq, flow)
    for seq, flow in (
        (Seq((("A",), ("B",)), ("C",)), "A+, C*, B+, (C | A)*"),
        (Seq((("A", "C"),), ()), "(A | B | C){2,4}"),
        (Seq((("A",), ("C",), ("A",)), ("", "")), "(A | B | C | N)*"),
        (Seq((("B",), ("B",)), ("",)), "(A, B?) & C*"),
    )
}


# ---- statements over results -------------------------------------------------------------------
def _of_windows(name: str, product: Product) -> Callable[[Sequence[Event]], list[Event]]:
    """The events that the results of ``product`` are."""

    def made(events: Sequence[Event]) -> list[Event]:
        rows = product.kind[0] == "ROWS"
        return [
            {"type": name, "stream": name, "source": name, "seq": None,
             "ts": each["start"], "te": each["end"] - (not rows), **each["key"],
             "n": each["value"]["n"], "v": each["value"]["max(v)"]}
            for each in product.answers(counted(events), 0)
        ]  # fmt: skip

    return made


def _of_matches(
    name: str, found: Pattern, columns: Callable[[dict[str, Event]], dict[str, Any]]
) -> Callable[[Sequence[Event]], list[Event]]:
    def made(events: Sequence[Event]) -> list[Event]:
        return [
            {"n": place, "type": name, "stream": name, "source": name, "seq": None,
             "ts": min(e["ts"] for e in bound.values()), "te": max(e["te"] for e in bound.values()),
             **columns(bound)}
            for place, bound in enumerate(found.bound(events))
        ]  # fmt: skip

    return made


def over(
    made: Sequence[tuple[str, Callable[[Sequence[Event]], list[Event]]]], last: Question
) -> Question:
    """``made``: (text of a named statement, its results as events), each over the one before."""

    def plain(events: Sequence[Event]) -> Answers:
        for _, of in made:
            events = of(events)
        return last.plain(events)

    text = ";".join([*(text for text, _ in made), last.text])
    return replace(last, text=text, plain=plain, settled=False, kind=last.kind + " over results")


def _windows(*kind: Any, emit: str = "") -> tuple[str, Callable[[Sequence[Event]], list[Event]]]:
    product = Product(kind, ("g",), ("max(v)",), "", "", None, "", emit)  # type: ignore[arg-type]
    text = "CREATE STREAM w AS " + product.text.replace("max(v)", "max(v) AS v")
    return text, _of_windows("w", product)


_PAIRS = Pattern({"a": "A", "b": "B"}, 9, lambda b: before(b["a"], b["b"]))
_FOUND = (
    "CREATE STREAM m AS EVENT SEQ(A a, B b) WITHIN 9 RETURN a.v AS v, b.g AS g",
    _of_matches("m", _PAIRS, lambda b: {"v": b["a"]["v"], "g": b["b"]["g"]}),
)


def _from(stream: str, product: Product) -> Question:
    asked = window(product)
    return replace(asked, text=asked.text.replace(" WINDOW", f" FROM {stream} WINDOW"))


def _rising(name: str, length: int) -> Question:
    found = Pattern(
        {"a": name, "b": name}, length,
        lambda b: before(b["a"], b["b"]) and b["a"]["g"] == b["b"]["g"]
        and b["b"]["n"] > b["a"]["n"],
        shows=lambda b: {"x": b["a"]["n"], "y": b["b"]["n"]},
    )  # fmt: skip
    steps = f"EVENT SEQ({name} a, {name} b) WHERE a.g = b.g AND b.n > a.n"
    text = f"{steps} WITHIN {length} RETURN a.n AS x, b.n AS y"
    return Question(text, found.answers, of_match)


def _time(size: int, step: int | None = None, **more: Any) -> Product:
    """Windows of time of ``g``: how many, and the sum of v."""
    kind = ("TUMBLING", size, size) if step is None else ("SLIDING", size, step)
    plain = Product(kind, ("g",), (), "", "", None, "", "")
    return replace(plain, **more)


CASCADES: dict[str, Question] = {
    "window, pattern": over([_windows("TUMBLING", 8, 8)], _rising("w", 40)),
    "pattern, window": over([_FOUND], _from("m", _time(20))),
    "pattern, sliding": over([_FOUND], _from("m", _time(10, 4, group=(), asked=("median(v)",)))),
    "pattern, early windows": over(
        [_FOUND], _from("m", _time(20, having="n > 1", emit="EMIT ON CHANGE"))
    ),
    "window, sessions": over(
        [_windows("TUMBLING", 8, 8, emit="EMIT ON CHANGE")],
        _from("w", replace(_time(8), kind=("SESSION", 17, 17))),
    ),
    "rows, pattern": over([_windows("ROWS", 2, 2)], _rising("w", 60)),
    "sessions, pattern": over(
        [_windows("SESSION", 6, 6, emit="EMIT EARLY EVERY 5")], _rising("w", 60)
    ),
}
