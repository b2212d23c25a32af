# ruff: noqa: E501 - messages stand in one piece, as the user sees them
"""Every way a trace line can be wrong, with its exact message (issue 2, "Bad input")."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.input import lines
from slackwater.engine.log.input.input_log import open_input
from slackwater.engine.log.input.input_read import InputForm
from slackwater.engine.log.input.trace import TraceRead

EXAMPLE = '{"type": "A", "ts": 3}'
KNOWN = (
    "kind, site, stream, source, seq, incarnation, type, ts, te, id, arrival, attrs, offset, delay, "
    "first_seq, precision, skew_error_ppb"
)
INT64 = 2**63
CASES = {
    "not json": ("{'ts': 1}", f"not JSON (expecting property name enclosed in double quotes at column 2); write one object a line, such as {EXAMPLE}"),
    "no value": ("nonsense", f"not JSON (expecting value at column 1); write one object a line, such as {EXAMPLE}"),
    "two records": ('{"ts": 1} {"ts": 2}', f"not JSON (extra text at column 10); write one object a line, such as {EXAMPLE}"),
    "cut off": ('{"ts": 1', f"not JSON (expecting ',' delimiter at column 9); write one object a line, such as {EXAMPLE}"),
    "deep": ("[" * 100_000, "not JSON that can be read: nested too deeply"),
    "list": ("[1]", f"a record is an object such as {EXAMPLE}, not [1]; --format json reads such"),
    "number": ("7", f"a record is an object such as {EXAMPLE}, not 7"),
    "null": ("null", f"a record is an object such as {EXAMPLE}, not null"),
    "duplicate key": ('{"ts": 1, "ts": 2}', '"ts" is given twice'),
    "duplicate attribute": ('{"ts": 1, "attrs": {"v": 1, "v": 1}}', '"v" is given twice'),
    "Infinity": ('{"ts": 1, "attrs": {"v": -Infinity}}', "-Infinity is not a JSON number; leave the attribute out"),
    "float beyond": ('{"ts": 1, "attrs": {"v": 1e999}}', 'attribute "v" is beyond what a float holds'),
    "unknown field": ('{"tz": 1}', 'unknown field "tz"; did you mean "ts"? (an event\'s own values go in attrs; --map ts=tz takes it as that, --map attrs.tz=tz as an attribute)'),
    "misspelt field": ('{"ts": 1, "sorce": "a"}', 'unknown field "sorce"; did you mean "source"? (an event\'s own values go in attrs; --map source=sorce takes it as that, --map attrs.sorce=sorce as an attribute)'),
    "field in other letters": ('{"ts": 1, "firstSeq": 1}', 'unknown field "firstSeq"; did you mean "first_seq"? (an event\'s own values go in attrs; --map first_seq=firstSeq takes it as that, --map attrs.firstSeq=firstSeq as an attribute)'),
    "unknown kind": ('{"kind": "evnt", "ts": 1}', 'unknown kind "evnt"; did you mean "event"? (--map attrs.kind=kind makes it an attribute)'),
    "float time": ('{"ts": 4.5}', '"ts" must be an integer, not 4.5; write whole numbers in a finer --time-unit, or give the --time-unit that it is in'),
    "text time": ('{"ts": "four"}', '"ts" must be an integer, not "four", nor a time such as 2026-03-01T12:00:00Z'),
    "bool time": ('{"ts": true}', '"ts" must be an integer, not true, nor a time such as 2026-03-01T12:00:00Z'),
    "text seq": ('{"ts": 1, "seq": "7"}', '"seq" must be an integer, not "7"; --map seq=seq takes it as a number'),
    "word seq": ('{"ts": 1, "seq": "x7"}', '"seq" must be an integer, not "x7"; --map attrs.seq=seq makes it an attribute'),
    "bool seq": ('{"ts": 1, "seq": false}', '"seq" must be an integer, not false; --map attrs.seq=seq makes it an attribute'),
    "number type": ('{"ts": 1, "type": 3}', '"type" must be text, not 3; --map type=type takes it as text'),
    "number source": ('{"ts": 1, "source": 3}', '"source" must be text, not 3; --map source=source takes it as text'),
    "bool id": ('{"ts": 1, "id": true}', '"id" must be an integer or text, not true'),
    "float id": ('{"ts": 1, "id": 1.5}', '"id" must be an integer or text, not 1.5'),
    "attrs list": ('{"ts": 1, "attrs": [1]}', '"attrs" must be an object such as {"v": 1.5}, not [1]'),
    "attr object": ('{"ts": 1, "attrs": {"v": {"x": 1}}}', 'attribute "v" must be a number, text, true or false, not {"x": 1}; make each of its values an attribute, as in "v_x": 1, or leave it out'),
    "attr empty list": ('{"ts": 1, "attrs": {"v": []}}', 'attribute "v" must be a number, text, true or false, not []; make each of its values an attribute, or leave it out'),
    "attr list": ('{"ts": 1, "attrs": {"v": [1]}}', 'attribute "v" must be a number, text, true or false, not [1]; make each of its values an attribute, as in "v_0": 1, or leave it out'),
    "beyond int64": (f'{{"ts": {INT64}}}', f'"ts" is beyond 64 bits: {INT64}'),
    "below int64": (f'{{"ts": {-INT64 - 1}}}', f'"ts" is beyond 64 bits: {-INT64 - 1}'),
    "attr beyond int64": (f'{{"ts": 1, "attrs": {{"v": {INT64}}}}}', f'attribute "v" is beyond 64 bits: {INT64}'),
    "attr below int64": (f'{{"ts": 1, "attrs": {{"v": {-INT64 - 1}}}}}', f'attribute "v" is beyond 64 bits: {-INT64 - 1}'),
    "half surrogate": ('{"ts": 1, "type": "\\ud800"}', '"type" holds half of a surrogate pair, which is not a character'),
    "half surrogate in attr": ('{"ts": 1, "attrs": {"v": "\\ud800"}}', 'attribute "v" holds half of a surrogate pair, which is not a character'),
    "no ts": ('{"type": "A"}', 'a record of kind event needs "ts"'),
    "null ts": ('{"ts": null}', 'a record of kind event needs "ts"'),
    "te before ts": ('{"ts": 5, "te": 4}', '"te" 4 lies before "ts" 5; an interval ends at or after its start'),
    "negative seq": ('{"ts": 1, "seq": -1}', '"seq" must not be negative'),
    "huge seq": (f'{{"ts": 1, "seq": {2**62 + 1}}}', f'"seq" is beyond {2**62}'),
    "foreign field": ('{"ts": 1, "offset": 1}', '"offset" does not belong to a record of kind event; --map attrs.offset=offset makes it an attribute'),
    "pog without ts": ('{"kind": "pog", "type": "A"}', 'a record of kind pog needs "ts"'),
    "pog of nothing": ('{"kind": "pog", "ts": 1}', 'a record of kind pog needs "type" and/or "source"'),
    "ibp without id": ('{"kind": "ibp", "type": "A", "ts": 1}', 'a record of kind ibp needs "id"'),
    "ibp without type": ('{"kind": "ibp", "id": 1, "ts": 1}', 'a record of kind ibp needs "type"'),
    "ibp without ts": ('{"kind": "ibp", "id": 1, "type": "A"}', 'a record of kind ibp needs "ts"'),
    "sync without delay": ('{"kind": "sync", "offset": 1}', 'a record of kind sync needs "delay" beside "offset"'),
    "sync without offset": ('{"kind": "sync", "delay": 1}', 'a record of kind sync needs "offset" beside "delay"'),
    "sync of nothing": ('{"kind": "sync"}', 'a record of kind sync needs "offset" and "delay" (or "first_seq", "incarnation")'),
    "negative delay": ('{"kind": "sync", "offset": 1, "delay": -2}', '"delay" must not be negative'),
    "sync with attrs": ('{"kind": "sync", "offset": 1, "delay": 2, "attrs": {"v": 1}}', '"attrs" does not belong to a record of kind sync'),
    "tick without arrival": ('{"kind": "tick"}', 'a record of kind tick needs "arrival"'),
    "tick with source": ('{"kind": "tick", "arrival": 1, "source": "a"}', '"source" does not belong to a record of kind tick'),
}  # fmt: skip
GOOD = '{"type": "A", "ts": 3}'


@pytest.mark.parametrize(
    ("line", "name", "key"),
    [
        ('{"ts": 1, "attrs": {"v": 1}, "v": 2}', "v", "v"),
        ('{"ts": 1, "a": {"b": 1}, "a_b": 2}', "a_b", "a_b"),
        ('{"ts": 1, "a_b": 2, "a": {"b": 1}}', "a_b", "a.b"),
    ],
)
def test_two_keys_of_one_attribute_are_refused_and_the_remedy_works(
    line: str, name: str, key: str, tmp_path: Path
) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text(f'{{"ts": 0}}\n{line}\n')
    said = (
        f'{trace}:2: the key "{key}" and another one are both attribute "{name}"; '
        f"--map attrs.NAME={key} gives it another name"
    )
    with pytest.raises(UserError, match=re.escape(said)):
        list(open_input(trace, "ns"))
    (frame,) = open_input(trace, InputForm("ns", {"attrs.other": key}))
    assert {f"attrs.{name}", "attrs.other"} <= {*frame.batch.schema.names}


def test_two_keys_of_one_attribute_with_one_value_are_one(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"ts": 1, "a": {"b": null}, "a_b": 2}\n{"ts": 2, "a": {"b": 2}, "a_b": 2}\n')
    (frame,) = open_input(trace, "ns")
    assert frame.batch.column("attrs.a_b").to_pylist() == [2, 2]


@pytest.mark.parametrize("case", CASES)
def test_a_bad_line_is_named_or_skipped_counted_and_kept(case: str, tmp_path: Path) -> None:
    bad, reason = CASES[case]
    assert bad_message(tmp_path, GOOD, bad, GOOD) == f"2: {reason}"
    file, letters = tmp_path / "t.jsonl", tmp_path / "bad.jsonl"
    file.write_text(f"{GOOD}\n{bad}\n{GOOD}\n", encoding="utf-8")
    read = TraceRead(file, on_bad="skip", dead_letter=letters)
    (frame,) = list(read)
    assert frame.batch.column("arrival").to_pylist() == [1, 3]
    assert frame.batch.column("seq").to_pylist() == [0, 1]
    assert (read.bad_count, read.records) == (1, 2)
    kept = [json.loads(line) for line in letters.read_text().splitlines()]
    assert kept == [{"line": 2, "reason": reason, "text": bad}]


def test_all_bad_lines_together_are_all_kept_in_order(tmp_path: Path) -> None:
    file, letters = tmp_path / "t.jsonl", tmp_path / "bad.jsonl"
    file.write_text(GOOD + "\n" + "\n".join(bad for bad, _ in CASES.values()) + "\n")
    read = TraceRead(file, on_bad="skip", dead_letter=letters)
    assert sum(frame.rows for frame in read) == 1
    kept = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [(each["line"], each["reason"]) for each in kept] == [
        (number, reason) for number, (_, reason) in enumerate(CASES.values(), 2)
    ]
    assert read.bad_count == len(CASES)


def bad_message(tmp_path: Path, *texts: str, unit: str = "ns", on_bad: str = "stop") -> str:
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join(texts), encoding="utf-8")
    with pytest.raises(UserError) as raised:
        list(TraceRead(file, unit, on_bad))
    return str(raised.value).removeprefix(f"{file}:")


IN_TURN = {
    "the first of several": ("ns", [GOOD, '{"ts": 5, "te": 4}', "nonsense"], '2: "te" 4 lies before "ts" 5; an interval ends at or after its start'),
    "arrival goes back": ("ns", ['{"ts": 1, "arrival": 5}', '{"ts": 2, "arrival": 9}', '{"ts": 3, "arrival": 8}'], '3: "arrival" 8 lies before 9 of line 2; records are in order of arrival: --sort arrival puts them so'),
    "a line number as arrival goes back": ("ns", ['{"ts": 1, "arrival": 5}', '{"ts": 2}'], '2: "arrival" 2 (its line number, as the line gives none) lies before 5 of line 1; records are in order of arrival: --sort arrival puts them so'),
    "text after a number": ("ns", [GOOD, '{"ts": 1, "attrs": {"v": 1}}', '{"ts": 1, "attrs": {"v": "x"}}'], '3: attribute "v" is text here ("x") but a number on line 2; give it one type throughout'),
    "truth after a number": ("ns", ['{"ts": 1, "attrs": {"v": 1}}', '{"ts": 1, "attrs": {"v": true}}'], '2: attribute "v" is true or false here (true) but a number on line 1; give it one type throughout'),
    "ids of two types": ("ns", ['{"ts": 1, "id": 1}', '{"ts": 1, "id": "x"}'], '2: "id" is text here ("x") but a number on line 1; give it one type throughout'),
    "inexact beside fractions": ("ns", ['{"ts": 1, "attrs": {"v": 1.5}}', f'{{"ts": 1, "attrs": {{"v": {2**53 + 1}}}}}'], f'2: attribute "v" {2**53 + 1} cannot be held exactly, as attribute "v" also has fractions'),
    "time beyond its unit": ("s", ['{"ts": 1415624021690}'], '1: "ts" is beyond 146 years in nanoseconds; check --time-unit'),
    "offset beyond its unit": ("s", ['{"kind": "sync", "offset": -1415624021690, "delay": 0}'], '1: "offset" is beyond 73 years in nanoseconds; check --time-unit'),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_TURN)
def test_what_is_wrong_with_a_line_after_others_is_reported(case: str, tmp_path: Path) -> None:
    unit, texts, want = IN_TURN[case]
    assert bad_message(tmp_path, *texts, unit=unit) == want


def test_arrival_is_compared_within_a_site_only_and_over_chunks(tmp_path: Path) -> None:
    first = ['{"ts": 1, "arrival": 500000}', '{"ts": 1, "arrival": 5, "site": "x"}']
    many = ['{"ts": 1, "arrival": 500000}'] * lines.CHUNK_LINES
    file = tmp_path / "ok.jsonl"
    file.write_text("\n".join([*first, *many]))
    assert sum(frame.rows for frame in TraceRead(file)) == lines.CHUNK_LINES + 2
    message = bad_message(tmp_path, *first, *many, '{"ts": 1, "arrival": 4, "site": "x"}')
    assert message.startswith(f'{lines.CHUNK_LINES + 3}: "arrival" 4 lies before 5 of line 2;')


def test_a_skipped_backward_line_does_not_hold_back_later_ones(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text(
        "\n".join(f'{{"ts": 1, "arrival": {arrival}}}' for arrival in (5, 9, 7, 8, 9, 10))
    )
    read = TraceRead(file, on_bad="skip")
    assert [a for f in read for a in f.batch.column("arrival").to_pylist()] == [5, 9, 9, 10]
    assert read.bad_count == 2


def test_line_numbers_as_arrival_may_be_too_large_for_the_unit(tmp_path: Path) -> None:
    line = 2**62 // (86400 * 10**9) + 1
    message = bad_message(tmp_path, *['{"ts": 0}'] * line, unit="d")
    assert message == (
        f"{line}: its line number, taken as arrival, is beyond 146 years in nanoseconds; "
        'give "arrival" or a finer --time-unit'
    )


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    file, letters = tmp_path / "t.jsonl", tmp_path / "bad.jsonl"
    file.write_bytes(b'{"ts": 1}\n{"ts": 2, "type": "\xff"}\n{"ts": 3, "type": "\xc3\xa9"}\n')
    with pytest.raises(UserError) as raised:
        list(TraceRead(file))
    assert str(raised.value) == f"{file}:2: not UTF-8 at byte 20; {lines.NOT_UTF8}"
    (frame,) = list(TraceRead(file, on_bad="skip", dead_letter=letters))
    assert frame.batch.column("type").to_pylist() == [None, "é"]
    assert json.loads(letters.read_text())["text"] == '{"ts": 2, "type": "\\xff"}'


@pytest.mark.parametrize("length", [lines.LINE_BYTES_MAX + 1, 3 * lines.LINE_BYTES_MAX])
@pytest.mark.parametrize("character", ["x", "é"])
@pytest.mark.parametrize("before", [0, 1000])
def test_a_line_too_long_is_cut_and_the_rest_goes_on(
    length: int, character: str, before: int, tmp_path: Path
) -> None:
    file, letters = tmp_path / "t.jsonl", tmp_path / "bad.jsonl"
    long_line = '{"ts": 2, "type": "' + character * length + '"}'
    file.write_text("\n".join([*[GOOD] * before, long_line, GOOD, ""]), encoding="utf-8")
    read = TraceRead(file, on_bad="skip", dead_letter=letters)
    assert sum(frame.rows for frame in read) == before + 1
    kept = json.loads(letters.read_text())
    assert kept["line"] == before + 1
    assert kept["reason"] == "the line is longer than 1048576 bytes; write one record a line"
    assert len(kept["text"]) <= lines.KEPT_BYTES_OF_LONG_LINE + 3
    with pytest.raises(UserError, match=f":{before + 1}: the line is longer"):
        list(TraceRead(file))


def test_a_line_of_the_largest_length_is_read(tmp_path: Path) -> None:
    frame_of = '{"ts": 2, "type": "%s"}'
    text = frame_of % ("x" * (lines.LINE_BYTES_MAX - len(frame_of % "")))
    assert len(text) == lines.LINE_BYTES_MAX
    for before in (0, 7):
        file = tmp_path / f"{before}.jsonl"
        file.write_text("\n".join([*[GOOD] * before, text, GOOD]))
        assert sum(frame.rows for frame in TraceRead(file)) == before + 2


def test_an_empty_file(tmp_path: Path) -> None:
    want = f"1: the file is empty; write one record a line: {EXAMPLE}"
    assert bad_message(tmp_path, "") == want
    assert bad_message(tmp_path, "", " \t", "") == want
    assert bad_message(tmp_path, "", on_bad="skip") == want
    assert bad_message(tmp_path, "x", "y", on_bad="skip") == " none of its 2 lines is a record"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.jsonl: cannot be read: No such file or directory"):
        list(TraceRead(tmp_path / "none.jsonl"))
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        list(TraceRead(tmp_path))
    damaged = tmp_path / "t.jsonl.gz"
    damaged.write_bytes(gzip.compress(b'{"ts": 1}\n' * 1000)[:-20])
    with pytest.raises(UserError, match="damaged gzip file"):
        list(TraceRead(damaged))


def test_options_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown --on-bad 'ignore'; use one of stop, skip"):
        TraceRead(tmp_path / "t", on_bad="ignore")
    with pytest.raises(UserError, match="unknown time unit 'fortnight'"):
        TraceRead(tmp_path / "t", "fortnight")
    (tmp_path / "t").write_text(GOOD)
    with pytest.raises(UserError, match="dead-letter file cannot be written: No such file"):
        list(TraceRead(tmp_path / "t", on_bad="skip", dead_letter=tmp_path / "no" / "x"))
