"""Texts that rows share go into Parquet as dictionaries, and come out as the texts they are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.output.export import export_table
from slackwater.engine.output.part_store import HELD_BYTES, PartStore
from slackwater.engine.output.result_kinds import KINDS
from slackwater.engine.output.schema import ALERTS, MATCHES

TEXTS = st.sampled_from(["", "a", "b", "é", "a\nb", "x" * 40])
EVENT = st.fixed_dictionaries(
    {"site": TEXTS, "source": st.none() | TEXTS, "type": TEXTS, "ts": st.integers(0, 9)}
)
MATCH = st.fixed_dictionaries(
    {"op": st.sampled_from("+-"), "query": TEXTS, "certainty": st.none() | TEXTS,
     "events": st.none() | st.lists(EVENT, max_size=3)}
)  # fmt: skip
ALERT = st.fixed_dictionaries(
    {"op": st.just("+"), "query": TEXTS, "alert": TEXTS, "allowed": st.none() | TEXTS,
     "so_far": st.none() | st.lists(st.fixed_dictionaries({"source": TEXTS}), max_size=3)}
)  # fmt: skip
SPARE = ("spare", *map(str, range(30)))
"""Texts that no row has: a source's name is known before, and after, it says something."""


def recoded(values: pa.Array, how: str) -> pa.Array:
    """The same texts, with another dictionary wherever there is one."""
    if pa.types.is_dictionary(values.type):
        known = values.dictionary.to_pylist()
        if how == "longer":
            known = [*known, *(text for text in SPARE if text not in known)]
        elif how == "twice":
            known = [*known, *known]
        elif how == "null":
            known = [*known, None]
        return pa.DictionaryArray.from_arrays(values.indices, pa.array(known, pa.string()))
    if pa.types.is_struct(values.type):
        inner = [recoded(values.field(i), how) for i in range(values.type.num_fields)]
        return pa.StructArray.from_arrays(inner, fields=list(values.type), mask=values.is_null())
    if pa.types.is_list(values.type):
        inner = recoded(values.values, how)
        return pa.ListArray.from_arrays(values.offsets, inner, mask=values.is_null())
    return values


def table(kind: str, rows: list[dict[str, Any]], site: str, how: str) -> pa.Table:
    """``rows`` as an operator gives them."""
    schema = KINDS[kind].schema
    placed = [{"position": n, "site": site, "at": n, **row} for n, row in enumerate(rows)]
    made = pa.Table.from_pylist(placed, schema=schema).combine_chunks()
    return pa.table([recoded(c.chunk(0), how) for c in made.columns], schema=schema)


HOW = st.sampled_from(["same", "longer", "twice", "null"])


@given(
    kind_rows=st.tuples(st.just(MATCHES), st.lists(MATCH, min_size=1, max_size=6))
    | st.tuples(st.just(ALERTS), st.lists(ALERT, min_size=1, max_size=6)),
    batches=st.lists(st.tuples(HOW, st.sampled_from(["main", "x"])), min_size=1, max_size=4),
)
@settings(max_examples=30, deadline=None)
def test_the_table_says_what_the_rows_say_whatever_their_dictionaries(
    tmp_path_factory: pytest.TempPathFactory,
    kind_rows: tuple[str, list[dict[str, Any]]],
    batches: list[tuple[str, str]],
) -> None:
    """Of one site or several, of batches whose dictionaries differ; and CSV has the same texts."""
    folder, (kind, rows) = tmp_path_factory.mktemp("shared"), kind_rows
    stores = [PartStore(folder / "held", HELD_BYTES), PartStore(folder / "plain", HELD_BYTES)]
    for number, (how, site) in enumerate(batches):
        for store, coded in zip(stores, (how, "same"), strict=True):
            store.replace(kind, number, [[table(kind, rows, site, coded)]])
    written = {
        ending: [folder / f"{name}.{ending}" for name in ("given", "same")]
        for ending in ("parquet", "csv")
    }
    for files in written.values():
        for store, file in zip(stores, files, strict=True):
            assert export_table(store, file, kind) == len(rows) * len(batches)
    given_csv, same_csv = written["csv"]
    assert given_csv.read_bytes() == same_csv.read_bytes()
    lines = pacsv.ParseOptions(newlines_in_values=True)
    read = pacsv.read_csv(given_csv, parse_options=lines)
    assert read.num_rows == len(rows) * len(batches)
    shown, same = map(pq.read_table, written["parquet"])
    assert shown.equals(same)
    names = [name for name in rows[0] if name not in ("events", "so_far")]
    ordered = sorted(range(len(batches)), key=lambda n: (batches[n][1], n))
    wanted = [{name: row[name] for name in names} for _ in ordered for row in rows]
    assert shown.select(names).to_pylist() == wanted
    assert shown["site"].to_pylist() == [batches[n][1] for n in ordered for _ in rows]


def kinds_within(kind: pa.DataType) -> list[pa.DataType]:
    """A type, and those of what it holds."""
    fields = [kind.field(place) for place in range(kind.num_fields)]
    return [kind, *(inner for field in fields for inner in kinds_within(field.type))]


def test_readers_see_texts(tmp_path: Path) -> None:
    """A dictionary is a way of writing; of Arrow's type pandas would make categories."""
    rows = [{"op": "+", "query": "q", "certainty": "confirmed",
             "events": [{"site": "main", "source": "s", "type": "A", "ts": 1}]}]  # fmt: skip
    store = PartStore(tmp_path / "held", HELD_BYTES)
    store.replace(MATCHES, 0, [[table(MATCHES, rows, "main", "same")]])
    export_table(store, tmp_path / "t.parquet", MATCHES)
    schema = pq.read_schema(tmp_path / "t.parquet")
    found = [inner for field in schema for inner in kinds_within(field.type)]
    assert pa.string() in found
    assert not [kind for kind in found if pa.types.is_dictionary(kind)]


def test_a_row_group_holds_no_more_texts_than_it_has_rows(tmp_path: Path) -> None:
    """Of 100,000 sources a batch may say one: their names are not written for each batch."""
    many = pa.array([f"source-{n:08d}" for n in range(100_000)])
    store = PartStore(tmp_path / "held", HELD_BYTES)
    rows = [{"op": "+", "query": "q", "events": [{"source": "", "ts": 1}]}]
    for number in range(20):
        one = table(MATCHES, rows, "main", "same")
        query = pa.DictionaryArray.from_arrays(pa.array([number], pa.int32()), many)
        place = one.schema.get_field_index("query")
        store.replace(MATCHES, number, [[one.set_column(place, "query", query)]])
    export_table(store, tmp_path / "t.parquet", MATCHES)
    assert (tmp_path / "t.parquet").stat().st_size < 200_000
    assert pq.read_table(tmp_path / "t.parquet")["query"].to_pylist() == many[:20].to_pylist()


def test_two_sites_texts_take_the_room_of_one_dictionary(tmp_path: Path) -> None:
    """Each site has its own: where one follows another, Parquet's writer would give them up."""
    draw, rows = random.Random(11), 5000
    store = PartStore(tmp_path / "held", HELD_BYTES)
    for number, site in enumerate(("a", "b")):
        known = [f"{draw.getrandbits(256):064x}" for _ in range(50)]
        queries = [{"op": "+", "query": draw.choice(known), "events": []} for _ in range(rows)]
        store.replace(MATCHES, number, [[table(MATCHES, queries, site, "same")]])
    export_table(store, tmp_path / "t.parquet", MATCHES)
    plain = pq.read_table(tmp_path / "t.parquet").select(["query"])
    pq.write_table(plain, tmp_path / "least.parquet", compression="zstd")
    group = pq.read_metadata(tmp_path / "t.parquet").row_group(0)
    columns = map(group.column, range(group.num_columns))
    query = next(column for column in columns if column.path_in_schema == "query")
    assert query.total_compressed_size < 1.2 * (tmp_path / "least.parquet").stat().st_size
