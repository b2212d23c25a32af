"""Names out of data do nothing to a terminal: in messages, tables and summaries."""

from __future__ import annotations

import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from slackwater.edge_agent.errors import json_out, visible, visible_json
from slackwater.engine.cli.terminal import PlainConsole, show_results

TITLE = "\x1b]0;owned\x07"
NASTY = f"{TITLE}\x1b[2J\x9b31m\u202e\x7f"


def is_harmless(text: str) -> bool:
    """Whether a terminal prints it and does nothing else."""
    return all(sign in "\n\t" or unicodedata.category(sign)[0] != "C" for sign in text)


@given(st.text())
def test_any_text_becomes_harmless_and_plain_text_stays(text: str) -> None:
    unassigned = {"Cn", "Co"}
    shown = "".join(sign for sign in visible(text) if unicodedata.category(sign) not in unassigned)
    assert is_harmless(shown)
    if is_harmless(text):
        assert visible(text) == text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def test_a_console_shows_codes_and_acts_on_its_own_only() -> None:
    out = io.StringIO()
    console = PlainConsole(file=out, width=200, force_terminal=True, color_system="standard")
    table = Table(title=NASTY, caption=NASTY)
    table.add_column(f"c{NASTY}")
    table.add_row(f"v{NASTY}")
    console.print(table)
    console.print(f"[red]{NASTY}[/]", highlight=False)
    assert "\\x1b]0;owned" in out.getvalue()
    for sign in (TITLE, "\x1b[2J", "\x9b", "\u202e", "\x7f"):
        assert sign not in out.getvalue()
    assert "\x1b[31m" in out.getvalue()  # the red is ours


@pytest.mark.parametrize("field", ["site", "source", "type", "stream"])
def test_no_command_hands_a_names_codes_to_a_terminal(
    field: str, cli: Any, trace: Any, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        {"type": kind, "ts": ts, "arrival": ts, "source": "s"} | {field: f"n{NASTY}"}
        for ts, kind in enumerate("ABAB", 1)
    ]
    name = trace(*records)
    windows = "SELECT count(*) FROM other GROUP BY source WINDOW TUMBLING 2"
    unseen = "EVENT SEQ(X x, Y y) WITHIN 5"
    asked = [
        ("query", windows, "--input", "made.log"), ("query", unseen, "--input", "made.log"),
        ("log", "show", name), ("compare", "--input", name, "--order", "none"),
    ]  # fmt: skip
    refused = cli("query", unseen, "--input", name)
    assert refused.code == 2
    assert is_harmless(refused.err)
    assert cli("log", "import", name, "--out", "made.log").code == 0
    for arguments in asked:
        ran = cli(*arguments)
        assert ran.code == 0, ran.err
        assert is_harmless(ran.err + ran.out), arguments
    cli("order", "--input", name, "--out", "o.jsonl")
    show_results(here / "o.jsonl")
    assert is_harmless(capsys.readouterr().out)


def test_no_error_hands_codes_to_a_terminal(cli: Any, trace: Any) -> None:
    for arguments in (
        ("order", "--input", f"absent{NASTY}"),
        ("order", "--input", trace({"type": "A", "ts": 1}), "--order", f"k{NASTY}"),
        ("query", f"EVENT SEQ(A a, B b) WHERE a.{NASTY} = 1", "--input", "t.jsonl"),
        ("order", "--input", trace(json.dumps({"kind": NASTY, "ts": 1}), name="v.jsonl")),
        (f"command{NASTY}",),
        ("order", f"--option{NASTY}"),
    ):
        ran = cli(*arguments)
        assert ran.code == 2, arguments
        assert ran.err
        assert is_harmless(ran.err + ran.out), arguments


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_for_a_terminal_says_the_same_and_is_harmless(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    shown = visible_json(text)
    assert json.loads(shown) == value
    unassigned = {"Cn", "Co"}
    assert is_harmless("".join(s for s in shown if unicodedata.category(s) not in unassigned))
    if is_harmless(text) and not {"\u2028", "\u2029"} & set(text):
        assert shown == text


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_goes_to_a_terminal_visibly_and_to_a_pipe_as_it_is(
    trace: Any, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nasty = {"type": NASTY, "source": NASTY, "ts": 1, "seq": 0, "attrs": {NASTY: NASTY}}
    for arguments in (("log", "export", trace(nasty)), ("log", "show", trace(nasty), "--json")):
        piped = cli(*arguments).out
        assert "\x7f" in piped
        screen = Screen()
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", screen)
            assert json_out() is not screen
            assert cli(*arguments).code == 0
        assert is_harmless(screen.getvalue())
        assert json.loads(screen.getvalue()) == json.loads(piped)
