"""The ordered stream on disk and as trace records with ``ref``, ``release`` and ``late``."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.released import (
    IN_ORDER,
    LATE,
    LATE_DROPPED,
    RESIDUAL,
    Released,
    Strings,
)
from slackwater.engine.output.ordered_stream import (
    export_ordered_jsonl,
    export_ordered_table,
    released_table,
)
from slackwater.engine.output.part_store import PartStore
from tests.results.written import write_events


def released(strings: Strings, first: int, status: list[int], **attrs: Any) -> Released:
    """Events numbered from ``first``; attrs are (type, values), None = absent."""
    n = len(status)
    number = np.arange(first, first + n)
    columns: dict[str, np.ndarray] = {
        "source": np.full(n, strings.code("dev"), np.int32),
        "stream": np.full(n, strings.code("events"), np.int32),
        "type": np.where(number % 2 == 0, strings.code("A"), -1).astype(np.int32),
        "seq": number - (number == 0),
        "incarnation": np.zeros(n, np.int64),
        "ts": 1000 * number,
        "te": 1000 * number + 500 * (number % 2),
        "arrival": 1000 * number + 1999,
        "ref": 1000 * number - 2500,
        "unc": np.zeros(n, np.int64),
        "epoch": np.zeros(n, np.int64),
        "release": 1000 * number + 3001,
        "status": np.array(status, np.int8),
    }
    types = {}
    for name, (type_, values) in attrs.items():
        types[name] = type_
        given = np.array([value is not None for value in values], bool)
        filled = [values[0] if value is None else value for value in values]
        columns[f"attrs.{name}"] = (
            np.array([strings.code(value) for value in filled], np.int32)
            if type_ == "str"
            else np.array(filled)
        )
        if not given.all():
            columns[f"valid.{name}"] = given
    return Released(n, columns, types, strings, 0)


def exported(directory: Path, unit: str = "ns") -> list[dict[str, Any]]:
    out = io.StringIO()
    count = export_ordered_jsonl(directory, out, unit)
    lines = out.getvalue().splitlines()
    assert len(lines) == count
    return [json.loads(line) for line in lines]


def test_trace_records_with_ref_release_and_late(tmp_path: Path) -> None:
    batch = released(
        Strings(),
        0,
        [IN_ORDER, RESIDUAL, LATE, LATE_DROPPED],
        v=("float", [1.5, None, 2.0, 9.0]),
        s=("str", ["x", "é", None, "y"]),
        b=("bool", [True, False, True, True]),
        n=("int", [2**62, 1, 2, 3]),
    )
    write_events(PartStore(tmp_path), 0, [released_table("main", batch)])
    assert exported(tmp_path, "us") == [
        {"source": "dev", "type": "A", "ts": 0, "arrival": 1.999, "ref": -2.5, "release": 3.001,
         "late": False, "attrs": {"b": True, "n": 2**62, "s": "x", "v": 1.5}},
        {"source": "dev", "seq": 1, "ts": 1, "te": 1.5, "arrival": 2.999, "ref": -1.5,
         "release": 4.001, "late": True, "attrs": {"b": False, "n": 1, "s": "é"}},
        {"source": "dev", "seq": 2, "type": "A", "ts": 2, "arrival": 3.999, "ref": -0.5,
         "release": 5.001, "late": True, "attrs": {"b": True, "n": 2, "v": 2.0}},
    ]  # fmt: skip
    first = exported(tmp_path)[0]
    assert list(first) == ["source", "type", "ts", "arrival", "ref", "release", "late", "attrs"]
    assert (first["ref"], first["release"]) == (-2500, 3001)


def test_columns_are_typed(tmp_path: Path) -> None:
    batch = released(Strings(), 1, [IN_ORDER], v=("float", [1.5]), b=("bool", [True]))
    write_events(PartStore(tmp_path), 3, [released_table("x", batch)])
    (file,) = (tmp_path / "ordered").iterdir()
    assert file.name == "batch-000000000003-0.parquet"
    assert {f.name: str(f.type) for f in pq.read_schema(file)} == {
        "site": "string", "stream": "string", "source": "string", "seq": "int64",
        "incarnation": "int64", "type": "string", "ts": "int64", "te": "int64",
        "arrival": "int64", "ref": "int64", "unc": "int64", "release": "int64", "status": "int8",
        "attrs.b": "bool", "attrs.v": "double",
    }  # fmt: skip


def test_sites_keep_their_own_attributes_and_order(tmp_path: Path) -> None:
    """One attribute name may have another type on another site; batches follow one another."""
    a, b, c = Strings(), Strings(["other"]), Strings()
    store = PartStore(tmp_path)
    write_events(
        store,
        0,
        [
            released_table("b", released(b, 1, [IN_ORDER] * 2, v=("str", ["x", "y"]))),
            released_table("a", released(a, 1, [IN_ORDER], v=("int", [1]))),
            released_table("c", released(c, 1, [IN_ORDER], v=("int", [3]))),
            released_table("a", released(a, 2, [IN_ORDER], v=("float", [2.5]), w=("bool", [True]))),
            released_table("b", released(b, 3, [LATE_DROPPED], v=("str", ["z"]))),
        ],
    )
    write_events(store, 1, [released_table("a", released(a, 3, [IN_ORDER], v=("int", [4])))])
    found = [(each["site"], each["seq"], each["attrs"]) for each in exported(tmp_path)]
    assert found == [
        ("a", 1, {"v": 1.0}), ("a", 2, {"v": 2.5, "w": True}), ("a", 3, {"v": 4}),
        ("b", 1, {"v": "x"}), ("b", 2, {"v": "y"}), ("c", 1, {"v": 3}),
    ]  # fmt: skip
    with pytest.raises(UserError, match="one table cannot hold all sites"):
        export_ordered_table(tmp_path, tmp_path / "out.parquet")


def test_one_parquet_of_all_sites(tmp_path: Path) -> None:
    store = PartStore(tmp_path / "r")
    write_events(
        store,
        0,
        [released_table("b", released(Strings(), 1, [IN_ORDER] * 3, v=("int", [1, 2, 3])))],
    )
    write_events(
        store, 1, [released_table("a", released(Strings(), 1, [IN_ORDER], w=("bool", [True])))]
    )
    assert export_ordered_table(tmp_path / "r", tmp_path / "out.parquet") == 4
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["site"], row["seq"], row["attrs.v"], row["attrs.w"]) for row in rows] == [
        ("a", 1, None, True), ("b", 1, 1, None), ("b", 2, 2, None), ("b", 3, 3, None),
    ]  # fmt: skip


def test_a_site_that_contradicts_itself_is_a_bug(tmp_path: Path) -> None:
    strings = Strings()
    tables = [
        released_table("a", released(strings, 1, [IN_ORDER], v=("int", [1]))),
        released_table("a", released(strings, 2, [IN_ORDER], v=("str", ["x"]))),
    ]
    with pytest.raises(ContractViolation, match="site 'a': released events do not agree"):
        write_events(PartStore(tmp_path), 0, tables)


def test_exports_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder of results"):
        export_ordered_jsonl(tmp_path / "none", io.StringIO())
    assert exported(tmp_path) == []
    assert export_ordered_table(tmp_path, tmp_path / "none.parquet") == 0
    write_events(PartStore(tmp_path), 0, [released_table("a", released(Strings(), 1, [IN_ORDER]))])
    assert export_ordered_table(tmp_path, tmp_path / "one.parquet") == 1
    none, one = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("none", "one"))
    assert none.num_rows == 0
    assert none.schema == one.schema
    with pytest.raises(UserError, match="cannot be written: No such file"):
        export_ordered_table(tmp_path, tmp_path / "no" / "one.parquet")
