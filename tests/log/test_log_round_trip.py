"""A log that is exported and imported again says the same, or the export says what it cannot."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.log.input import lines
from slackwater.engine.log.input.csv_import import CsvRead
from slackwater.engine.log.input.input_read import InputForm
from slackwater.engine.log.input.parquet_import import ParquetRead
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.log.row_export import write_rows
from slackwater.engine.output.json_lines import write_trace

Record = dict[str, Any]
SITES = ("main", "b", "c é")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "str": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4),
}
PLACE = {"stream": st.sampled_from(["events", "u"]), "source": st.sampled_from(["s0", "é:\n"]),
         "clock": st.sampled_from(["s0", "w"])}  # fmt: skip
TIME = st.integers(-(2**40), 2**40)
OTHERS = st.one_of(
    st.fixed_dictionaries({"kind": st.just("pog"), "ts": TIME, "type": st.just("A")}),
    st.fixed_dictionaries(
        {"kind": st.just("ibp"), "ts": TIME, "type": st.just("A"), "id": st.just("i")}
    ),
    st.fixed_dictionaries(
        {"kind": st.just("sync"), "source": PLACE["source"], "offset": TIME, "delay": TIME.map(abs)}
    ),
    st.fixed_dictionaries({"kind": st.just("eos")}, optional=PLACE),
    st.just({"kind": "tick"}),
)


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Records of several sites; each site has attributes, and types, of its own."""
    types = {
        site: draw(st.dictionaries(st.sampled_from("vw"), st.sampled_from(sorted(VALUES))))
        for site in draw(st.lists(st.sampled_from(SITES), min_size=1, unique=True))
    }
    made = []
    for arrival in range(draw(st.integers(1, 12))):
        site = draw(st.sampled_from(sorted(types)))
        record: Record = {"site": site, "arrival": 3 * arrival}
        if draw(st.integers(0, 3)):
            attrs = {name: VALUES[kind] for name, kind in types[site].items()}
            optional = {
                **PLACE,
                "type": st.just("A"),
                "attrs": st.fixed_dictionaries({}, optional=attrs),
            }
            record |= draw(st.fixed_dictionaries({"ts": TIME}, optional=optional))
        else:
            record |= draw(OTHERS)
        made.append(record)
    return made


def typed(frames: Any) -> dict[str, list[Record]]:
    """What each site's records say, in order, with the types of values."""
    default = {"kind": 0, "stream": "events", "incarnation": 0, "seq": -1}
    found: dict[str, list[Record]] = {}
    for frame in frames:
        for row in frame.batch.to_pylist():
            kept = {
                name: (type(value).__name__, value)
                for name, value in row.items()
                if value is not None and value != default.get(name)
                and not (name == "te" and value == row["ts"])
            }  # fmt: skip
            found.setdefault(frame.site, []).append(kept)
    return found


def numbers_alike(found: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """``typed`` without what tells whole numbers from fractions."""
    return {
        site: [
            {name: ("number" if kind in ("int", "float") else kind, value)
             for name, (kind, value) in row.items()}
            for row in rows
        ]
        for site, rows in found.items()
    }  # fmt: skip


def read(folder: Path, records: list[Record]) -> list[Frame]:
    (folder / "first.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    return list(TraceRead(folder / "first.jsonl", "ns"))


def types_of(records: list[Record], name: str) -> set[type]:
    values = [each.get("attrs", {}).get(name) for each in records]
    return {type(value) for value in values if value is not None}


@settings(deadline=None, max_examples=25)
@given(logs())
@example([
    {"ts": 1, "site": "main", "arrival": 0, "attrs": {"v": 1}},
    {"ts": 1, "site": "b", "arrival": 0, "attrs": {"v": "x"}},
    {"ts": 2, "site": "c é", "arrival": 0, "attrs": {"v": 1.0}},
])  # fmt: skip
@example([
    {"ts": 1, "site": "main", "arrival": 0, "attrs": {"v": 1}},
    {"ts": 2, "site": "b", "arrival": 0, "attrs": {"v": 1.5}},
])  # fmt: skip
def test_any_log_survives_every_format_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    folder = tmp_path_factory.mktemp("formats")
    first = read(folder, records)
    out = io.StringIO()
    write_trace(first, out)
    (folder / "again.jsonl").write_text(out.getvalue())
    assert typed(TraceRead(folder / "again.jsonl", "ns")) == typed(first)
    kinds = {name: types_of(records, name) for name in "vw"}
    survives_parquet(folder, records, first, kinds)
    if all(len(found) < 2 for found in kinds.values()):
        survives_csv(folder, records)


def survives_parquet(
    folder: Path, records: list[Record], first: list[Frame], kinds: dict[str, set[type]]
) -> None:
    if any(len(found) > 1 and found != {int, float} for found in kinds.values()):
        with pytest.raises(UserError, match=r"at site .* and .* at site .*; write JSONL instead"):
            write_rows(first, folder / "again.parquet")
        return
    mixed = [name for name, found in kinds.items() if found == {int, float}]
    whole = [each.get("attrs", {}).get(name, 0) for each in records for name in mixed]
    if any(type(value) is int and abs(value) > 2**53 for value in whole):
        with pytest.raises(UserError, match=r"beyond 2\*\*53 .*; write JSONL instead"):
            write_rows(first, folder / "again.parquet")
        return
    write_rows(first, folder / "again.parquet")
    want, found = typed(first), typed(ParquetRead(folder / "again.parquet", "ns"))
    for rows in want.values():
        for row in rows:
            for name in mixed:
                if f"attrs.{name}" in row:
                    row[f"attrs.{name}"] = ("float", float(row[f"attrs.{name}"][1]))
    assert found == want


def survives_csv(folder: Path, records: list[Record]) -> None:
    """But for text that is a number or a truth value, and fractions of which each is whole."""
    for record in records:
        for name, value in record.get("attrs", {}).items():
            if isinstance(value, str):
                record["attrs"][name] = "x" + value
    first = read(folder, records)
    write_rows(first, folder / "again.csv")
    found, want = typed(CsvRead(folder / "again.csv", "ns")), typed(first)
    assert numbers_alike(found) == numbers_alike(want)


def test_types_by_site_hold_over_chunks_and_a_change_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK_LINES", 8)
    many = lines.CHUNK_LINES - 1
    texts = [json.dumps({"ts": 1, "site": "a", "arrival": 1, "attrs": {"v": 1}})] * many
    texts += ['{"ts": 1, "site": "b", "arrival": 1, "attrs": {"v": "x"}}'] * 2
    (tmp_path / "t.jsonl").write_text("\n".join(texts))
    frames = list(TraceRead(tmp_path / "t.jsonl", "ns"))
    assert {frame.site: frame.batch.column("attrs.v").type for frame in frames} == {
        "a": pa.int64(), "b": pa.dictionary(pa.int32(), pa.string()),
    }  # fmt: skip
    with (tmp_path / "t.jsonl").open("a") as more:
        more.write('\n{"ts": 1, "site": "a", "arrival": 1, "attrs": {"v": "x"}}')
    want = f't.jsonl:{many + 3}: attribute "v" is text here \\("x"\\) but a number on line 1'
    with pytest.raises(UserError, match=want):
        list(TraceRead(tmp_path / "t.jsonl", "ns"))
    with pytest.raises(UserError, match='attribute "v" is text here'):
        list(TraceRead(tmp_path / "t.jsonl", InputForm("ns", sort="arrival")))
