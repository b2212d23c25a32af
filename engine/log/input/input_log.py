"""Open any input as frames: a trace, CSV, row-wise Parquet, a table or a log, by its content."""

from __future__ import annotations

import atexit
import glob
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.edge_agent.errors import did_you_mean
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX, STRING
from slackwater.engine.log.arrival_log import LogReader, is_log_file
from slackwater.engine.log.input.input_read import (
    FORMATS,
    ON_SHORT,
    PLAIN_FORM,
    InputForm,
    InputKind,
    InputRead,
    Rows,
    Sorter,
    check_dead_letter,
)
from slackwater.engine.log.input.lines import (
    FILE_SUFFIXES,
    GET_AGAIN,
    PACKED_SUFFIXES,
    STDIN,
    UNREADABLE,
    is_spooled,
    open_bytes,
    spool_stdin,
    table_files,
)
from slackwater.engine.log.input.trace import (
    AnnotatedRead,
    JsonRead,
    LineProtocolRead,
    TraceRead,
    is_point,
)
from slackwater.engine.log.record.record_rules import attribute_types
from slackwater.engine.log.whole_file import DAMAGED, parquet_schema

# ruff: noqa: PLC0415 - a pass needs one reader only, and that of traces loads fastest

# Several files as one input: their list, names, and a common order of rows.
#
# Remote inputs (``s3://`` and others that pyarrow supports) are copied to local files first.


_GLOB: Final = frozenset("*?[")
_URI: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<path>.*)")
Copying = Callable[[int], AbstractContextManager[Callable[[int], object]]]
"""Takes the number of files to copy; the callback gets the number copied since the last call."""
_WORDS: Final = {"int": "a number", "float": "a number", "str": "text", "bool": "true or false"}


def silent(_files: int) -> AbstractContextManager[Callable[[int], object]]:
    """Show no progress."""
    return nullcontext(lambda _: None)


def files_of(sources: Sequence[str], copying: Copying = silent) -> list[str]:
    """Return the inputs that ``sources`` name; globs and folders become their files, by name.

    Args:
        sources: paths, globs and URIs.
        copying: shows the progress of copies of remote files.

    Raises:
        UserError: a glob or folder has no file, an input occurs twice, or a URI cannot be read.
    """
    found: list[str] = []
    for source in (local_path(each, copying) for each in sources):
        if source != STDIN and not Path(source).exists() and _GLOB & set(source):
            files = sorted(glob.glob(source, recursive=True))  # noqa: PTH207 - the user's own words
            if not files:
                raise UserError(f"{source}: no file is named so")
            found += files
        else:
            found += _in_folder(source)
    known: dict[str, str] = {}
    for path in found:
        file = path if path == STDIN else os.path.realpath(path)
        if file in known:
            also = "" if known[file] == path else f", also as {known[file]}"
            raise UserError(f"{path}: is given twice as an input{also}; leave out one")
        known[file] = path
    return found


def local_path(source: str, copying: Copying = silent) -> str:
    """Return ``source`` as a local path; ``copying`` as for ``files_of``.

    Raises:
        UserError: the place of a URI cannot be read or has no such file.
    """
    uri = _URI.fullmatch(source)
    if uri is None:
        return source
    return unquote(uri["path"]) if uri["scheme"] == "file" else _copied(source, copying)


def _copied(source: str, copying: Copying) -> str:
    """Copy a file, a folder, or the files of a glob; return its path or the glob of the copies.

    The copies are deleted when the program ends.
    """
    import pyarrow.fs as pa_fs

    try:
        place, path = pa_fs.FileSystem.from_uri(source)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(source, error) from error
    path = path.rstrip("/")
    base = path
    while _GLOB & set(base):
        base = base.rpartition("/")[0]
    folder = tempfile.mkdtemp(prefix="slackwater-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        found = [place.get_file_info(base)]
        if found[0].type == pa_fs.FileType.Directory:
            found = place.get_file_info(pa_fs.FileSelector(base, recursive=True))
        files = [each.path for each in found if each.type == pa_fs.FileType.File]
        if base != path:  # the glob of the copies says exactly which
            files = [each for each in files if fnmatchcase(each, path.replace("**/", "*"))
                     and ("**" in path or each.count("/") == path.count("/"))]  # fmt: skip
        if not files:
            raise UserError(f"{source}: no file is named so")
        with copying(len(files)) as advanced:
            for each in files:
                copy = Path(folder, each)
                if ".." in copy.parts:
                    raise UserError(f"{source}: a file named {each} would be copied elsewhere")
                copy.parent.mkdir(parents=True, exist_ok=True)
                pa_fs.copy_files(
                    each, str(copy),
                    source_filesystem=place, destination_filesystem=pa_fs.LocalFileSystem(),
                )  # fmt: skip
                advanced(1)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(source, error) from error
    return str(Path(folder, path))


def _unreadable(source: str, error: Exception) -> UserError:
    said = str(error).splitlines()[0].rstrip(".")
    return UserError(f"{source}: cannot be read: {said}; copy it to a folder here, or mount it")


def _in_folder(source: str) -> list[str]:
    """Return the files of a folder; the path itself for a Parquet table, a log or a file."""
    folder = Path(source)
    if source == STDIN or not folder.is_dir() or (folder / "log").is_dir():
        return [source]
    files = [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and {each.lower() for each in file.suffixes[-2:]} & FILE_SUFFIXES
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]
    parts = table_files(source)
    if not files or (parts and _folder_kind(folder) is InputKind.LOG):
        return [source]
    is_table = len(parts) == len(files) and _are_parts(folder, files)
    return [source] if is_table else list(map(str, files))


_PART: Final = re.compile(r"part|data_[0-9]+\.|[0-9_]+\.")


def _are_parts(folder: Path, files: Sequence[Path]) -> bool:
    """Whether files and folders are named like the parts and partitions of a table by Spark, DuckDB
    or Polars.
    """
    inner = [file.relative_to(folder) for file in files]
    return all(
        (_PART.match(each.name) or len(each.parts) > 1)
        and all("=" in part for part in each.parts[:-1])
        for each in inner
    )


class SeveralRead(InputRead):
    """Several files, put in order by arrival if their rows have it, else by event time.

    All rows are in memory for that.
    """

    kind = InputKind.FILES

    def __init__(
        self, paths: Sequence[str], form: InputForm, on_bad: str, dead_letter: str | Path | None,
    ) -> None:  # fmt: skip
        self.paths = list(paths)
        self._names = names_of(self.paths)
        if dead_letter is not None:
            for path in self.paths:
                check_dead_letter(Path(dead_letter), path)
        super().__init__(", ".join(self.paths), form, on_bad, dead_letter)

    def _begin(self) -> None:
        super()._begin()
        if len(self.paths) > 1 and self.form.sort is None:
            self._sorter = Sorter(self.name, None)
        self._types: dict[str, tuple[str, str]] = {}

    def _read(self) -> Iterator[Rows]:
        # Rows that will be sorted may be in any order.
        sort = self.form.sort or (r.ARRIVAL if self._sorter is not None else None)
        form = replace(self.form, named_by_file=(), sort=sort)
        for path in self.paths:
            if Path(path).is_dir() and input_kind(path) is InputKind.LOG:
                raise UserError(
                    f"{path}: is an arrival log, and is an input of its own; slackwater log export "
                    "makes a file of it, which can be read beside others"
                )
            reader = open_input(path, form)
            assert isinstance(reader, InputRead)
            self._bad.name = reader.name
            for fields, attrs, lines in reader.rows(self._bad, self._times.units):
                self._times.dated = self._times.dated or reader.dated
                for field in self.form.named_by_file:
                    fields[field] = self._named(field, path, fields, len(lines))
                if len(self.paths) > 1:
                    self._set_clocks(path, fields, len(lines))
                texts = {
                    name: column.cast(STRING) if pa.types.is_string(column.type) else column
                    for name, column in fields.items()
                }
                yield texts, self._fitting(path, attrs), lines
            self.nulls += reader.nulls

    def _named(self, field: str, path: str, fields: dict[str, pa.Array], rows: int) -> pa.Array:
        """Return the name of the file as the rows' ``field``."""
        if field in fields and fields[field].null_count < rows:
            raise UserError(
                f'{path}: its rows give their "{field}"; leave out --{field}-from, or make an '
                f"attribute of theirs: --map attrs.{field}=COLUMN"
            )
        return self._name(path, fields, rows)

    def _set_clocks(self, path: str, fields: dict[str, pa.Array], rows: int) -> None:
        """Give rows without a source the clock of their file: each file may come from another
        device, and the offsets between their clocks are unknown.
        """
        if r.SOURCE in fields and not fields[r.SOURCE].null_count:
            return
        named = [fields[name].cast(pa.string()) for name in (r.CLOCK, r.SOURCE) if name in fields]
        sources = self._name(path, fields, rows).cast(pa.string())
        fields[r.CLOCK] = pc.coalesce(*named, sources).cast(STRING)

    def _name(self, path: str, fields: dict[str, pa.Array], rows: int) -> pa.Array:
        """Return the name of the file for each row; ticks get null."""
        name = pa.array([self._names[path]] * rows, pa.string())
        if r.KIND in fields:
            ticks = pc.fill_null(pc.equal(fields[r.KIND], int(Kind.TICK)), fill_value=False)
            name = pc.if_else(ticks, pa.scalar(None, pa.string()), name)
        return name.cast(STRING)

    def _fitting(self, path: str, attrs: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """Return the attributes, checked for one type across files; columns without values are
        null.
        """
        fitting = {
            name: column if column.null_count < len(column) else pa.nulls(len(column))
            for name, column in attrs.items()
        }
        for name, column in fitting.items():
            if pa.types.is_null(column.type):
                continue
            batch = pa.RecordBatch.from_arrays([column], [ATTR_PREFIX + name])
            word = _WORDS[next(iter(attribute_types(batch).values()))]
            before, first = self._types.setdefault(name, (word, path))
            if before != word:
                raise UserError(
                    f'{path}: attribute "{name}" is {word} here and {before} in {first}; leave it '
                    "out with --attrs, or say with --null which words are no values"
                )
        return fitting

    def _nothing(self) -> Exception:
        return UserError(f"{self.name}: no rows")


def names_of(paths: Sequence[str]) -> dict[str, str]:
    """Return names for the files: file names, or ends of paths if names collide, as the copies of
    remote files are in a new folder in each run.

    >>> names_of(["a/pump.csv", "/c/b/pump.csv", "b/fan.csv"])
    {'a/pump.csv': 'a/pump.csv', '/c/b/pump.csv': 'b/pump.csv', 'b/fan.csv': 'fan'}
    """
    names = {path: file_name(path) for path in paths}
    count = Counter(names.values())
    alike = {path: Path(path).parts for path, name in names.items() if count[name] > 1}
    longest = max(map(len, alike.values()), default=0)
    for length in range(longest, 0, -1):
        ends = {path: str(Path(*parts[-length:])) for path, parts in alike.items()}
        if len(set(ends.values())) < len(ends):
            break
        names |= ends
    return names


def file_name(path: str) -> str:
    """Return the name of a file without folder and suffixes.

    >>> file_name("data/pump.1.csv.gz"), file_name("-")
    ('pump.1', 'stdin')
    """
    if path == STDIN:
        return "stdin"
    name = Path(path).name
    for suffixes in (PACKED_SUFFIXES, FILE_SUFFIXES | {".txt"}):
        end = Path(name).suffix
        if end.lower() in suffixes:
            name = name.removesuffix(end)
    return name


_PARQUET_MAGIC: Final = b"PAR1"
_ARRAY: Final = re.compile(r"\[+\{")
_HEAD_BYTES: Final = 4096
_TRACE_SUFFIXES: Final = {".jsonl", ".ndjson", ".json"}
_CSV_SUFFIXES: Final = {".csv", ".tsv"}


def input_kind(path: str | Path, encoding: str | None = None) -> InputKind:
    """Return the kind of ``path``, by its folder, its first bytes, then its suffix.

    A named pipe can be read only once, so it counts as a trace. Standard input is a trace if it
    begins with an object; otherwise it is spooled to a file.

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
    if ".lp" in suffixes or is_point(first):
        return InputKind.LINE_PROTOCOL
    from slackwater.engine.log.input.csv_import import DELIMITERS

    return InputKind.CSV if any(sign in text for sign in DELIMITERS) else InputKind.TRACE


def kind_of(path: str | Path, form: InputForm) -> InputKind:
    """Return the kind of ``path``, by ``--format`` or ``input_kind``.

    Raises:
        UserError: the format is unknown; as for ``input_kind``.
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
    """Return a reader of the frames of ``path``, for any kind of input.

    Args:
        path: a trace or a named pipe (``-``: standard input), a CSV or Parquet file, a folder of
            Parquet files, a log's folder, or a table in memory; or several paths, globs and
            folders of such files, which become one input.
        form: the form of the input, or just the unit of its times. An arrival log is always in ns.
        on_bad: ``stop`` or ``skip`` bad lines.
        dead_letter: JSONL file for skipped lines.

    Raises:
        UserError: here or while iterating: the input is invalid; the message has the place.
    """
    form = InputForm(form) if isinstance(form, str) else form
    if form.on_short not in ON_SHORT:
        raise UserError(f"unknown --on-short {form.on_short}; use {' or '.join(ON_SHORT)}")
    if isinstance(path, pa.Table):
        kind, name = InputKind.TABLE, str(InputKind.TABLE)
    else:
        name = path if isinstance(path, str) else str(path) if isinstance(path, Path) else ""
        if form.named_by_file or not (name == STDIN or Path(name).is_file()):
            files = files_of([name] if isinstance(path, str | Path) else path)
            if len(files) > 1 or form.named_by_file:
                return SeveralRead(files, form, on_bad, dead_letter)
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
    if kind is InputKind.CSV:
        from slackwater.engine.log.input.csv_import import CsvRead

        reader = CsvRead
    elif kind is InputKind.PARQUET:
        from slackwater.engine.log.input.parquet_import import ParquetRead

        reader = ParquetRead
    else:
        readers = (TraceRead, JsonRead, LineProtocolRead, AnnotatedRead)
        reader = next(each for each in readers if each.kind is kind)
    return reader(name, form, on_bad, dead_letter)


def _folder_kind(folder: Path) -> InputKind:
    """Return PARQUET for a folder of Parquet files that are not a log; LOG for any other folder."""
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
