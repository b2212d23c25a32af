"""``slackwater log import|export|show`` from the outside: exit codes, output, what is left."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from slackwater.engine.cli.app import run
from slackwater.engine.log.arrival_log import LogReader

TRACE = """{"type":"A","ts":5,"attrs":{"v":1.5}}
{"kind":"sync","source":"x","offset":-5,"delay":3}
{"type":"A","ts":3,"source":"x"}
"""
BACK = """{"source": "s0", "seq": 0, "type": "A", "ts": 5, "arrival": 1, "attrs": {"v": 1.5}}
{"kind": "sync", "source": "x", "arrival": 2, "offset": -5, "delay": 3}
{"source": "x", "seq": 0, "type": "A", "ts": 3, "arrival": 3}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text(TRACE)


class LogCommand:
    """Exit code and output of one command."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        self.code = run(["log", *arguments])
        self.out, self.err = capsys.readouterr()


def test_a_trace_goes_into_a_log_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    made = LogCommand(capsys, "import", "t.jsonl", "--out", "shop.log", "--time-unit", "ms")
    assert (made.code, made.out, made.err) == (0, "shop.log: 3 records in 1 frames\n", "")
    assert LogReader("shop.log").arrival_given is False
    back = LogCommand(capsys, "export", "shop.log", "--time-unit", "ms")
    assert (back.code, back.out, back.err) == (0, BACK, "")
    to_file = LogCommand(capsys, "export", "shop.log", "--out", "back.jsonl", "--time-unit", "ms")
    assert (to_file.code, to_file.out) == (0, "back.jsonl: 3 records\n")
    assert Path("back.jsonl").read_text() == BACK


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_every_format_goes_out_and_in_again(
    suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    LogCommand(capsys, "import", "t.jsonl", "--out", "a.log", "--time-unit", "us")
    out = LogCommand(capsys, "export", "a.log", "--out", f"b.{suffix}", "--json")
    summary = {"log": "a.log", "out": f"b.{suffix}", "format": suffix, "records": 3}
    assert json.loads(out.out) == summary
    LogCommand(capsys, "import", f"b.{suffix}", "--out", "c.log")
    texts = [
        LogCommand(capsys, "export", log, "--time-unit", "us").out for log in ("a.log", "c.log")
    ]
    assert texts == [BACK, BACK]


def test_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TRACE.encode())))
    assert LogCommand(capsys, "import", "-", "--out", "a.log").code == 0
    assert LogCommand(capsys, "export", "a.log").out == BACK


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    LogCommand(capsys, "import", "t.jsonl", "--out", "a.log", "--time-unit", "ms")
    shown = LogCommand(capsys, "show", "a.log", "--time-unit", "ms")
    assert shown.code == 0
    assert "1 (50.0 %)" in shown.out
    shown = json.loads(LogCommand(capsys, "show", "a.log", "--json").out)
    assert {name: shown[name] for name in ("log", "kind", "bad", "frames", "records", "kinds")} == {
        "log": "a.log", "kind": "log", "bad": 0, "frames": 1, "records": 3,
        "kinds": {"event": 2, "sync": 1},
    }  # fmt: skip
    assert shown["lateness_ns"]["100%"] == 2_000_000
    assert json.loads(LogCommand(capsys, "show", "t.jsonl", "--json").out)["kind"] == "trace"


def test_mapping_of_csv_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Path("r.csv").write_text("when;who;v;w\n1;a;2;3\n")
    made = LogCommand(capsys, "import", "r.csv", "--out", "a.log", "--map", "ts=when",
               "--map", "source=who", "--attrs", "w", "--json")  # fmt: skip
    assert json.loads(made.out) == {
        "input": "r.csv", "kind": "csv", "log": "a.log", "frames": 1, "records": 1, "bad": 0,
    }  # fmt: skip
    want = '{"source": "a", "seq": 0, "ts": 1, "arrival": 2, "attrs": {"w": 3}}\n'
    assert LogCommand(capsys, "export", "a.log").out == want


def test_a_bad_line_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.jsonl").write_text('{"ts": 1}\n' * 70_000 + "{}\n")
    made = LogCommand(capsys, "import", "bad.jsonl", "--out", "a.log")
    want = 'slackwater: bad.jsonl:70001: a record of kind event needs "ts"\n'
    assert (made.code, made.out, made.err.splitlines(keepends=True)[0]) == (2, "", want)
    assert "all but 1 of it" in made.err
    assert sorted(path.name for path in Path().iterdir()) == ["bad.jsonl", "t.jsonl"]


def test_bad_lines_are_skipped_counted_and_kept_beside_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("bad.jsonl").write_text('{"ts": 1}\n{}\n{"ts": 2}\n')
    made = LogCommand(capsys, "import", "bad.jsonl", "--out", "a.log", "--on-bad", "skip", "--json")
    assert (made.code, json.loads(made.out)["bad"]) == (0, 1)
    assert made.err == "bad.jsonl: 1 bad lines skipped, kept in a.log.bad.jsonl\n"
    kept = json.loads(Path("a.log.bad.jsonl").read_text())
    assert kept == {"line": 2, "reason": 'a record of kind event needs "ts"', "text": "{}"}
    shown = LogCommand(
        capsys, "show", "bad.jsonl", "--on-bad", "skip", "--dead-letter", "x", "--json"
    )
    assert json.loads(shown.out)["bad"] == 1
    assert shown.err == "bad.jsonl: 1 bad lines skipped, kept in x\n"


def test_an_import_that_was_cut_off_is_begun_anew(capsys: pytest.CaptureFixture[str]) -> None:
    left = Path(".a.log.writing")
    left.mkdir()
    (left / "frames-000000000009.parquet").write_bytes(b"half")
    assert LogCommand(capsys, "import", "t.jsonl", "--out", "a.log").code == 0
    assert [path.name for path in Path("a.log").glob("*.parquet")] == [
        "frames-000000000001.parquet"
    ]
    assert not left.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["import", "none", "--out", "a"], "none: cannot be read: No such file or directory"),
        (["import", "t.jsonl", "--out", "t.jsonl"], "t.jsonl: exists already; choose a new folder"),
        (["import", "t.jsonl", "--out", "a", "--map", "ts"],
         "--map ts: write FIELD=COLUMN, as in --map ts=Client.Time"),
        (["import", "t.jsonl", "--out", "a", "--map", "ts=x", "--map", "ts=y"],
         '--map ts=y: "ts" is "x" already'),
        (["import", "t.jsonl", "--out", "a", "--map", "ts=x"],
         ('t.jsonl:3: no record so far has "x" (wanted for ts); known are type, ts, attrs.v, '
          "kind, source, offset, delay")),
        (["export", "t.jsonl", "--out", "x.txt"],
         "x.txt: name it .jsonl, .csv or .parquet, or give --format"),
        (["export", "t.jsonl", "--format", "cvs"], 'unknown --format "cvs"; did you mean "csv"?'),
        (["export", "t.jsonl", "--format", "csv"],
         "csv goes from a file to a file (it is written in two passes)"),
        (["export", "t.jsonl", "--json"],
         "--json describes what is written to --out FILE; give one"),
        (["export", "t.jsonl", "--out", "no/x.jsonl"],
         "no/x.jsonl: cannot be written: No such file or directory"),
        (["show", "none"], "none: cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_what_the_user_got_wrong_is_reported_with_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(Path().iterdir())
    ran = LogCommand(capsys, *arguments)
    assert (ran.code, ran.err) == (2, f"slackwater: {said}\n")
    assert sorted(Path().iterdir()) == before
