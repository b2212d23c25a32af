"""Recordings as people have them: what is replayed, and what is refused with its remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slackwater.engine.apps.scenario_run import scored_run
from slackwater.engine.core.errors import UserError
from slackwater.scenarios.from_file import FromFile

ROWS = b"time,reader,type,tag\n1000,door,OPEN,4\n1400,lamp,LIGHT,4\n"
FORM = 'time_unit = "ms"\nmapping = { ts = "time", source = "reader" }'
QUERY = 'opened = "EVENT SEQ(OPEN o, LIGHT l) WHERE o.tag = l.tag WITHIN 1 s"'


def scenario(folder: Path, content: bytes, form: str = FORM, name: str = "r.csv") -> FromFile:
    (folder / name).write_bytes(content)
    path = folder / "r.toml"
    text = f'file = "{name}"\n{form}\n[queries]\n{QUERY}\n'
    path.write_text(f"[[sources]]\n[sources.recording]\n{text}")
    return FromFile(path)


@pytest.mark.parametrize(
    "content",
    [ROWS, b"\xef\xbb\xbf" + ROWS, ROWS.replace(b"\n", b"\r\n"), ROWS.replace(b",", b";")],
    ids=["plain", "mark", "crlf", "semicolons"],
)
def test_a_recording_is_replayed(tmp_path: Path, content: bytes) -> None:
    found = scenario(tmp_path, content)
    score = scored_run(found, found.options(), tmp_path / "run")
    assert score.facts["true_results"] == {"opened": 1}


def test_all_at_one_instant_is_a_recording(tmp_path: Path) -> None:
    found = scenario(tmp_path, ROWS.replace(b"1400", b"1000"))
    manifest = found.make(tmp_path / "run", found.options(), tmp_path)
    assert manifest["events"]["generated"] == 2


def test_ever_new_texts_and_types_are_replayed(tmp_path: Path) -> None:
    """A tag's EPC is another in each row; a message carries 4,096 different texts at most."""
    lines = [f"{row // 10},door,T{row},E{row:023x}" for row in range(10_000)]
    found = scenario(tmp_path, "\n".join(["time,reader,type,tag", *lines]).encode())
    manifest = found.make(tmp_path / "run", found.options(), tmp_path)
    assert manifest["rows"]["event"] == 10_000


BAD: list[tuple[bytes, str, str]] = [
    (ROWS, 'time_unit = "parsec"', "time_unit: expected one of ns us ms"),
    (ROWS, "time_unit = 5", "time_unit: expected one of ns us ms"),
    (ROWS, 'delimiter = ";;"', "delimiter: expected one character, found ';;'"),
    (ROWS, "delimiter = 3", "delimiter: expected one character, found 3"),
    (ROWS, 'header = "x"', "header: expected a list of names"),
    (ROWS, 'attrs = "tag"', "attrs: expected a list of names"),
    (ROWS, "timezone = 3", "timezone: expected a name such as Europe/Berlin"),
    (ROWS, 'mapping = "ts"', "mapping: expected a table of fields with their columns"),
    (ROWS, "mapping = { ts = 3 }", "mapping: expected a table of fields with their columns"),
    (ROWS, 'speeed = 2', 'speeed: unknown setting; did you mean "speed"?'),
    (ROWS, f'{FORM}\nonly = ["dor"]', "no source 'dor' in the file; did you mean \"door\"?"),
    (ROWS, f"{FORM}\nonly = [3]", "only: expected a list of sources"),
    (b"time,reader,note\n1,door," + b"x" * 5000 + b"\n", FORM, "source 'door': attribute 'note'"),
    (b"time,reader," + b",".join(b"c%d" % n for n in range(300)) + b"\n1,door" + b",1" * 300,
     FORM, "has 300 attributes, and can have 256; name those to keep"),
    (b"time,reader\n1," + b"x" * 300 + b"\n", FORM, "must have 1 to 200 characters"),
    (b"time,reader\n0,door\n1400000000000,door\n", FORM, "heartbeats and ticks of the gateway"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "form", "said"), BAD)
def test_what_cannot_be_replayed_is_reported_with_its_line(
    tmp_path: Path, content: bytes, form: str, said: str
) -> None:
    with pytest.raises(UserError) as raised:
        scenario(tmp_path, content, form)
    assert said in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "r.toml"))


@pytest.mark.parametrize(
    ("record", "remedy"),
    [
        ({"ts": 1, "attrs": {"p": {"tag": 4}}}, 'make each of its values an attribute, as in "p_t'),
        ({"ts": 1, "tags": [7, 8]}, 'as in "tags_0": 7, or leave it out'),
        ({"ts": 1, "tags": []}, "make each of its values an attribute, or leave it out"),
    ],
)
@pytest.mark.parametrize("form", ['time_unit = "ms"', 'mapping = { ts = "ts" }'])
def test_nested_json_is_refused_with_a_remedy(
    tmp_path: Path, record: object, remedy: str, form: str
) -> None:
    with pytest.raises(UserError) as raised:
        scenario(tmp_path, json.dumps(record).encode(), form, "r.jsonl")
    assert remedy in str(raised.value)
