"""Inputs with bytes changed at random: never a traceback, and no good line is lost.

``engine.cli.app.run`` lets our own bugs through, so that an unexpected error fails these tests.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.cli.app import run

TRACE = b"""{"kind": "sync", "source": "x", "offset": -5, "delay": 30, "first_seq": 0, "arrival": 1}
{"type": "A", "ts": 5, "source": "x", "seq": 1, "attrs": {"v": 1.5, "name": "q"}, "arrival": 2}
{"type": "B", "ts": 3, "source": "x", "seq": 0, "attrs": {"v": 2, "b": true}, "arrival": 2}
{"kind": "pog", "ts": 9, "type": "A", "source": "x", "arrival": 3}
{"type": "I", "ts": 9, "te": 14, "id": "i1", "stream": "r", "site": "other", "arrival": 4}
{"kind": "ibp", "ts": 9, "type": "I", "id": "i2", "arrival": 5}
{"type": "B", "ts": 30, "source": "x", "seq": 3, "incarnation": 1, "arrival": 50}
{"kind": "tick", "arrival": 90}
{"kind": "eos", "source": "x", "arrival": 91}
"""
TABLE = b'ts,source,seq,type,v,name\n1,a,0,A,1.5,x\n2,b,0,B,2,y\n5,a,2,A,-3,"z,\n"\n7,a,1,B,1e3,\n'
PLAIN = [b'{"type": "A", "ts": %d}' % (10 + n) for n in range(12)]

# What breaks parsers: structure, signs, the limits of numbers, bytes that are no UTF-8.
PIECES = [
    b"", b'"', b"{", b"}", b"[", b",", b":", b"-", b"0", b"1e999", b"NaN", b"null", b"true", b"\\",
    b"\\ud800", b"\xff", b"\x00", b"\xef\xbb\xbf", b" ", b"\t", b"\r", b"\n", b"\n\n", b"9" * 20,
    b"9223372036854775807", b"-9223372036854775808", b"4611686018427387904", b".5", b"ts", b"seq",
]  # fmt: skip
Edits = list[tuple[int, int, bytes]]
PIECE = st.sampled_from(PIECES) | st.binary(max_size=3)
EDITS = st.lists(st.tuples(st.integers(0, 700), st.integers(0, 6), PIECE), min_size=1, max_size=6)


def edited(data: bytes, edits: Edits) -> bytes:
    """``data`` with a piece put in place of some bytes (``length``) from a position on, each."""
    for position, length, piece in edits:
        at = position % (len(data) + 1)
        data = data[:at] + piece + data[at + length :]
    return data


def command(*arguments: str) -> tuple[int, str]:
    """Exit code and standard error."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = run(list(arguments))
    return code, err.getvalue()


def check(data: bytes, name: str, *arguments: str) -> None:
    """Either it is done, and the output is there, or the input is at fault, and nothing is left."""
    with tempfile.TemporaryDirectory() as folder:
        source, out, letters = (Path(folder) / each for each in (name, "o.jsonl", "letters"))
        source.write_bytes(data)
        skip = ("--on-bad", "skip", "--dead-letter", str(letters)) if len(data) % 2 else ()
        files = ("--input", str(source), "--out", str(out), *skip)
        code, err = command(*arguments, *files, "--in-process", "--quiet")
        assert code in (0, 2), err
        assert out.exists() is (code == 0)
        for line in out.read_text().splitlines() if code == 0 else []:
            json.loads(line)
        if code == 2:
            ours = ("query", "no event is of")  # a mutated type is another one
            assert err.startswith(f"slackwater: {source}") or any(each in err for each in ours)
        left = {path.name for path in Path(folder).iterdir()} - {name, "o.jsonl", "letters"}
        assert left == set()


@settings(max_examples=15, deadline=None)
@given(edits=EDITS)
def test_a_mutated_trace_never_gives_a_traceback(edits: Edits) -> None:
    check(edited(TRACE, edits), "t.jsonl", "order")


@settings(max_examples=15, deadline=None)
@given(
    edits=EDITS,
    text=st.sampled_from(
        [
            "EVENT SEQ(A a, B b) WHERE a.v < b.v WITHIN 10",
            "SELECT avg(v), count(*) FROM events GROUP BY name WINDOW TUMBLING 10",
            "SELECT min(v), max(v) FROM events WINDOW TUMBLING 100 DRIFT each",
        ]
    ),
    order=st.sampled_from(["sequence", "none", "sequence:timeout=fixed:7,late=pass"]),
)
def test_a_query_over_a_mutated_trace_never_gives_a_traceback(
    edits: Edits, text: str, order: str
) -> None:
    check(edited(TRACE, edits), "t.jsonl", "query", text, "--order", order)


@settings(max_examples=15, deadline=None)
@given(edits=EDITS)
def test_a_mutated_table_never_gives_a_traceback(edits: Edits) -> None:
    check(edited(TABLE, edits), "t.csv", "order")


@settings(max_examples=12, deadline=None)
@given(edits=EDITS)
def test_a_mutated_gzip_file_never_gives_a_traceback(edits: Edits) -> None:
    check(edited(gzip.compress(TRACE, mtime=0), edits), "t.jsonl.gz", "order")


@settings(max_examples=12, deadline=None)
@given(edits=EDITS)
@example(edits=[(174, 1, b"\x80")])  # in the name of a column
def test_a_mutated_log_never_gives_a_traceback(edits: Edits) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace, log, out = (Path(folder) / name for name in ("t.jsonl", "log", "o.jsonl"))
        trace.write_bytes(TRACE)
        assert command("log", "import", str(trace), "--out", str(log))[0] == 0
        (file,) = log.glob("*.parquet")
        file.write_bytes(
            edited(file.read_bytes(), [(at * 9, length, piece) for at, length, piece in edits])
        )
        code, err = command("order", "--input", str(log), "--out", str(out), "--in-process",
                            "--quiet")  # fmt: skip
        assert (code, out.exists()) in ((0, True), (2, False)), err
        if code == 2:
            assert err.startswith(f"slackwater: {log}")


@settings(max_examples=20, deadline=None)
@given(broken=st.dictionaries(st.integers(0, len(PLAIN) - 1), EDITS, min_size=1, max_size=5))
@example(broken={0: [(0, 0, b"\xef\xbb\xbf")], 3: [(0, 9, b"")], 11: [(0, 99, b"")]})
@example(broken={5: [(3, 0, b"\n")], 6: [(22, 0, b"\n\n")]})
def test_on_bad_skip_keeps_every_good_line_and_counts_the_others(broken: dict[int, Edits]) -> None:
    lines = [edited(line, broken.get(n, [])) for n, line in enumerate(PLAIN)]
    data = b"\n".join(lines)
    if data.startswith((b"\x1f\x8b", b"PAR1")):
        return  # another kind of file now
    untouched = [10 + n for n in range(len(PLAIN)) if n not in broken]
    with tempfile.TemporaryDirectory() as folder:
        trace, log, letters = (Path(folder) / name for name in ("t.jsonl", "log", "letters"))
        trace.write_bytes(data)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = run(["log", "import", str(trace), "--out", str(log), "--on-bad", "skip",
                        "--dead-letter", str(letters), "--json"])  # fmt: skip
        assert code == 0
        made = json.loads(out.getvalue())
        written = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        assert made["records"] + made["bad"] == sum(bool(line.strip(b" \t\r")) for line in written)
        assert len(letters.read_text().splitlines()) == made["bad"]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert run(["log", "export", str(log)]) == 0
        survived = [json.loads(line).get("ts") for line in out.getvalue().splitlines()]
        assert len(survived) == made["records"]
        assert set(untouched) <= set(survived)
