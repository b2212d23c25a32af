"""Any input as frames: a trace, CSV, row-wise Parquet, a table or a log; detects which it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from slackwater.edge_agent.errors import did_you_mean
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.arrival_log import LogReader, is_log_file
from slackwater.engine.log.input.input_read import (
    FORMATS,
    ON_SHORT,
    PLAIN_FORM,
    InputForm,
    InputKind,
    InputRead,
)
from slackwater.engine.log.input.lines import (
    GET_AGAIN,
    STDIN,
    UNREADABLE,
    is_spooled,
    open_bytes,
    spool_stdin,
    table_files,
)
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.log.whole_file import DAMAGED, parquet_schema

# ruff: noqa: PLC0415 - of the readers, a pass needs one; a trace is the shortest of all

_PARQUET_MAGIC: Final = b"PAR1"
_ARRAY: Final = re.compile(r"\[+\{")
_HEAD_BYTES: Final = 4096
_TRACE_SUFFIXES: Final = {".jsonl", ".ndjson", ".json"}
_CSV_SUFFIXES: Final = {".csv", ".tsv"}


def input_kind(path: str | Path, encoding: str | None = None) -> InputKind:
    """What ``path`` is: by its being a folder, its first bytes, then its suffix.

    A named pipe can be read only once, so it is not looked into: it is a trace. Standard input is
    one, too, if it begins with an object; else it is kept in a file.

    Raises:
        UserError: it cannot be read, or is a single file of an arrival log.
    """
    name = str(path)
    if name == STDIN:
        spool_stdin()
        if not is_spooled():
            return InputKind.TRACE
    elif Path(name).is_dir():
        within = Path(name, "log")
        if within.is_dir() and not any(Path(name).glob("*.parquet")):
            raise UserError(f"{name}: is the folder of a run; its log is {within}")
        return _folder_kind(Path(name))
    elif Path(name).exists() and not Path(name).is_file():
        return InputKind.TRACE
    with open_bytes(name, encoding) as stream:
        try:
            head = stream.read(_HEAD_BYTES)
        except UNREADABLE as error:
            raise UserError(f"{name}: cannot be read: {error}; {GET_AGAIN}") from error
    if head.startswith(_PARQUET_MAGIC):
        if name == STDIN:
            raise UserError("Parquet cannot be read from standard input; save it as a file")
        _refuse_log_file(Path(name))
        return InputKind.PARQUET
    text = head.decode("utf-8-sig", errors="replace")
    if text.startswith(("#datatype", "#group", "#default")):
        return InputKind.ANNOTATED
    suffixes = set(Path(name.lower()).suffixes[-2:])
    if suffixes & _CSV_SUFFIXES:
        return InputKind.CSV
    first = text.lstrip().partition("\n")[0].strip()
    if _ARRAY.match(first) or first == "[" or (first.startswith("{") and first[-1] in "{[,"):
        return InputKind.JSON
    if suffixes & _TRACE_SUFFIXES or first.startswith("{"):
        return InputKind.TRACE
    from slackwater.engine.log.input.documents import is_point

    if ".lp" in suffixes or is_point(first):
        return InputKind.LINE_PROTOCOL
    from slackwater.engine.log.input.csv_import import DELIMITERS

    return InputKind.CSV if any(sign in text for sign in DELIMITERS) else InputKind.TRACE


def kind_of(path: str | Path, form: InputForm) -> InputKind:
    """What ``path`` is: what ``--format`` says, else as ``input_kind`` sees it.

    Raises:
        UserError: an unknown format; as of ``input_kind``.
    """
    if form.format is None or Path(path).is_dir():
        return input_kind(path, form.encoding)
    if form.format not in FORMATS:
        hint = did_you_mean(form.format, FORMATS)
        raise UserError(f"unknown --format {form.format}{hint}; use {', '.join(FORMATS)}")
    kind = FORMATS[form.format]
    if str(path) == STDIN and kind is not InputKind.TRACE:
        spool_stdin()
    return kind


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
    if form.on_short not in ON_SHORT:
        raise UserError(f"unknown --on-short {form.on_short}; use {' or '.join(ON_SHORT)}")
    if isinstance(path, pa.Table):
        kind, name = InputKind.TABLE, str(InputKind.TABLE)
    else:
        name = path if isinstance(path, str) else str(path) if isinstance(path, Path) else ""
        if form.named_by_file or not (name == STDIN or Path(name).is_file()):
            from slackwater.engine.log.input.several import SeveralRead, files_of

            files = files_of([name] if isinstance(path, str | Path) else path)
            if len(files) > 1 or form.named_by_file:
                return SeveralRead(files, open_input, form, on_bad, dead_letter)
            name = files[0]
        of_itself = form.format is None
        kind = input_kind(name, form.encoding) if of_itself else kind_of(name, form)
    if kind is InputKind.LOG and not form.of_log:
        raise UserError(
            f"{name}: is an arrival log, whose records are as they were received; --map, --attrs, "
            "--sort and --timezone are for traces, CSV and Parquet"
        )
    if kind is not InputKind.CSV and (form.delimiter or form.header is not None):
        raise UserError(f"{name}: is a {kind}; --delimiter and --header are for CSV")
    if kind is not InputKind.CSV and (form.skip_lines or form.on_short != "bad"):
        raise UserError(f"{name}: is a {kind}; --skip-lines and --on-short are for CSV")
    if form.encoding and kind in (InputKind.PARQUET, InputKind.TABLE):
        raise UserError(f"{name}: is a {kind}; --encoding is for files of text")
    if isinstance(path, pa.Table):
        from slackwater.engine.log.input.parquet_import import TableRead

        return TableRead(path, form, on_bad, dead_letter)
    if kind is InputKind.LOG:
        return LogReader(name)
    reader: type[InputRead]
    if kind is InputKind.TRACE:
        reader = TraceRead
    elif kind is InputKind.CSV:
        from slackwater.engine.log.input.csv_import import CsvRead

        reader = CsvRead
    elif kind is InputKind.PARQUET:
        from slackwater.engine.log.input.parquet_import import ParquetRead

        reader = ParquetRead
    else:
        from slackwater.engine.log.input.documents import AnnotatedRead, JsonRead, LineProtocolRead

        reader = next(
            each for each in (AnnotatedRead, JsonRead, LineProtocolRead) if each.kind is kind
        )
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
