"""What the user gets wrong: exit code 2, the place and the remedy, and nothing half-written."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.engine.hosts import java
from slackwater.engine.log import arrival_log

GOOD = b'{"type": "A", "ts": 1, "attrs": {"v": 1, "name": "x"}}\n{"type": "B", "ts": 2}\n'
SEQ = "EVENT SEQ(A a, B b) WITHIN 10"
OUTS = ("o.jsonl", "o.parquet")


def refused(ran: Any, *said: str) -> None:
    """Exit code 2, a message that begins with the program and says all of ``said``; no file."""
    assert (ran.code, ran.out, ran.left) == (2, "", {}), ran
    assert ran.err.startswith("slackwater: ")
    assert ran.err.endswith("\n")
    assert "Traceback" not in ran.err
    for part in said:
        assert part in ran.err


# --- one line of a trace: FILE:LINE and what is wrong

LINES: dict[str, tuple[bytes, *tuple[str, ...]]] = {
    "no JSON": (b"nope", "not JSON (expecting value at column 1)", "write one object a line"),
    "cut off": (b'{"ts": 1', "not JSON (expecting ',' delimiter at column 9)"),
    "two on a line": (b'{"ts": 1} {"ts": 2}', "not JSON (extra text at column 10)"),
    "a list": (b"[1]", "a record is an object such as"),
    "deep": (b"[" * 99_999, "nested too deeply"),
    "deep attribute": (b'{"ts": 1, "attrs": {"v": {"w": 1}}}', 'attribute "v" must be a number'),
    "not UTF-8": (b'{"ts": 1, "type": "\xff"}', "not UTF-8 at byte 20; save the file as UTF-8"),
    "half a character": (b'{"ts": 1, "type": "\\ud800"}', "half of a surrogate pair"),
    "zero bytes": (b"\0" * 9, "not JSON"),
    "too long": (b'{"ts": 1, "type": "' + b"x" * (1 << 20) + b'"}', "longer than 1048576 bytes"),
    "unknown field": (b'{"ts": 1, "tpye": "A"}', 'unknown field "tpye"; did you mean "type"?'),
    "unknown kind": (b'{"ts": 1, "kind": "evnt"}', 'unknown kind "evnt"; did you mean "event"?'),
    "key twice": (b'{"ts": 1, "ts": 2}', '"ts" is given twice'),
    "attribute twice": (b'{"ts": 1, "attrs": {"v": 1, "v": 2}}', '"v" is given twice'),
    "no time": (b'{"type": "A"}', 'a record of kind event needs "ts"'),
    "text as time": (b'{"ts": "one"}', '"ts" must be an integer, not "one"'),
    "truth as time": (b'{"ts": true}', '"ts" must be an integer, not true'),
    "fraction": (b'{"ts": 1.5}', "write whole numbers in a finer --time-unit"),
    "Infinity": (b'{"ts": 1, "attrs": {"v": -Infinity}}', "-Infinity is not a JSON number"),
    "1e999": (b'{"ts": 1, "attrs": {"v": 1e999}}', 'attribute "v" is beyond what a float holds'),
    "beyond int64": (b'{"ts": 9223372036854775808}', '"ts" is beyond 64 bits'),
    "beyond any use": (b'{"ts": 4611686018427387905}', '"ts" is beyond 146 years'),
    "thousands of digits": (b'{"ts": ' + b"9" * 5000 + b"}", "it has thousands of digits"),
    "large attribute": (b'{"ts": 1, "attrs": {"w": -9223372036854775809}}', "beyond 64 bits"),
    "large number": (b'{"ts": 1, "seq": 4611686018427387905}', '"seq" is beyond 46116860184273879'),
    "large offset": (b'{"kind": "sync", "offset": 2305843009213693953, "delay": 1}', "73 years"),
    "large delay": (b'{"kind": "sync", "offset": 1, "delay": 576460752303423489}', "9 years"),
    "large skew error": (
        b'{"kind": "sync", "offset": 1, "delay": 1, "skew_error_ppb": 1000000001}', "is 100 %",
    ),
    "negative number": (b'{"ts": 1, "seq": -1}', '"seq" must not be negative'),
    "negative delay": (b'{"kind": "sync", "offset": 0, "delay": -1}', '"delay" must not be neg'),
    "end before start": (b'{"ts": 5, "te": 4}', '"te" 4 lies before "ts" 5'),
    "arrival goes back": (b'{"ts": 5, "arrival": 0}', '"arrival" 0 lies before 2 of line 2'),
    "another type": (b'{"ts": 1, "attrs": {"v": "x"}}', "but a number on line 1; give it one type"),
    "half a sync": (b'{"kind": "sync", "offset": 5}', 'needs "delay" beside "offset"'),
    "promise of nothing": (b'{"kind": "pog", "ts": 5}', 'needs "type" and/or "source"'),
    "interval without id": (b'{"kind": "ibp", "ts": 5, "type": "A"}', 'kind ibp needs "id"'),
    "tick with a time": (b'{"kind": "tick", "ts": 5, "arrival": 9}', '"ts" does not belong to a'),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_a_bad_line_is_reported_by_file_and_line(case: str, here: Path, cli: Any) -> None:
    line, said = LINES[case][0], LINES[case][1:]
    (here / "t.jsonl").write_bytes(GOOD + line + b"\n" + GOOD)
    refused(cli("order", "--input", "t.jsonl", "--out", "o.parquet", "--in-process"),
            "slackwater: t.jsonl:3: ", *said)  # fmt: skip
    refused(cli("query", SEQ, "--input", "t.jsonl", "--out", "o.jsonl", "--in-process"), *said)
    skipped = cli("order", "--input", "t.jsonl", "--on-bad", "skip", "--in-process", "--quiet")
    assert (skipped.code, len(skipped.lines)) == (0, 4)
    kept = json.loads(Path("t.jsonl.bad.jsonl").read_text())
    assert (kept["line"], *said) == (3, *(part for part in said if part in kept["reason"]))


# --- whole files

LOG_OF_OTHERS = "not an arrival log"
FILES: dict[str, tuple[str, bytes | None, tuple[str, ...]]] = {
    "absent": ("t.jsonl", None, ("t.jsonl: cannot be read: No such file or directory",)),
    "empty": ("t.jsonl", b"", ("t.jsonl:1: the file is empty; write one record a line",)),
    "blank": ("t.jsonl", b"\n \n\r\n", ("t.jsonl:1: the file is empty",)),
    "random bytes": ("t.jsonl", bytes(range(254, 0, -1)), ("t.jsonl:1: not UTF-8 at byte 1",)),
    "binary without suffix": ("t", b"\x7fELF\x02\x01\x01\0", ("t:1: not JSON",)),
    "UTF-16 without mark": ("t.jsonl", '{"ts": 1}\n'.encode("utf-16-le"), ("t.jsonl:1: not JSON",)),
    "cut gzip": ("t.jsonl.gz", gzip.compress(GOOD)[:-9], ("t.jsonl.gz: cannot be read: ", "ended")),
    "cut gzip of CSV": (
        "t.csv.gz", gzip.compress(b"ts,v\n" + bytes(range(48, 58)) * 9000)[:-9],
        ("t.csv.gz: ", "get it again, or take what is whole: gzip -dc FILE > NEW"),
    ),
    "zip": ("t.csv", b"PK\x03\x04rest", ("t.csv: is a zip archive (as .xlsx is): unpack it",)),
    "bzip2": ("t.csv.bz2", b"BZh91AY", ("t.csv.bz2: is packed by bzip2: unpack it with bunzip2",)),
    "xz": ("t.jsonl", b"\xfd7zXZ\0", ("t.jsonl: is packed by xz: unpack it with xz -d",)),
    "CR": ("t.jsonl", GOOD.replace(b"\n", b"\r"), ("t.jsonl:1: more than one value", "tr '")),
    "CSV of CR": ("t.csv", b"ts,v\r1,2\r3,4\r", ("t.csv:1: the line that must", "tr '\\r' ")),
    "no gzip": ("t.jsonl.gz", b"\x1f\x8b junk", ("t.jsonl.gz: cannot be read: ",)),
    "cut Parquet": ("t.parquet", b"PAR1 and no more", ("t.parquet: damaged Parquet file: ",)),
    "CSV empty": ("t.csv", b"", ("t.csv:1: the file is empty; its first line must name the col",)),
    "CSV header": ("t.csv", b"t\rs,v\n1,2\n", ("t.csv:1: the line that must name the columns",)),
    "CSV quotes": ("t.csv", b'ts,"v\nw"\n1,2\n', ("t.csv:1: the names of the columns must be",)),
    "CSV of a header": ("t.csv", b"ts,v\n", ("t.csv: no rows; an input has one event at least",)),
    "CSV without time": ("t.csv", b"v,w\n1,2\n", ('t.csv:1: no column is "ts"', "--map ts=COLUMN")),
    "CSV column twice": ("t.csv", b"ts,ts\n1,2\n", ('t.csv:1: column "ts" is there twice',)),
    "CSV short row": ("t.csv", b"ts,v\n1,2\n3\n", ("t.csv:3: 1 values for 2 columns",)),
    "CSV long row": ("t.csv", b"ts,v\n1,2,3\n", ("t.csv:2: 3 values for 2 columns",)),
    "CSV no number": ("t.csv", b"ts,v\nx,2\n", ('t.csv:2: column "ts": "x" is not an integer',)),
    "CSV no value": ("t.csv", b"ts,v\n,2\n", ('t.csv:2: a record of kind event needs "ts"',)),
    "CSV int64": ("t.csv", b"ts,v\n9223372036854775808,2\n", ("t.csv:2: ", "is beyond 64 bits")),
    "CSV digits": ("t.csv", b"ts\n1\n" + b"9" * 5000, ("t.csv:3: ", "... is beyond 64 bits")),
    "CSV bytes": ("t.csv", b"ts,v\n1,\xff\n", ('t.csv:2: column "v": not UTF-8',)),
    "CSV zeros": ("t.csv", b"ts,v\n1,2\n2,\x003\n", ('t.csv:3: column "v": it has a zero byte',)),
    "CSV zeros in text": ("t.csv", b"ts,v\n1,a\0\n", ("t.csv:2: ", "tr -d '\\000' < FILE > NEW")),
    "CSV zeros at end": ("t.csv", b"ts,v\n1,2\n" + b"\0" * 99, ("t.csv:3: 1 values for 2",)),
    "CSV row": ("t.csv", b"ts,v\n1,2\n1,\xff,3\n", ("t.csv:3: 3 values for 2 columns",)),
    "CSV kind": ("t.csv", b"ts,kind\n1,evnt\n", ('t.csv:2: column "kind": "evnt" is no kind of',)),
    "log without files": ("d/.lock", b"", (f"d: {LOG_OF_OTHERS}: the folder is empty",)),
    "other folder": ("d/a.txt", b"", (f"d: {LOG_OF_OTHERS}: it holds a.txt",)),
    "log cut off": ("d/.frames-1.parquet.writing", b"P", ("d: ", "was the writer cut off?")),
    "damaged log": ("d/frames-000000000001.parquet", b"PAR1", ("d/frames-000000000001.parquet: dam",
                                                              "or move it and all after it away")),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_reported_by_name(case: str, here: Path, cli: Any) -> None:
    name, content, said = FILES[case]
    path = here / name
    path.parent.mkdir(exist_ok=True)
    if content is not None:
        path.write_bytes(content)
    source = name.partition("/")[0]
    for out in OUTS:
        refused(cli("order", "--input", source, "--out", out, "--in-process"), *said)
    refused(cli("query", SEQ, "--input", source, "--in-process"), *said)


def test_a_folder_named_like_a_parquet_file_is_no_log(here: Path, cli: Any) -> None:
    (here / "d" / "x.parquet").mkdir(parents=True)
    refused(cli("order", "--input", "d", "--in-process"), f"d: {LOG_OF_OTHERS}: it holds x.parquet")


def test_a_half_written_log_gives_its_complete_files(here: Path, cli: Any) -> None:
    (here / "t.jsonl").write_bytes(GOOD)
    assert cli("log", "import", "t.jsonl", "--out", "a.log").code == 0
    whole = cli("order", "--input", "a.log", "--in-process")
    (here / "a.log" / ".frames-000000000002.parquet.writing").write_bytes(b"PAR1 and the power w")
    half = cli("order", "--input", "a.log", "--in-process")
    assert (half.code, half.out, half.err) == (0, whole.out, whole.err)
    assert len(half.lines) == 2
    refused(
        cli("order", "--input", "a.log/frames-000000000001.parquet", "--in-process"),
        "a.log/frames-000000000001.parquet: one file of an arrival log; give its folder, a.log",
    )


# --- options

ORDERS = {
    "": "unknown operator; use one of",
    "kslak": "unknown operator; use one of",
    "none:x=1": "unknown key 'x'; known are time",
    "sequence:timeuot=r19": "unknown key 'timeuot'; known are timeout,",
    "sequence:timeout": "'timeout' is not key=value",
    "sequence:timeout=never": "use quantile:SHARE, r19, r19-code:UNIT or fixed:DURATION",
    "sequence:timeout=r19:ms": "use quantile:SHARE, r19, r19-code:UNIT or fixed:DURATION",
    "sequence:timeout=r19-code:s": "UNIT, of the event times as its author's program reads them",
    "sequence:timeout=fixed": "timeout=fixed needs a duration",
    "sequence:timeout=fixed:-5": "'-5' is not a duration",
    "sequence:timeout=fixed:5x": "unknown time unit 'x'",
    "sequence:timeout=fixed:200000d": "longer than 292 years",
    f"sequence:timeout=fixed:{'9' * 5000}": "this duration has too many digits",
    "sequence:timeout=quantile:1": "must be at least 0 and below 1",
    "sequence:latency=nan": "'nan' is not a duration",
    "sequence:latency=0.5": "finer than one nanosecond",
    "sequence:alpha=-1": "write a share such as 0.6",
    "sequence:late=maybe": "late=maybe: use drop or pass",
    "sequence:late=drop,late=pass": "late is given twice",
}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order[:40])
def test_a_wrong_order_is_reported(order: str, here: Path, cli: Any) -> None:
    (here / "t.jsonl").write_bytes(GOOD)
    given_ = ("--input", "t.jsonl", "--order", order, "--out", "o.jsonl", "--in-process")
    refused(cli("order", *given_), f"order '{order}': ", ORDERS[order])
    refused(cli("query", SEQ, *given_), ORDERS[order])


OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "unit": (("--time-unit", "eon"), "unknown time unit 'eon'; use one of ns, us, ms"),
    "guard": (("--guard", "soon"), "--guard soon: 'soon' is not a duration; write a number and"),
    "negative guard": (("--guard", "-1s"), "--guard -1s: '-1s' is not a duration"),
    "guard digits": (("--guard", "9" * 5000), "this duration has too many digits"),
    "on bad": (("--on-bad", "go"), "unknown --on-bad 'go'; use one of stop, skip"),
    "suffix": (("--out", "o.txt"), "o.txt: name it .jsonl, .parquet or .csv"),
    "out folder": (("--out", "no/o.parquet"), "no/o.parquet: there is no folder no; make it"),
    "out is one": (("--out", "d.parquet"), "d.parquet: is a folder; give --out a file"),
    "out below a file": (("--out", "t.jsonl/o.jsonl"), "there is no folder t.jsonl"),
    "out is input": (("--out", "./t.jsonl"), "t.jsonl: is the input itself; choose another --out"),
    "letters": (("--on-bad", "skip", "--dead-letter", "no/x"), "no/x: the dead-letter file cannot"),
    "letters are input": (("--on-bad", "skip", "--dead-letter", "./t.jsonl"), "the input itself"),
    "letters are out": (
        ("--on-bad", "skip", "--dead-letter", "o.jsonl", "--out", "./o.jsonl"),
        "name the same file",
    ),
    "work": (("--work", "t.jsonl"), "t.jsonl: cannot be a folder for --work: File exists"),
    "mapping a trace": (("--map", "ts=x"), 'no record so far has "x" (wanted for ts)'),
    "mapping": (("--map", "ts"), "--map ts: write FIELD=COLUMN"),
    "unknown": (("--nosuch",), "No such option: --nosuch"),
}  # fmt: skip


@pytest.mark.parametrize("case", OPTIONS)
def test_a_wrong_option_is_reported(case: str, here: Path, cli: Any) -> None:
    arguments, said = OPTIONS[case]
    (here / "t.jsonl").write_bytes(GOOD)
    (here / "d.parquet").mkdir()
    refused(cli("order", "--input", "t.jsonl", "--in-process", *arguments), said)
    refused(cli("query", SEQ, "--input", "t.jsonl", "--in-process", *arguments), said)


QUERIES = {
    "": "the query is empty; it begins with EVENT, SELECT or EXPLAIN",
    "SELECT avg(w) FROM events WINDOW TUMBLING 5": "column 12: no event has an attribute 'w'",
    "EVENT SEQ(A a, B b) WITHIN 5 eons": "unknown time unit 'eons'",
    f"EVENT SEQ(A a, B b) WITHIN {2**63 - 1}": "WITHIN is longer than 36 years",
    f"EVENT SEQ(A a, B b) WITHIN {'9' * 5000}": "this number has too many digits",
    f"EVENT SEQ({', '.join(f'A a{n}' for n in range(61))}) WITHIN 5": "at most 60 steps",
    "@nosuch.txt": "nosuch.txt: cannot read the query: No such file or directory",
    "@": "@: cannot read the query: ",
    "@latin.txt": "latin.txt: the query is not UTF-8; save it as UTF-8",
    "@two.txt": "query line 2, column 16: there is no step named 'c'",
}


@pytest.mark.parametrize("text", QUERIES, ids=lambda text: text[:40])
def test_a_wrong_query_is_reported(text: str, here: Path, cli: Any) -> None:
    (here / "t.jsonl").write_bytes(GOOD)
    (here / "latin.txt").write_bytes(b"EVENT SEQ(\xc4 a) WITHIN 5")
    (here / "two.txt").write_bytes(b"EVENT SEQ(A a,\n  B b)  WHERE  c.v = 1")
    for out in OUTS:
        ran = cli("query", text, "--input", "t.jsonl", "--out", out, "--in-process")
        refused(ran, QUERIES[text])


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--certainty", "certainty 'x': use pairwise or max-delay or max-delay-r19"),
        ("--barrier", "barrier 'x' "),
    ],
)
def test_a_wrong_rule_is_reported(option: str, said: str, here: Path, cli: Any) -> None:
    (here / "t.jsonl").write_bytes(GOOD)
    given_ = ("--input", "t.jsonl", "--out", "o.jsonl", "--in-process")
    refused(cli("query", SEQ, *given_, option, "x"), said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nosuch",), "No such command 'nosuch'; see slackwater --help"),
        (("order",), "Missing option '--input'; see slackwater order --help"),
        (("query",), "Missing argument 'QUERY'"),
        (
            ("run", "nosuch"),
            "no scenario 'nosuch'; there are bookstore, elder-care, lorawan, mimic",
        ),
    ],
)
def test_a_wrong_command_is_reported(arguments: tuple[str, ...], said: str, cli: Any) -> None:
    refused(cli(*arguments), said)


def test_without_java_it_says_what_to_install(
    here: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "JVM_FOLDERS", ("/nosuch/*",))
    monkeypatch.setenv("PATH", os.fspath(here))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (here / "t.jsonl").write_bytes(GOOD)
    ran = cli("order", "--input", "t.jsonl", "--out", "o.jsonl", "--spark")
    refused(ran, "Spark needs Java 17 or newer; found none", java.install_line())
    assert ran.err.endswith(
        "or leave --spark and --master out (--in-process): the answers are the same\n"
    )
    with pytest.raises(slackwater.UserError, match="or leave the master out"):
        slackwater.order("t.jsonl", master="local[2]")


def test_without_java_a_scenario_runs_in_process_and_says_so(
    here: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "JVM_FOLDERS", ("/nosuch/*",))
    monkeypatch.setenv("PATH", os.fspath(here))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    words = ("run", "soccer", "--set", "duration=20ms", "--out")
    ran = cli(*words, "r")
    assert ran.code == 0
    assert ran.err.startswith(
        "In this process, with the answers that Spark gives. Spark needs Java"
    )
    assert cli(*words, "quiet", "--quiet").err == ""
    refused(cli(*words, "m", "--master", "local[2]"), "found none", "or leave --master out")
    refused(cli(*words, "m", "--master", "local[2]", "--in-process"), "give one of them")


def test_a_server_without_java_says_who_else_may_answer(
    here: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "JVM_FOLDERS", ("/nosuch/*",))
    monkeypatch.setenv("PATH", os.fspath(here))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (here / "site.toml").write_text(
        '[gateway]\nlog = "site.log"\nport = 0\n[engine]\nkind = "embedded"\n'
        '[[query]]\ntext = "EVENT SEQ(A a) WITHIN 1 s"\n'
    )
    ran = cli("serve", "--config", "site.toml", "--engine", "spark")
    refused(ran, "Spark needs Java 17 or newer; found none", "--engine embedded")
    assert not (here / "site.log").exists()


def test_a_full_disk_is_reported_and_leaves_nothing(
    here: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "t.jsonl").write_bytes(GOOD)
    monkeypatch.setattr(arrival_log, "HELD_BYTES", 0)  # an input too long for memory

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ran = cli("order", "--input", "t.jsonl", "--out", "o.jsonl", "--in-process")
    assert (ran.code, ran.out, ran.left) == (1, "", {})
    assert ran.err.startswith(
        f"slackwater: {Path(tempfile.gettempdir())}/slackwater-"
    )  # the log, which comes first
    assert "/log/" in ran.err
    assert ": No space left on device; free some" in ran.err
    assert "making" not in ran.err
    assert "writing" not in ran.err


def test_a_file_named_as_an_option_is_no_option(here: Path, cli: Any) -> None:
    (here / "-dash.jsonl").write_bytes(GOOD)
    refused(cli("look", "-dash.jsonl"), "No such option: -d", "name it ./-dash.jsonl; see")
    assert cli("look", "./-dash.jsonl").code == 0
    refused(cli("look", "-other.jsonl"), "No such option: -o; see slackwater look --help")
