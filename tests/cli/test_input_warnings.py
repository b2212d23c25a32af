"""What commands say of an input that lacks what an order, a barrier or a query needs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.pipeline import check_plans
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.query import query


def delayed(numbers: bool, n: int = 4_000) -> list[dict[str, Any]]:
    """Two sources whose events are delayed each on its own, so that half overtake others."""
    rng = random.Random(5)
    made = [
        {"source": "ab"[row % 2], "seq": row // 2, "ts": row * 10, "type": "A",
         "arrival": row * 10 + rng.randrange(200)}
        for row in range(n)
    ]  # fmt: skip
    made.sort(key=lambda record: record["arrival"])
    if not numbers:
        for record in made:
            del record["seq"]
    return made


ASKED = {
    "order": ("order", "--clock", "exact"),
    "query": ("query", "SELECT count(*) FROM events WINDOW TUMBLING 1 s", "--clock", "exact"),
}


@pytest.mark.parametrize("command", ASKED)
def test_a_recording_without_numbers_gets_the_order_that_fits(
    cli: Any, trace: Any, command: str
) -> None:
    given = trace(*delayed(numbers=False))
    by_lines = ("--order", "sequence", "--quiet")
    ran = cli(*ASKED[command], "--input", given, "--time-unit", "ms", *by_lines)
    (line,) = (line for line in ran.err.splitlines() if line.startswith("warning:"))
    assert "of 4,000 events lie before one of their source with a smaller number" in line
    assert "--order kslack:180ms" in line
    assert f"slackwater compare --input {given}" in line
    fits = cli(*ASKED[command], "--input", given, "--time-unit", "ms", "--order", "kslack:200ms")
    assert "warning" not in fits.err
    assert "late" not in fits.err


@pytest.mark.parametrize("command", ASKED)
def test_a_recording_with_numbers_is_not_warned_of(cli: Any, trace: Any, command: str) -> None:
    given = trace(*delayed(numbers=True))
    ran = cli(*ASKED[command], "--input", given, "--time-unit", "ms", "--quiet")
    assert (ran.code, ran.err) == (0, "")


def test_compare_says_why_no_sequence_suits(cli: Any, trace: Any) -> None:
    reported = "events lie before one of their source with a smaller number"
    ran = cli("compare", "--input", trace(*delayed(numbers=False)), "--time-unit", "ms", "--quiet")
    assert "Recommended: kslack:" in ran.out
    assert reported in ran.out
    ran = cli("compare", "--input", trace(*delayed(numbers=True)), "--time-unit", "ms", "--quiet")
    assert reported not in ran.out


PAIRS = "EVENT SEQ(A a, !C c, B b) WITHIN 9 ns"


def test_hold_counts_lines_where_there_are_no_arrivals_and_says_so(cli: Any, trace: Any) -> None:
    records = [{"type": "A", "ts": 1}, {"type": "B", "ts": 4}, {"type": "D", "ts": 5}]
    ran = cli("query", PAIRS, "--input", trace(*records), "--barrier", "hold:1us", "--quiet")
    assert ran.code == 0
    assert ran.err.startswith("warning: the input has no arrival times, line numbers replace th")
    assert "barrier hold keeps each match for 1,000 lines" in ran.err
    assert "such as bounded:1s" in ran.err
    timed = [{**record, "arrival": 10 + row} for row, record in enumerate(records)]
    for given, barrier in ((timed, "hold:1us"), (records, "bounded:1us")):
        ran = cli("query", PAIRS, "--input", trace(*given), "--barrier", barrier, "--quiet")
        assert (ran.code, ran.err) == (0, "")


EVENTS = [
    {"type": "SHELF", "ts": 1},
    {"type": "EXIT", "ts": 2},
    {"kind": "pog", "type": "GATE", "ts": 3},
]


def warnings_of(
    cli: Any, trace: Any, *texts: str, records: Any = EVENTS, more: tuple[str, ...] = ()
) -> str:
    ran = cli("query", *texts, "--input", trace(*records), "--in-process", *more)
    assert ran.code == 0
    return str(ran.err)


def test_what_must_not_occur_may_be_of_no_event(cli: Any, trace: Any) -> None:
    err = warnings_of(cli, trace, "EVENT SEQ(SHELF s, !COUNTER c, EXIT e) WITHIN 5 s")
    assert err.splitlines()[0] == (
        "q1, line 1, column 21: no event is of type 'COUNTER'; there is EXIT, SHELF"
    )


def test_each_query_and_each_alternative_once(cli: Any, trace: Any) -> None:
    err = warnings_of(
        cli, trace, "EVENT SEQ(SHELF s, EXIT e, EXIT f)",
        "EVENT OR(SEQ(GATE g, GATE h), SEQ(SHELF s, EXIT e)) WITHIN 5 s",
    )  # fmt: skip
    assert err.count("no event is of type") == 1
    assert "q2, line 1, column 14: no event is of type 'GATE'" in err


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "EVENT SEQ(SHELV s, !COUNTER c, EXIT e) WITHIN 5 s",
            "line 1, column 11: no event is of type 'SHELV'; there is EXIT, SHELF; did you mean",
        ),
        ("EVENT SEQ(SHELF s, !EXITS e) WITHIN 5 s", "'EXITS'; there is EXIT, SHELF; did you mean"),
        ("EVENT SEQ(SHELF s, GATE g) WITHIN 5 s", "'GATE'; there is EXIT, SHELF"),
        ("EVENT SEQ(SHELF s, GATE+ g[]) WITHIN 5 s", "'GATE'; there is EXIT, SHELF"),
        ("EVENT OR(GATE g, DOOR d) WITHIN 5 s", "'GATE'; there is EXIT, SHELF"),
        ("SELECT count(*) FROM evnts WINDOW TUMBLING 5", "'evnts'; there is events; did you mean"),
        (
            "SELECT a.ts FROM events a LEFT JOIN exits b ON a.x = b.x WITHIN 3 s",
            "'exits'; there is events",
        ),
        ("SELECT avg(weight) WINDOW TUMBLING 5", "no event has an attribute 'weight'"),
    ],
)
def test_what_no_event_of_a_file_has_is_an_error(
    text: str, said: str, quiet: tuple[str, ...], cli: Any, trace: Any
) -> None:
    ran = cli(
        "query",
        text,
        "--input",
        trace(*[{**each, "attrs": {"x": 1}} for each in EVENTS[:2]]),
        *quiet,
    )
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err, ran.err


def test_events_without_types_say_how_to_give_them(cli: Any, trace: Any) -> None:
    ran = cli("query", "EVENT SEQ(A a, B b) WITHIN 5 s", "--input", trace({"ts": 1}))
    assert ran.code == 2
    assert "no event is of type 'A'; --map type=COLUMN says which column has it" in ran.err


def test_what_need_not_occur_may_be_of_no_event(cli: Any, trace: Any) -> None:
    text = "EVENT SEQ(SHELF s, GATE* g[], EXIT e) WITHIN 5 s"
    assert "no event is of type 'GATE'" in warnings_of(cli, trace, text)


def test_a_log_may_still_get_what_it_lacks(cli: Any, trace: Any) -> None:
    assert cli("log", "import", trace(*EVENTS), "--out", "t.log").code == 0
    ran = cli("query", "EVENT SEQ(SHELV s, EXIT e) WITHIN 5 s", "--input", "t.log")
    assert ran.code == 0
    assert "no event is of type 'SHELV'; there is EXIT, SHELF; did you mean 'SHELF'?" in ran.err


def test_results_are_streams_of_their_own(cli: Any, trace: Any) -> None:
    text = (
        "CREATE STREAM pair AS EVENT SEQ(SHELF s, EXIT e) WITHIN 5 s RETURN s.ts AS at; "
        "EVENT pair p; SELECT count(*) FROM pair WINDOW TUMBLING 5"
    )
    assert "no event is of" not in warnings_of(cli, trace, text)


@pytest.mark.parametrize(
    ("texts", "more"),
    [
        (("EVENT SEQ(SHELF s, EXIT e)",), ()),
        (("SELECT count(*) FROM events WINDOW TUMBLING 5",), ("--order", "none")),
        (("EVENT SEQ(SHELF s, !GATE g) WITHIN 5 s",), ("--quiet",)),
    ],
)
def test_nothing_to_tell(
    texts: tuple[str, ...], more: tuple[str, ...], cli: Any, trace: Any
) -> None:
    assert "no event is of type" not in warnings_of(cli, trace, *texts, more=more)


def test_many_types_are_not_all_listed(cli: Any, trace: Any) -> None:
    records = [{"type": f"T{number}", "ts": number} for number in range(11)]
    err = cli("query", "EVENT SEQ(NONE n)", "--input", trace(*records)).err
    assert "there is T0, T1, T10, T2, T3, T4, T5, T6 and 3 more\n" in err


def test_late_events_of_an_earlier_start_warn_with_a_remedy(
    cli: Callable[..., Any], trace: Callable[..., str]
) -> None:
    def record(incarnation: int, seq: int, ts: int) -> dict[str, Any]:
        return {"type": "A", "incarnation": incarnation, "seq": seq, "ts": ts, "arrival": ts}

    lines = [record(3, n, n) for n in range(5)] + [record(0, n, 10 + n) for n in range(4)]
    name = trace(*lines)
    ran = cli("order", "--input", name, "--guard", "off")
    assert ran.code == 0
    assert "4 of the late events are of an earlier start of their source" in ran.err
    assert "each needs a larger incarnation" in ran.err
    ran = cli("order", "--input", name, "--guard", "off", "--order", "kslack:1s")
    assert "earlier start" not in ran.err
    assert len(ran.out.splitlines()) == 9


@pytest.fixture(name="log")
def _log(tmp_path: Path) -> Path:
    """Frames without attributes (as before the first event), with ``tag``, with ``late``."""
    plain = {"source": pa.array(["s"]), "seq": pa.array([0]), "ts": pa.array([0])}
    with LogWriter(tmp_path / "log") as writer:
        for at, attrs in enumerate(((), ("tag",), ("late",))):
            columns = plain | {"arrival": pa.array([at])}
            columns |= {f"attrs.{name}": pa.array([7]) for name in attrs}
            batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            writer.append(Frame("main", batch))
    return tmp_path / "log"


@pytest.mark.parametrize("name", ["tag", "late"])
@pytest.mark.parametrize("returned", ["", " RETURN a.ts"])
def test_attributes_that_come_later_are_found(log: Path, name: str, returned: str) -> None:
    text = f"EVENT SEQ(A a, B b) WHERE a.{name} = b.{name} WITHIN 5 s{returned}"
    check_plans(log, [query(text, name="q")])


def test_an_attribute_that_never_comes_is_reported_with_those_there_are(log: Path) -> None:
    with pytest.raises(UserError, match=r"no event has an attribute 'tug'(.|\n)*late(.|\n)*tag"):
        check_plans(log, [query("EVENT SEQ(A a, B b) WHERE a.tug = b.tug WITHIN 5 s", name="q")])
