"""Several files as one input: which they are, whose name says what, and one order of their rows.

Inputs of another place (``s3://``, and what else pyarrow knows) are copied here and read as files.
"""

from __future__ import annotations

import atexit
import glob
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX, STRING
from slackwater.engine.log.input.input_read import (
    InputForm,
    InputKind,
    InputRead,
    Rows,
    Sorter,
    check_dead_letter,
)
from slackwater.engine.log.input.lines import FILE_SUFFIXES, PACKED_SUFFIXES, STDIN, table_files
from slackwater.engine.log.record.record_rules import attribute_types

_GLOB: Final = frozenset("*?[")
_URI: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<path>.*)")
_WORDS: Final = {"int": "a number", "float": "a number", "str": "text", "bool": "true or false"}


def files_of(sources: Sequence[str]) -> list[str]:
    """The inputs that ``sources`` name: globs and folders of files by name, others as they are.

    Raises:
        UserError: a glob or folder that has no file, one input twice, or a URI of another place.
    """
    found: list[str] = []
    for source in map(local_path, sources):
        if source != STDIN and not Path(source).exists() and _GLOB & set(source):
            files = sorted(glob.glob(source, recursive=True))  # noqa: PTH207 - the user's own words
            if not files:
                raise UserError(f"{source}: no file is named so")
            found += files
        else:
            found += _in_folder(source)
    for path, times in Counter(found).items():
        if times > 1:
            raise UserError(f"{path}: is given twice as an input; leave out one")
    return found


def local_path(source: str) -> str:
    """A path, also where ``source`` is a URI.

    Raises:
        UserError: a URI of a place that cannot be read, or that has no such file.
    """
    uri = _URI.fullmatch(source)
    if uri is None:
        return source
    return unquote(uri["path"]) if uri["scheme"] == "file" else _copied(source)


def _copied(source: str) -> str:
    """Copies a file, a folder, or the files of a glob; gives its path, or the glob of the copies.

    The copies go when the program ends.
    """
    import pyarrow.fs as pa_fs  # noqa: PLC0415 - takes longer to load than files to read

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
            files = [each for each in files if fnmatchcase(each, path.replace("**/", "*"))]
        if not files:
            raise UserError(f"{source}: no file is named so")
        for each in files:
            copy = Path(folder, each)
            if ".." in copy.parts:
                raise UserError(f"{source}: a file named {each} would be copied elsewhere")
            copy.parent.mkdir(parents=True, exist_ok=True)
            pa_fs.copy_files(
                each,
                str(copy),
                source_filesystem=place,
                destination_filesystem=pa_fs.LocalFileSystem(),
            )
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(source, error) from error
    return str(Path(folder, path))


def _unreadable(source: str, error: Exception) -> UserError:
    said = str(error).splitlines()[0].rstrip(".")
    return UserError(f"{source}: cannot be read: {said}; copy it to a folder here, or mount it")


def _in_folder(source: str) -> list[str]:
    """The files of a folder that is neither a table of Parquet nor a log; else the path itself."""
    folder = Path(source)
    if source == STDIN or not folder.is_dir() or table_files(source) or (folder / "log").is_dir():
        return [source]
    files = sorted(
        str(file)
        for file in folder.rglob("*")
        if file.is_file()
        and set(file.suffixes[-2:]) & FILE_SUFFIXES
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    )
    return files or [source]


class SeveralRead(InputRead):
    """Files read one after the other, and put in order: by arrival if their rows give it, else by
    event time. All rows are held in memory for that. ``opened``: a reader of one of them.
    """

    kind = InputKind.FILES

    def __init__(
        self, paths: Sequence[str], opened: Callable[[str, InputForm], Any], form: InputForm,
        on_bad: str, dead_letter: str | Path | None,
    ) -> None:  # fmt: skip
        self.paths = list(paths)
        self._opened = opened
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
        # Rows that will be sorted need be in no order before.
        sort = self.form.sort or (r.ARRIVAL if self._sorter is not None else None)
        form = replace(self.form, named_by_file=(), sort=sort)
        for path in self.paths:
            reader = self._opened(path, form)
            if not isinstance(reader, InputRead):
                raise UserError(
                    f"{path}: is an arrival log, and is an input of its own; slackwater log export "
                    "makes a file of it, which can be read beside others"
                )
            self._bad.name = reader.name
            for fields, attrs, lines in reader.rows(self._bad):
                self._times.dated = self._times.dated or reader.dated
                for field in self.form.named_by_file:
                    fields[field] = self._named(field, path, fields, len(lines))
                texts = {
                    name: column.cast(STRING) if pa.types.is_string(column.type) else column
                    for name, column in fields.items()
                }
                yield texts, self._fitting(path, attrs), lines
            self.nulls += reader.nulls

    def _named(self, field: str, path: str, fields: dict[str, pa.Array], rows: int) -> pa.Array:
        """The name of the file as the rows' ``field``; ticks have none."""
        if field in fields and fields[field].null_count < rows:
            raise UserError(
                f'{path}: its rows give their "{field}"; leave out --{field}-from, or make an '
                f"attribute of theirs: --map attrs.{field}=COLUMN"
            )
        name = pa.array([file_name(path)] * rows, pa.string())
        if r.KIND in fields:
            ticks = pc.fill_null(pc.equal(fields[r.KIND], int(Kind.TICK)), fill_value=False)
            name = pc.if_else(ticks, pa.scalar(None, pa.string()), name)
        return name.cast(STRING)

    def _fitting(self, path: str, attrs: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """The attributes that have values; one has one type in all files."""
        kept = {name: column for name, column in attrs.items() if column.null_count < len(column)}
        for name, column in kept.items():
            batch = pa.RecordBatch.from_arrays([column], [ATTR_PREFIX + name])
            word = _WORDS[next(iter(attribute_types(batch).values()))]
            before, first = self._types.setdefault(name, (word, path))
            if before != word:
                raise UserError(
                    f'{path}: attribute "{name}" is {word} here and {before} in {first}; leave it '
                    "out with --attrs, or say with --null which words are no values"
                )
        return kept

    def _nothing(self) -> Exception:
        return UserError(f"{self.name}: no rows")


def file_name(path: str) -> str:
    """The name of a file without its folder and what it ends with.

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
