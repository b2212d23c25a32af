"""Two runs' events compared, against a slow twin."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from engine.report.events_against import EVENTS, compared_events, keep_events

REPORT = {"run": {"passes": [{"label": "main"}]}}
Row = tuple[str, int | None, int, int, int, int]
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.one_of(st.none(), st.integers(0, 3)), st.integers(0, 2),
        st.integers(0, 2), st.integers(10, 13), st.integers(0, 3),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


def written(folder: Path, rows: list[Row]) -> None:
    source, seq, ts, ref, release, status = map(list, zip(*rows, strict=True))
    columns = {
        "site": pa.array(["main"] * len(rows)).dictionary_encode(),
        "source": pa.array(source).dictionary_encode(),
        "stream": pa.array(["events"] * len(rows)).dictionary_encode(),
        "incarnation": pa.array([0] * len(rows)), "seq": pa.array(seq, pa.int64()),
        "ts": pa.array(ts), "ref": pa.array(ref), "release": pa.array(release),
        "status": pa.array(status, pa.int8()), "more": pa.array(ts),
    }  # fmt: skip
    (folder / "ordered").mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "ordered" / "part-0.parquet")
    keep_events(folder / "ordered", folder)


def by_name(rows: list[Row]) -> dict[tuple[Any, ...], Row]:
    seen: defaultdict[tuple[Any, ...], int] = defaultdict(int)
    found = {}
    for row in rows:
        name = (row[0], row[1] is None, row[2] if row[1] is None else row[1])
        found[*name, seen[name]] = row
        seen[name] += 1
    return found


@given(ROWS, ROWS)
def test_events_are_paired_by_their_names(before: list[Row], now: list[Row]) -> None:
    with TemporaryDirectory() as scratch:
        folders = [Path(scratch) / of for of in ("before", "now")]
        for folder, rows in zip(folders, (before, now), strict=True):
            written(folder, rows)
            assert "more" not in pq.read_schema(folder / EVENTS).names
        found = compared_events((folders[0], REPORT), (folders[1], REPORT), timed=True, listed=99)
    assert found is not None
    old, new = by_name(before), by_name(now)
    both = [name for name in new if name in old]
    unlike = [n for n in both if (old[n][3], old[n][5]) != (new[n][3], new[n][5])]
    assert found["both"] == len(both)
    assert found["lost"] == len(old.keys() - new.keys()) == len(found["examples"]["lost"])
    assert found["new"] == len(new.keys() - old.keys()) == len(found["examples"]["new"])
    assert found["changed"] == len(unlike) == len(found["examples"]["changed"])
    sooner = [old[n][4] - new[n][4] for n in both if 3 not in (old[n][5], new[n][5])]
    assert found["sooner_ns"]["max"] == (max(sooner) if sooner else None)


def test_what_changed_is_said(tmp_path: Path) -> None:
    written(tmp_path / "before", [("a", 0, 5, 5, 10, 0), ("a", None, 7, 7, 10, 0)])
    written(tmp_path / "now", [("a", 0, 5, 2_000_005, 11, 3), ("a", None, 7, 7, 10, 2)])
    found = compared_events(
        (tmp_path / "before", REPORT), (tmp_path / "now", REPORT), timed=True, listed=1
    )
    assert found is not None
    assert found["changed"] == 2
    (said,) = found["examples"]["changed"]
    assert said.replace("\N{NO-BREAK SPACE}", " ") == (
        "a #0: in order \N{RIGHTWARDS ARROW} dropped, its time 2 ms later"
    )
