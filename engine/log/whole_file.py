"""Files that appear whole or not at all: temporary file, fsync, rename, fsync of the folder."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgpack
import pyarrow as pa

from slackwater.edge_agent.standard_streams import taking_name

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# A state in a file that appears whole, with a checksum: what cannot be read is as not there.


_CHECK: Final = 4


def save(path: Path, state: Any) -> None:
    """Replaces what was there.

    Args:
        path: of the file.
        state: of what msgpack knows, with keys of any kind.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    content = msgpack.packb(state)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as sink:
        sink.write(zlib.crc32(content).to_bytes(_CHECK, "big"))
        sink.write(content)


def load(path: Path) -> Any:
    """What was saved last; None: nothing, or it is damaged."""
    if not path.exists():
        return None
    content = path.read_bytes()
    check, content = content[:_CHECK], content[_CHECK:]
    if check != zlib.crc32(content).to_bytes(_CHECK, "big"):
        return None
    try:
        return msgpack.unpackb(content, strict_map_key=False, use_list=False)
    except (ValueError, TypeError):  # with a checksum, but not written by this program
        return None


# Files that appear whole or not at all: temporary file, fsync, rename, fsync of the folder.
#
# Temporary names begin with a dot, which Spark's file source and our readers leave out.


# ruff: noqa: PLC0415 - a query over a few lines has no Parquet, which takes longer to load

TEMPORARY_SUFFIX: Final = ".writing"
NS_PER_MS: Final = 10**6
BUFFER_BYTES: Final = 1 << 16
"""To read of each column: without a buffer a whole row group's is read at once."""
DAMAGED: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What reading a damaged Parquet file may raise; the last for names of columns."""


def temporary(path: Path) -> Path:
    """Where ``path`` is written before it takes its name."""
    return path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")


def open_temporary(path: Path) -> BinaryIO:
    """Opens a new, empty temporary file for ``path``; never follows a link of that name.

    Raises:
        OSError: it cannot be made.
    """
    unfinished = temporary(path)
    unfinished.unlink(missing_ok=True)  # of a writer that was cut off, or a link, which goes itself
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(unfinished, flags, 0o666), "wb")


def write_parquet(
    path: Path,
    row_groups: Iterable[pa.Table],
    schema: pa.Schema,
    *,
    plain_columns: tuple[str, ...] = (),
    after_ms: int = 0,
) -> int:
    """Writes ``path`` at one stroke, replacing what was there, and gives its mtime [ms].

    Args:
        path: the file's final name.
        row_groups: the content, one row group each.
        schema: of every row group.
        plain_columns: columns without Parquet statistics (large binary ones).
        after_ms: the mtime is later than this: Spark takes files in order of mtime, in ms.
    """
    others = [name for name in schema.names if name not in plain_columns]
    unfinished = temporary(path)
    with taking_name(unfinished, path):
        with (
            open_temporary(path) as sink,
            parquet_writer(
                sink,
                schema,
                compression_level=1,
                use_dictionary=text_columns(schema),
                write_statistics=others if plain_columns else True,
                # A page ends with the value that fills it: who needs the first few reads no others.
                write_batch_size=1 if plain_columns else None,
            ) as writer,
        ):
            for table in row_groups:
                writer.write_table(table)
            writer.close()
            sink.flush()
            os.fsync(sink.fileno())
        mtime_ms = max(unfinished.stat().st_mtime_ns // NS_PER_MS, after_ms + 1)
        os.utime(unfinished, ns=(mtime_ms * NS_PER_MS, mtime_ms * NS_PER_MS))
        unfinished.rename(path)
    sync_folder(path.parent)
    return mtime_ms


def parquet_writer(sink: object, schema: pa.Schema, **how: Any) -> pq.ParquetWriter:
    """A writer of pages that have checksums."""
    import pyarrow.parquet as pq

    return pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True, **how)


def open_parquet(file: Path, **how: Any) -> pq.ParquetFile:
    """A file whose pages are compared with their checksums as they are read.

    Raises one of ``DAMAGED``, as reading it does.
    """
    import pyarrow.parquet as pq

    return pq.ParquetFile(file, page_checksum_verification=True, **how)


def parquet_schema(file: str | Path) -> pa.Schema:
    """What a file says of its columns; raises one of ``DAMAGED``."""
    import pyarrow.parquet as pq

    return pq.read_schema(file)


def text_columns(schema: pa.Schema) -> list[str]:
    """Parquet's paths of the columns of texts, in lists and structs, too.

    They are worth a dictionary. Times and numbers hardly repeat: a table of matches takes 1.7 times
    the room with theirs, and longer to write.
    """
    return [path for field in schema for path in _texts(field.name, field.type)]


def _texts(path: str, kind: pa.DataType) -> list[str]:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_list(kind):
        return _texts(f"{path}.list.element", kind.value_type)
    if pa.types.is_struct(kind):
        return [found for field in kind for found in _texts(f"{path}.{field.name}", field.type)]
    return [path] if pa.types.is_string(kind) else []


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content becomes ``path`` when the block ends well, and vanishes otherwise."""
    unfinished = temporary(path)
    try:
        with taking_name(unfinished, path):
            with open_temporary(path) as sink:
                yield sink
                sink.flush()
                os.fsync(sink.fileno())
            unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Where the folder ``path`` is made until the block renames it.

    What a call that was cut off has left there goes first, and whatever is there goes in the end.
    """
    unfinished = temporary(path.absolute())
    try:
        with taking_name(unfinished, path):
            if unfinished.exists():
                shutil.rmtree(unfinished)
            yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Makes renames and removals in ``folder`` outlive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def parquet_files(folder: Path) -> list[Path]:
    """The complete Parquet files right in ``folder``, by name."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix == ".parquet" and not path.name.startswith((".", "_")) and path.is_file()
    )
