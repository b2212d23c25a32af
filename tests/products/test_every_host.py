"""The same statements of the same input in every form, through every host, into every output."""

from __future__ import annotations

import csv
import gzip
import json
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

import slackwater
from slackwater.engine.hosts.chain import Chain
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.log.row_export import write_rows
from tests.live.engine_life import KilledError, Life, passed
from tests.products.questions import Result
from tests.products.test_every_product import Run, runs, standing
from tests.products.worlds import ATTRIBUTES, Record, World, worlds
from tests.spark.test_growing_log import Growing, tidied

SITES = ("n", "s")
FIELDS = (
    "kind", "site", "stream", "source", "seq", "type", "ts", "te", "arrival", "offset", "delay",
    "skew_error_ppb", "precision", "first_seq", "incarnation", "id",
)  # fmt: skip
DEFAULTS = {"kind": "event", "stream": "events"}


# ---- forms of an input -------------------------------------------------------------------------
def _lines(records: Sequence[Record], folder: Path) -> Path:
    path = folder / "given.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def _bare_lines(records: Sequence[Record], folder: Path) -> Path:
    """Without what goes without saying, and attributes beside the fields; packed."""
    path = folder / "given.jsonl.gz"
    with gzip.open(path, "wt") as out:
        for record in records:
            said = {name: value for name, value in record.items() if name != "attrs"}
            said = {name: value for name, value in said.items() if DEFAULTS.get(name) != value}
            if said.get("te") == said.get("ts"):
                said.pop("te", None)
            out.write(json.dumps(said | record.get("attrs", {})) + "\n")
    return path


def _rows(records: Sequence[Record]) -> dict[str, list[Any]]:
    full = [
        record | ({} if "kind" in record else DEFAULTS | record | {"kind": "event"})
        for record in records
    ]
    columns = {name: [record.get(name) for record in full] for name in FIELDS}
    attrs = [record.get("attrs", {}) for record in records]
    columns |= {name: [one.get(name) for one in attrs] for name in ATTRIBUTES}
    return {name: of for name, of in columns.items() if any(value is not None for value in of)}


def _csv(records: Sequence[Record], folder: Path) -> Path:
    columns = _rows(records)
    with (folder / "given.csv").open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
    return folder / "given.csv"


def _parquet(records: Sequence[Record], folder: Path) -> Path:
    """In two files; each has only the columns that it needs."""
    (folder / "given").mkdir()
    for number, some in enumerate((records[: len(records) // 2], records[len(records) // 2 :])):
        if some:
            pq.write_table(pa.table(_rows(some)), folder / "given" / f"part-{number}.parquet")
    return folder / "given"


def _log(records: Sequence[Record], folder: Path) -> Path:
    Growing("".join(json.dumps(record) + "\n" for record in records), folder, 7)
    return folder / "all"


def _exported_csv(records: Sequence[Record], folder: Path) -> Path:
    write_rows(TraceRead(_lines(records, folder)), folder / "exported.csv")
    return folder / "exported.csv"


def _exported_parquet(records: Sequence[Record], folder: Path) -> Path:
    write_rows(TraceRead(_lines(records, folder)), folder / "exported.parquet")
    return folder / "exported.parquet"


FORMS: dict[str, Callable[[Sequence[Record], Path], Any]] = {
    "lines": _lines, "bare lines": _bare_lines, "csv": _csv, "parquet": _parquet,
    "columns": lambda records, _folder: _rows(records),
    "arrow": lambda records, _folder: pa.table(_rows(records)),
    "log": _log, "exported csv": _exported_csv, "exported parquet": _exported_parquet,
}  # fmt: skip


@dataclass(frozen=True)
class Way:
    """``other``: what the second site sends. ``lives``: (files read, killed at which writing, is
    the state saved, is the log tidied) of an engine beside the log that grows.
    """

    form: str
    other: World
    lives: tuple[tuple[int, int, bool, bool], ...]

    def records(self, world: World) -> list[Record]:
        both = [
            record | {"site": site}
            for site, of in zip(SITES, (world, self.other), strict=True)
            for record in of.records
        ]
        return sorted(both, key=lambda record: record["arrival"])


WAYS = st.builds(
    Way, st.sampled_from(sorted(FORMS)), worlds(8),
    st.lists(
        st.tuples(
            st.integers(1, 4), st.sampled_from([0, 2, 9, 10**6]), st.booleans(), st.booleans()
        ),
        min_size=1, max_size=5,
    ).map(tuple),
)  # fmt: skip


def by_place(results: Sequence[Result]) -> dict[tuple[str, str], list[Result]]:
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result["query"], result["site"]), []).append(result)
    return found


def _there(result: Result) -> Result:
    """Without a field that has nothing, which a line may leave out."""
    return {name: value for name, value in result.items() if value is not None}


def known_only(value: Any) -> Any:
    """Without what is not there, which a table has as null."""
    if isinstance(value, dict):
        kept = {name: known_only(each) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each not in (None, {})}
    return [known_only(each) for each in value] if isinstance(value, list | tuple) else value


def of_chains(run: Run, way: Way) -> dict[tuple[str, str], list[Result]]:
    """What the chains of both sites give to whole frames, in this process.

    Numbers are taken as every input takes them.
    """
    chosen, found = run.chosen(), []
    for site, world in zip(SITES, (run.world, way.other), strict=True):
        chain = Chain(chosen, site)
        with tempfile.TemporaryDirectory() as folder:
            records = [record | {"site": site} for record in world.records]
            frames = list(TraceRead(_lines(records, Path(folder)), "ns"))
        for output in (chain.process(frames), chain.finish()):
            for results in output.results:
                found += [_there(json.loads(json.dumps(result))) for result in results]
    return by_place(found)


def asked(run: Run, source: Any, **more: Any) -> slackwater.Results:
    chosen = run.chosen()
    alert = any(question.kind == "alert" for question, _ in run.mine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", slackwater.SlackwaterWarning)
        return slackwater.query(
            source, {f"asked{place}": one.text for place, (one, _) in enumerate(run.mine)},
            order=run.order_text, barrier=run.barrier, certainty=run.certainty, purge=run.purge,
            intervals=run.more[0], guard="off", late=True, clock="exact",
            window="horizon=600s" if any(plan.windows for plan in chosen.plans) else None,
            monitor="horizon=600s" if alert else None, **more,
        ).changes()  # fmt: skip


def check(run: Run, way: Way, folder: Path) -> None:
    records = way.records(run.world)
    used = {name for record in records for name in record.get("attrs", {})}
    assume(used == {*ATTRIBUTES})  # a query that names one that is nowhere is refused
    run = replace(run, more=(run.more[0], "cost"))
    expected = of_chains(run, way)
    try:
        answered = asked(run, FORMS[way.form](records, folder))
    except slackwater.UserError as error:  # so is a name of a stream or a type
        absent = re.search(r"no event is of (stream|type) '(\w+)'", str(error))
        if absent is None or any(record.get(absent[1]) == absent[2] for record in records):
            raise
        reject()
    with answered as found:
        rows_read = list(found)
        assert by_place([_there(result) for result in rows_read]) == expected
        mixed = len({plan.result_kind for plan in run.chosen().plans}) > 1
        tables_say(found, rows_read, folder, mixed=mixed)
    if spills(run):
        with asked(run, _lines(records, folder), spill=f"{folder / 'spilled'},{SPILL}") as found:
            for place, results in by_place(list(found)).items():
                net = [
                    Counter(map(_bare, standing(some, 1))) for some in (results, expected[place])
                ]
                assert net[0] == net[1]
    lived(run, way, records, folder)


SPILL = "hot=12,chunk=5,pending=2,wait=9"


def spills(run: Run) -> bool:
    plain = ("PAL", "ISEQ", "OVERLAP", "CREATE", "WINDOW", "CONSTRAINT", "+", "{", "?", "AND(")
    return run.purge.startswith("late") and not any(
        word in question.text for question, _ in run.mine for word in plain
    )


def _bare(result: Result) -> str:
    return json.dumps({**result, "known_at": 0}, sort_keys=True)


def tables_say(
    found: slackwater.Results, rows_read: list[Result], folder: Path, *, mixed: bool
) -> None:
    """Files of every kind, read back, have the results that iterating gives. ``mixed``: they are of
    several kinds, which no table holds.
    """
    found.write(folder / "out.jsonl")
    lines = (folder / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows_read
    if mixed or not rows_read:
        return
    found.write(folder / "out.parquet")
    rows = pq.read_table(folder / "out.parquet").to_pylist()
    in_order = sorted(rows_read, key=lambda result: result["site"])
    assert _sorted(rows) == _sorted(in_order)
    found.write(folder / "out.csv")
    flat = found.to_arrow(flat=True)
    read = pyarrow.csv.read_csv(
        folder / "out.csv",
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=flat.schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    assert read.to_pylist() == flat.to_pylist()


def _sorted(results: Sequence[Result]) -> list[str]:
    return sorted(json.dumps(known_only(_loose(one)), sort_keys=True) for one in results)


def _loose(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _loose(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_loose(each) for each in value]
    return float(value) if isinstance(value, int) else value


def lived(run: Run, way: Way, records: Sequence[Record], folder: Path) -> None:
    """An engine that is killed, and goes on over a log that grows, answers as one pass does."""
    chosen = run.chosen()
    growing = Growing(_text(records), _made(folder / "grows"), 3)
    lives, there = list(way.lives), 0
    while growing.left:
        files, last, saves, tidies = (
            lives.pop(0) if lives else (len(growing.left), 10**6, True, False)
        )
        there += len(growing.left[:files])
        growing.grow(files)
        try:
            life = Life(folder / "grows", chosen, last)
            life.engine.upto(there)
            if saves:
                life.engine.save()
        except KilledError:
            pass
        if tidies:
            tidied(growing.log)
    life = Life(folder / "grows", chosen)
    life.engine.upto(there)
    life.engine.close()
    assert life.written() == passed(folder / "grows", chosen)


def _text(records: Sequence[Record]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def in_a_folder(run: Run, way: Way) -> None:
    with tempfile.TemporaryDirectory() as name:
        check(run, way, Path(name))


@given(run=runs(), way=WAYS)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_form_host_and_output_says_the_same(run: Run, way: Way) -> None:
    in_a_folder(run, way)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@given(run=runs(), way=WAYS)
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
def test_very_many_say_the_same_in_every_form(run: Run, way: Way) -> None:
    in_a_folder(run, way)
