"""Any input as frames: a trace, CSV, row-wise Parquet, a table or a log; detects which it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from engine.core.errors import UserError
from engine.log.arrival_log import LogReader, is_log_file
from engine.log.input.input_read import PLAIN_FORM, InputForm, InputKind, InputRead
from engine.log.input.lines import STDIN, UNREADABLE, open_bytes, table_files
from engine.log.input.trace import TraceRead
from engine.log.whole_file import DAMAGED, parquet_schema

# ruff: noqa: PLC0415 - of the readers, a pass needs one; a trace is the shortest of all

_PARQUET_MAGIC: Final = b"PAR1"
_HEAD_BYTES: Final = 4096
_TRACE_SUFFIXES: Final = {".jsonl", ".ndjson", ".json"}
_CSV_SUFFIXES: Final = {".csv", ".tsv"}


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


def open_input(
    path: str | Path | Sequence[str] | pa.Table,
    form: InputForm | str = PLAIN_FORM,
    on_bad: str = "stop",
    dead_letter: str | Path | None = None,
) -> InputRead | LogReader:
    """A reader of the frames of ``path``, whatever kind of input it is.

    Args:
        path: a trace (``-``: standard input), a CSV or Parquet file, a folder of Parquet files, or
            a log's folder; or a table in memory. A named pipe is a trace, too. Or several
            paths, globs and folders of such files, which become one input.
        form: how it is written, or but the unit of its times. An arrival log is always in ns.
        on_bad: ``stop`` or ``skip`` bad lines.
        dead_letter: JSONL file for skipped lines.

    Raises:
        UserError: here or while iterating: the input is at fault; names the place.
    """
    form = InputForm(form) if isinstance(form, str) else form
    if not isinstance(path, Path | pa.Table):
        from engine.log.input.several import SeveralRead, files_of

        files = files_of([path] if isinstance(path, str) else path)
        if len(files) > 1 or form.named_by_file:
            return SeveralRead(files, open_input, form, on_bad, dead_letter)
        path = files[0]
    kind = InputKind.TABLE if isinstance(path, pa.Table) else input_kind(path)
    name = str(InputKind.TABLE if kind is InputKind.TABLE else path)
    if kind is InputKind.LOG and not form.of_log:
        raise UserError(
            f"{name}: is an arrival log, whose records are as they were received; --map, --attrs, "
            "--sort and --timezone are for traces, CSV and Parquet"
        )
    if kind is not InputKind.CSV and (form.delimiter or form.header is not None):
        raise UserError(f"{name}: is a {kind}; --delimiter and --header are for CSV")
    if isinstance(path, pa.Table):
        from engine.log.input.table_import import TableRead

        return TableRead(path, form, on_bad, dead_letter)
    if kind is InputKind.LOG:
        return LogReader(name)
    reader: type[InputRead]
    if kind is InputKind.TRACE:
        reader = TraceRead
    elif kind is InputKind.CSV:
        from engine.log.input.csv_import import CsvRead

        reader = CsvRead
    else:
        from engine.log.input.parquet_import import ParquetRead

        reader = ParquetRead
    return reader(name, form, on_bad, dead_letter)


def _folder_kind(folder: Path) -> InputKind:
    """A folder of Parquet files that are none of a log is a table; anything else is to be a log."""
    files = table_files(str(folder))
    if not files:
        return InputKind.LOG
    try:
        schemas = [parquet_schema(file) for file in files]
    except DAMAGED:
        return InputKind.LOG  # its reader says which file is damaged
    return InputKind.LOG if any(map(is_log_file, schemas)) else InputKind.PARQUET


def _refuse_log_file(path: Path) -> None:
    try:
        schema = parquet_schema(path)
    except DAMAGED as error:
        raise UserError(f"{path}: damaged Parquet file: {error}") from error
    if is_log_file(schema):
        raise UserError(f"{path}: one file of an arrival log; give its folder, {path.parent}")
