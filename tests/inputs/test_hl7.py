"""ORU^R01 messages: what becomes of their observations, and how messages are refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from slackwater.edge_agent.inputs.hl7.message import (
    Framing,
    Hl7Refusal,
    MllpFrame,
    instant_of,
    named_zone,
    read_message,
)
from slackwater.edge_agent.packing import Row
from tests.inputs.outlet import KeptOutlet, a_named_input, an_input

# The blood pressure of the IHE Patient Care Device profile (Device Enterprise Communication).
PCD = "\r".join(
    (
        (
            r"MSH|^~\&|AcmeInc^ACDE48234567ABCD^EUI-64||||20090713090030+0500||ORU^R01^ORU_R01|MSGID1234"
            r"|P|2.6|||NE|AL|||||IHE PCD ORU-R012006^HL7^2.16.840.1.113883.9.n.m^HL7"
        ),
        "PID|||789567^^^Imaginary Hospital^PI||Doe^John^Joseph^^^^L^A|||M",
        "PV1||I|ICU^Room 2^Bed 1",
        (
            "OBR|1|AB12345^AcmeAHDInc^ACDE48234567ABCD^EUI-64|CD12345^AcmeAHDInc^ACDE48234567ABCD^EUI-64"
            "|528391^MDC_DEV_SPEC_PROFILE_BP^MDC|||20090813095715+0500"
        ),
        "OBX|1||528391^MDC_DEV_SPEC_PROFILE_BP^MDC|1|||||||R|||||||0123456789ABCDEF^EUI-64",
        "OBX|2||150020^MDC_PRESS_BLD_NONINV^MDC|1.0.1|||||||R|||20090813095715+0500",
        "OBX|3|NM|150021^MDC_PRESS_BLD_NONINV_SYS^MDC|1.0.1.1|120|266016^MDC_DIM_MMHG^MDC|||||R",
        "OBX|4|NM|150022^MDC_PRESS_BLD_NONINV_DIA^MDC|1.0.1.2|80|266016^MDC_DIM_MMHG^MDC|||||R",
        (
            "OBX|5|NM|150023^MDC_PRESS_BLD_NONINV_MEAN^MDC|1.0.1.3|100|266016^MDC_DIM_MMHG^MDC|||||R"
            "|||20090813095718.5+0500"
        ),
        "",
    )
)
AT_NS = 1250139435 * 10**9
VITALS = {"value": "float", "units": "str", "patient": "str", "bed": "str"}
SIMPLE = r"MSH|^~\&|MON|ICU|||20240101120000+0000||ORU^R01|{id}|P|2.5"


def a_message(*segments: str, number: int = 7) -> str:
    return "\r".join((SIMPLE.format(id=number), *segments)) + "\r"


def rows_of(text: str, attrs: dict[str, str], **settings: Any) -> list[Row]:
    made = an_input({"kind": "hl7-mllp", **settings}, attrs)
    found: list[Row] = made._observations.rows(read_message(text.encode(), "utf-8"))
    return found


def test_every_observation_is_an_event_of_its_code() -> None:
    found = rows_of(PCD, VITALS, map={"bed": "PV1-3.3"})
    assert found == [
        Row(AT_NS, AT_NS, None, "150021", (120.0, "266016", "789567", "Bed 1")),
        Row(AT_NS, AT_NS, None, "150022", (80.0, "266016", "789567", "Bed 1")),
        Row(AT_NS + 3500 * 10**6, AT_NS + 3500 * 10**6, None, "150023",
            (100.0, "266016", "789567", "Bed 1")),
    ]  # fmt: skip


def test_observations_of_one_instant_are_attributes_of_one_event() -> None:
    attrs = {"systolic": "int", "mean": "float", "patient": "str"}
    names = {"systolic": "150021", "mean": "150023"}
    found = rows_of(PCD, attrs, observation="attr", map=names)
    assert [(row.ts - AT_NS, row.type, row.attrs) for row in found] == [
        (0, "528391", (120, None, "789567")),
        (3500 * 10**6, "528391", (None, 100.0, "789567")),
    ]


def test_a_second_value_of_one_code_is_another_event() -> None:
    one, two = (f"OBX|1|NM|HR||{v}|||||||||20240101120000" for v in (60, 61))
    found = rows_of(a_message("OBR|1", one, two), {"HR": "int"}, observation="attr", type="VITALS")
    assert [(row.type, row.attrs) for row in found] == [("VITALS", (60,)), ("VITALS", (61,))]


def test_what_no_attribute_asks_for_is_not_taken() -> None:
    assert {row.attrs for row in rows_of(PCD, {"value": "float"})} == {(120.0,), (80.0,), (100.0,)}


@pytest.mark.parametrize(
    ("segment", "attrs"),
    [
        ("OBX|1|NM|A||-1.50", (-1.5, "-1.50")),
        ("OBX|1|SN|A||^100", (100.0, "^100")),
        ("OBX|1|SN|A||>^100", (None, ">^100")),
        ("OBX|1|SN|A||^1^:^128", (None, "^1^:^128")),
        ("OBX|1|ST|A||12", (None, "12")),
        (r"OBX|1|TX|A||a\T\b \F\ \X41\ \E\ \H\c\N\ \.br\d", (None, "a&b | A \\ c \nd")),
        ("OBX|1|CWE|A||371879000^Nominal^SCT", (None, "371879000^Nominal^SCT")),
        ("OBX|1|NM|A||1~2", (None, "1~2")),
        (r"OBX|1|ST|A||a lone \ mark", (None, r"a lone \ mark")),
    ],
)
def test_values_are_read_by_their_type(segment: str, attrs: tuple[Any, ...]) -> None:
    (found,) = rows_of(a_message(segment), {"value": "float", "text": "str"})
    assert found.attrs == attrs


def test_truths_are_values_of_a_bool() -> None:
    text = a_message("OBX|1|ID|A||Y", "OBX|2|ID|A||N")
    assert [row.attrs for row in rows_of(text, {"value": "bool"})] == [(True,), (False,)]


def test_what_is_withdrawn_or_empty_is_counted() -> None:
    named = a_named_input({"kind": "hl7-mllp"}, {"value": "float"})
    made: Any = named.input
    text = a_message("OBX|1|NM|A||1||||||D", "OBX|2|NM|A||", 'OBX|3|NM|A||""', "OBX|4|ST|A||x")
    assert len(made._observations.rows(read_message(text.encode(), "utf-8"))) == 1
    assert named.name == "hl7-mllp"
    assert named.input.counts == {
        "withdrawn": 1, "empty": 2, "not_numeric": 1, "time_of_message": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("197001010000", "Z", 0),
        ("19700101000001.000000001", "Z", 10**9 + 1),
        ("197001010100", "+01:00", 0),
        ("20240701120000", "Europe/Berlin", 1719828000 * 10**9),
        ("20240701120000-0330", "Europe/Berlin", 1719847800 * 10**9),
        ("19691231235959.5", "Z", -(10**9) // 2),
    ],
)
def test_times_are_instants(text: str, zone: str, instant: int) -> None:
    assert instant_of(text, named_zone(zone)) == instant


def test_times_without_a_zone_are_of_the_message_s() -> None:
    message = a_message("OBX|1|NM|A||1|||||||||20240101130000").replace("+0000", "+0100")
    (row,) = rows_of(message, {"value": "float"}, zone="America/New_York")
    assert row.ts == 1704110400 * 10**9


@pytest.mark.parametrize("text", ["20240101", "2024010112", "202413010000", "x", "20240101000061"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Hl7Refusal):
        instant_of(text, None)


TURNED = {
    "Europe/Berlin": ("20261025", 2, 3, "20260329", 2, 3),
    "America/New_York": ("20261101", 1, 2, "20260308", 2, 3),
}
"""When clocks are turned back and forward: the hours between which a time is there twice, never."""


@pytest.mark.parametrize("zone", [*TURNED, "local"])
@pytest.mark.parametrize("second", ["", "30", "59.5", "60"])
def test_attack2_05_times_that_are_there_twice_or_never_are_refused(
    zone: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "Europe/Berlin" if zone == "local" else zone
    back, first, end, forth, gap, over = TURNED[place]
    monkeypatch.setenv("TZ", place)
    time.tzset()
    try:
        for minute in ("00", "30", "59"):
            for day, hours, word in ((back, (first, end), "twice"), (forth, (gap, over), "never")):
                inside = f"{day}{hours[0]:02}{minute}{second}"
                with pytest.raises(Hl7Refusal, match=f"is there {word}, as clocks are turned"):
                    instant_of(inside, named_zone(zone))
                assert instant_of(inside + "+0100", named_zone(zone))
                assert instant_of(f"{day}{hours[1]:02}{minute}{second}", named_zone(zone))
                assert instant_of(f"{day}{hours[0] - 1:02}{minute}{second}", named_zone(zone))
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_attack2_05_second_60_is_the_next_one_and_counted() -> None:
    made: Any = an_input({"kind": "hl7-mllp"}, {"value": "float"})
    times = ("20161231235959.9+0000", "20161231235960.7+0000", "20170101000000+0000")
    text = a_message(*(f"OBX|1|NM|A||{at}|||||||||{each}" for at, each in enumerate(times)))
    rows = made._observations.rows(read_message(text.encode(), "utf-8"))
    assert [row.ts - 1483228800 * 10**9 for row in rows] == [-(10**8), 0, 0]
    assert made.counts["leap_second"] == 1


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_1_9_a_line_feed_in_a_value_is_of_the_value(end: str) -> None:
    segments = (
        SIMPLE.format(id=7),
        "OBR|1|a\nb",
        "OBX|1|TX|A||one\ntwo\n\nOBX three",
        "OBX|2|NM|B||1",
    )
    rows = rows_of(
        end.join(segments) + end, {"text": "str", "order": "str"}, map={"order": "OBR-2"}
    )
    assert [row.type for row in rows] == ["A", "B"]
    assert [row.attrs for row in rows] == [("one\ntwo\n\nOBX three", "a\nb"), ("1", "a\nb")]


def test_segments_may_end_in_line_feeds_alone() -> None:
    text = a_message("OBX|1|NM|A||1", "OBX|2|NM|B||2").replace("\r", "\n")
    assert [row.type for row in rows_of(text, {"value": "float"})] == ["A", "B"]


@pytest.mark.parametrize(
    ("data", "frames", "counts"),
    [
        ([b"\x0ba\x1c\r\x0bb\x1c\r"], [b"a", b"b"], {}),
        ([b"\x0ba", b"b\x1c", b"\r"], [b"ab"], {}),
        ([b"x\r\n\x0ba\x1c\r"], [b"a"], {"garbage_bytes": 2}),
        ([b"\x0bcut\x0ba\x1c\r"], [b"a"], {"broken_off": 1}),
        ([b"\x0b\x0b\x0b\x1c"], [b""], {"broken_off": 2}),
        ([b"\x1c\x1c\r"], [], {"garbage_bytes": 2}),
    ],
)
def test_messages_are_cut_at_their_marks(
    data: list[bytes], frames: list[bytes], counts: dict[str, int]
) -> None:
    framing = Framing(10)
    assert [each for part in data for each in framing.feed(part)] == [MllpFrame(f) for f in frames]
    assert {what: count for what, count in framing.counts.items() if count} == counts


def test_a_long_message_is_not_kept() -> None:
    framing = Framing(10)
    for _ in range(100):
        assert framing.feed(b"\x0b" + bytes(1000)) == []
        assert len(framing._part or b"") == 11
    assert framing.feed(b"\x1c") == [MllpFrame(bytes(10), whole=False)]


async def answered(made: Any, content: bytes, outlet: KeptOutlet, *, whole: bool = True) -> str:
    found = await made.answered(MllpFrame(content, whole), outlet, "here")
    assert all(each[:1] == b"\x0b" and each[-2:] == b"\x1c\r" for each in found)
    return "\n".join(each[1:-2].decode() for each in found)


@pytest.mark.parametrize(
    ("content", "code", "control", "reason"),
    [
        (b"", "AR", "", "begins with MSH"),
        (b"PID|1", "AR", "", "begins with MSH"),
        (b"MSH|||||", "AR", "", "no five delimiters"),
        (b"MSH|^~\\&", "AR", "", "is not ORU"),
        (a_message().replace("ORU^R01", "ADT^A01").encode(), "AR", "7", "is not ORU"),
        (a_message().replace("|P|", "|T|").encode(), "AR", "7", "processing id"),
        (a_message().replace("|7|", "||").encode(), "AE", "", "control id"),
        (a_message("pid|1").encode(), "AE", "7", "line 2 is no segment"),
        (a_message("OBX|1|NM|A||abc").encode(), "AE", "7", "no number"),
        (a_message("OBX|1|NM|A||1|||||||||2024").encode(), "AE", "7", "no time to the minute"),
        (a_message("OBX|1|NM|A||1|||||||||202401010000+9959").encode(), "AE", "7", "a day or more"),
        (a_message("OBX|1|NM|||1").replace("2024", "9024").encode(), "AE", "7", "beyond the years"),
        (a_message("OBX|1|NM|" + "A" * 300 + "||1").encode(), "AE", "7", "type "),
        (a_message("OBX|1|ST|A||\x00").encode() + b"\xff", "AE", "7", "not of character set"),
        (a_message(*["OBX|1|NM|A||1"] * 2001).encode(), "AE", "7", "more than 2000 observations"),
        (a_message(*["NTE|1"] * 5001).encode(), "AE", "7", "segments: more than 5000"),
        (a_message("OBX|1|ST|A||x").encode() + b"\r" * 9, "AA", "7", ""),
    ],
)
async def test_bad_messages_are_refused_with_a_reason(
    content: bytes, code: str, control: str, reason: str
) -> None:
    outlet = KeptOutlet()
    made = an_input({"kind": "hl7-mllp"}, {"value": "float", "text": "str"})
    said = await answered(made, content, outlet)
    assert f"\rMSA|{code}|{control}" in said, said
    assert reason in said.rpartition("|")[2]
    assert (code == "AA") == (not outlet.faults)
    assert made.counts[f"refused_{code}"] == (code != "AA")


async def test_a_long_message_is_refused_by_its_control_id() -> None:
    made = an_input({"kind": "hl7-mllp", "message_max": "1 KiB"}, {})
    said = await answered(made, a_message("OBX|1|ST|A||ä").encode()[:-3], KeptOutlet(),
                          whole=False)  # fmt: skip
    assert "MSA|AR|7|a message of more than 1024 bytes" in said


async def test_enhanced_mode_answers_what_is_asked_for() -> None:
    made = an_input({"kind": "hl7-mllp", "map": {"bed": "PV1-3.3"}}, VITALS)
    outlet = KeptOutlet()
    first = await answered(made, PCD.encode(), outlet)
    assert first.count("MSA|") == first.count("MSA|AA|MSGID1234") == 1
    assert r"MSH|^~\&|||AcmeInc^ACDE48234567ABCD^EUI-64|" in first
    both = PCD.replace("|NE|AL|", "|AL|AL|").encode()
    said = await answered(made, both, outlet)
    assert [line[:6] for line in said.split("\r") if line[:3] == "MSA"] == ["MSA|CA", "MSA|AA"]
    never = PCD.replace("|NE|AL|", "|NE|ER|").encode()
    assert await answered(made, never, outlet) == ""
    wrong = PCD.replace("|NE|AL|", "|ER|NE|").replace("|120|", "|x|")
    assert "MSA|CE|MSGID1234" in await answered(made, wrong.encode(), outlet)
