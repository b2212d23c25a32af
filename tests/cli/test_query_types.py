"""What ``slackwater query`` says of types that no event has."""

from __future__ import annotations

from typing import Any

import pytest

EVENTS = [
    {"type": "SHELF", "ts": 1},
    {"type": "EXIT", "ts": 2},
    {"kind": "pog", "type": "GATE", "ts": 3},
]


def told(
    cli: Any, trace: Any, *texts: str, records: Any = EVENTS, more: tuple[str, ...] = ()
) -> str:
    ran = cli("query", *texts, "--input", trace(*records), "--in-process", *more)
    assert ran.code == 0
    return str(ran.err)


def test_what_there_is_and_what_may_be_meant(cli: Any, trace: Any) -> None:
    err = told(cli, trace, "EVENT SEQ(SHELV s, !COUNTER c, EXIT e) WITHIN 5 s")
    assert err.splitlines()[:2] == [
        (
            "q1, line 1, column 11: no event is of type 'SHELV'; there is EXIT, SHELF; "
            "did you mean 'SHELF'?"
        ),
        "q1, line 1, column 21: no event is of type 'COUNTER'; there is EXIT, SHELF",
    ]


def test_each_query_and_each_alternative_once(cli: Any, trace: Any) -> None:
    err = told(
        cli, trace, "EVENT SEQ(SHELF s, EXIT e, EXIT f)", "EVENT SEQ(GATE g, GATE h, SHELF s)"
    )
    assert err.count("no event is of type") == 1
    assert "q2, line 1, column 11: no event is of type 'GATE'" in err


@pytest.mark.parametrize(
    ("texts", "more"),
    [
        (("EVENT SEQ(SHELF s, EXIT e)",), ()),
        (("SELECT count(*) FROM nowhere WINDOW TUMBLING 5",), ("--order", "none")),
        (("EVENT SEQ(SHELV s)",), ("--quiet",)),
    ],
)
def test_nothing_to_tell(
    texts: tuple[str, ...], more: tuple[str, ...], cli: Any, trace: Any
) -> None:
    assert "no event is of type" not in told(cli, trace, *texts, more=more)


def test_many_types_are_not_all_listed(cli: Any, trace: Any) -> None:
    records = [{"type": f"T{number}", "ts": number} for number in range(11)]
    err = told(cli, trace, "EVENT SEQ(NONE n)", records=records)
    assert "there is T0, T1, T10, T2, T3, T4, T5, T6 and 3 more\n" in err
