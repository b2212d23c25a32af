"""Attributes of a plan are looked for in the whole log, not in its first frame."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import UserError
from engine.log.arrival_log import LogWriter
from engine.passes.pipeline import check_plans
from engine.query import query
from engine.stream.frame import Frame


@pytest.fixture(name="log")
def _log(tmp_path: Path) -> Path:
    """Frames without attributes (as before the first event), with ``tag``, with ``late``."""
    plain = {"source": pa.array(["s"]), "seq": pa.array([0]), "ts": pa.array([0])}
    with LogWriter(tmp_path / "log") as writer:
        for at, attrs in enumerate(((), ("tag",), ("late",))):
            columns = plain | {"arrival": pa.array([at])}
            columns |= {f"attrs.{name}": pa.array([7]) for name in attrs}
            batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            writer.append(Frame("main", batch))
    return tmp_path / "log"


@pytest.mark.parametrize("name", ["tag", "late"])
@pytest.mark.parametrize("returned", ["", " RETURN a.ts"])
def test_attributes_that_come_later_are_found(log: Path, name: str, returned: str) -> None:
    text = f"EVENT SEQ(A a, B b) WHERE a.{name} = b.{name} WITHIN 5 s{returned}"
    check_plans(log, [query(text, name="q")])


def test_an_attribute_that_never_comes_is_told_with_those_there_are(log: Path) -> None:
    with pytest.raises(UserError, match=r"no event has an attribute 'tug'(.|\n)*late(.|\n)*tag"):
        check_plans(log, [query("EVENT SEQ(A a, B b) WHERE a.tug = b.tug WITHIN 5 s", name="q")])
