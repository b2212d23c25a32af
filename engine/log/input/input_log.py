"""Any input as frames: a trace, CSV, row-wise Parquet, a table or a log, told apart here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import UserError
from engine.log.arrival_log import LogReader, is_log_file
from engine.log.input.lines import STDIN, UNREADABLE, open_bytes
from engine.log.input.trace import TraceRead, read_trace
from engine.log.whole_file import DAMAGED
from engine.stream.frame import Frame

# ruff: noqa: PLC0415 - of the readers, a pass needs one; a trace is the shortest of all
if TYPE_CHECKING:
    from engine.log.input.csv_import import CsvRead
    from engine.log.input.parquet_import import ParquetRead
    from engine.log.input.table_import import TableRead

_PARQUET_MAGIC: Final = b"PAR1"
_HEAD_BYTES: Final = 4096
_TRACE_SUFFIXES: Final = {".jsonl", ".ndjson", ".json"}
_CSV_SUFFIXES: Final = {".csv", ".tsv"}


class InputKind(StrEnum):
    """What an input is."""

    TRACE = "trace"
    CSV = "csv"
    PARQUET = "parquet"
    TABLE = "table"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class InputLog:
    """An input of some ``kind``; iterate it for its frames (standard input only once)."""

    path: str
    kind: InputKind
    reader: TraceRead | CsvRead | ParquetRead | TableRead | LogReader

    @property
    def frames(self) -> Iterator[Frame]:
        return iter(self.reader)

    def __iter__(self) -> Iterator[Frame]:
        return iter(self.reader)

    @property
    def bad_count(self) -> int:
        """Lines or rows refused so far; an arrival log has none."""
        return 0 if isinstance(self.reader, LogReader) else self.reader.bad_count

    @property
    def arrival_given(self) -> bool:
        """Whether arrivals are instants (else line numbers); final once all frames are read."""
        return self.reader.arrival_given


def input_kind(path: str | Path) -> InputKind:
    """What ``path`` is: by its being a folder, its first bytes, then its suffix.

    A pipe can be read only once, so it is not looked into: it is a trace, as standard input is.

    Raises:
        UserError: it cannot be read, or is a single file of an arrival log.
    """
    name = str(path)
    if name == STDIN:
        return InputKind.TRACE
    if Path(name).is_dir():
        within = Path(name, "log")
        if within.is_dir() and not any(Path(name).glob("*.parquet")):
            raise UserError(f"{name}: is the folder of a run; its log is {within}")
        return _folder_kind(Path(name))
    if Path(name).exists() and not Path(name).is_file():
        return InputKind.TRACE
    with open_bytes(name) as stream:
        try:
            head = stream.read(_HEAD_BYTES)
        except UNREADABLE as error:
            raise UserError(f"{name}: cannot be read: {error}") from error
    if head.startswith(_PARQUET_MAGIC):
        _refuse_log_file(Path(name))
        return InputKind.PARQUET
    suffixes = set(Path(name.lower()).suffixes[-2:])
    if suffixes & _CSV_SUFFIXES:
        return InputKind.CSV
    if suffixes & _TRACE_SUFFIXES or head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return InputKind.TRACE
    from engine.log.input.csv_import import DELIMITERS

    header = head.split(b"\n", 1)[0].decode(errors="replace")
    return InputKind.CSV if any(sign in header for sign in DELIMITERS) else InputKind.TRACE


@dataclass(frozen=True, slots=True)
class InputForm:
    """How an input that is no arrival log is written.

    ``unit``: of times that are numbers; None: ns, and an input whose times are dates only in
    another unit is refused. ``mapping``: record field -> column, or key of a trace's objects.
    ``attrs``: columns or keys that become attributes; None: all the rest. ``delimiter``: of CSV;
    None: guessed from the header. ``header``: names of the columns of CSV without a header.
    ``sort``: ``arrival`` | ``ts``; None: records stand in order of arrival. ``timezone``: of times
    that name none; None: UTC.
    """

    unit: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    attrs: Sequence[str] | None = None
    delimiter: str | None = None
    header: Sequence[str] | None = None
    sort: str | None = None
    timezone: str | None = None

    @property
    def of_log(self) -> bool:
        """Whether nothing is said that an arrival log could not have."""
        return replace(self, unit=None) == PLAIN_FORM


PLAIN_FORM: Final = InputForm()


def open_input(
    path: str | Path | pa.Table,
    form: InputForm | str = PLAIN_FORM,
    on_bad: str = "stop",
    dead_letter: str | Path | None = None,
) -> InputLog:
    """The frames of ``path``, whatever kind of input it is.

    Args:
        path: a trace (``-``: standard input), a CSV or Parquet file, a folder of Parquet files, or
            a log's folder; or a table in memory. A named pipe is a trace, too.
        form: how it is written, or but the unit of its times. An arrival log is always in ns.
        on_bad: ``stop`` or ``skip`` bad lines.
        dead_letter: JSONL file for skipped lines.

    Raises:
        UserError: here or while iterating: the input is at fault; names the place.
    """
    form = InputForm(form) if isinstance(form, str) else form
    is_table = isinstance(path, pa.Table)
    name = str(InputKind.TABLE) if is_table else str(path)
    kind = InputKind.TABLE if is_table else input_kind(name)
    if kind is InputKind.LOG and not form.of_log:
        raise UserError(
            f"{name}: is an arrival log, whose records are as they were received; --map, --attrs, "
            "--sort and --timezone are for traces, CSV and Parquet"
        )
    if kind is not InputKind.CSV and (form.delimiter or form.header is not None):
        raise UserError(f"{name}: is a {kind}; --delimiter and --header are for CSV")
    reader: TraceRead | CsvRead | ParquetRead | TableRead | LogReader
    shared = (form.unit, on_bad, dead_letter, form.mapping, form.attrs)
    more = (form.sort, form.timezone)
    if kind is InputKind.LOG:
        reader = LogReader(name)
    elif kind is InputKind.TRACE:
        reader = read_trace(name, *shared, *more)
    elif is_table:
        from engine.log.input.table_import import read_table

        reader = read_table(path, *shared, *more)
    elif kind is InputKind.CSV:
        from engine.log.input.csv_import import read_csv

        reader = read_csv(name, *shared, form.delimiter, *more, form.header)
    else:
        from engine.log.input.parquet_import import read_parquet

        reader = read_parquet(name, *shared, *more)
    return InputLog(name, kind, reader)


def _folder_kind(folder: Path) -> InputKind:
    """A folder of Parquet files that are none of a log is a table; anything else is to be a log."""
    from engine.log.input.parquet_import import table_files

    files = table_files(str(folder))
    if not files:
        return InputKind.LOG
    try:
        schemas = [pq.read_schema(file) for file in files]
    except DAMAGED:
        return InputKind.LOG  # its reader says which file is damaged
    return InputKind.LOG if any(map(is_log_file, schemas)) else InputKind.PARQUET


def _refuse_log_file(path: Path) -> None:
    try:
        schema = pq.read_schema(path)
    except DAMAGED as error:
        raise UserError(f"{path}: damaged Parquet file: {error}") from error
    if is_log_file(schema):
        raise UserError(f"{path}: one file of an arrival log; give its folder, {path.parent}")
