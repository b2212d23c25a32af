"""Atomic files: temporary file, fsync, rename, fsync of the folder.

Names of temporary files begin with a dot, which Spark's file source and our readers ignore.
"""

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

# State in an atomic file with a checksum; an unreadable file counts as missing.


_CHECK: Final = 4


def save(path: Path, state: Any) -> None:
    """Replace the state in a file.

    Args:
        path: path of the file.
        state: data for msgpack, with keys of any type.

    Raises:
        OSError: it cannot be written; the file is unchanged.
    """
    content = msgpack.packb(state)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as sink:
        sink.write(zlib.crc32(content).to_bytes(_CHECK, "big"))
        sink.write(content)


def load(path: Path) -> Any:
    """Return the state saved last; None: the file is missing or damaged."""
    if not path.exists():
        return None
    content = path.read_bytes()
    check, content = content[:_CHECK], content[_CHECK:]
    if check != zlib.crc32(content).to_bytes(_CHECK, "big"):
        return None
    try:
        return msgpack.unpackb(content, strict_map_key=False, use_list=False)
    except (ValueError, TypeError):  # the checksum fits, but another program wrote it
        return None


# Atomic Parquet files and folders.


# ruff: noqa: PLC0415 - a query over a few lines needs no Parquet, which is slow to import

TEMPORARY_SUFFIX: Final = ".writing"
NS_PER_MS: Final = 10**6
BUFFER_BYTES: Final = 1 << 16
"""Read buffer per column; without it the column's whole row group is read at once."""
DAMAGED: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Errors when a damaged Parquet file is read; the last one is for names of columns."""


def temporary(path: Path) -> Path:
    """Return the path at which ``path`` is written before the rename."""
    return path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")


def open_temporary(path: Path) -> BinaryIO:
    """Open a new, empty temporary file for ``path``; never follows a link of that name.

    Raises:
        OSError: it cannot be created.
    """
    unfinished = temporary(path)
    unfinished.unlink(missing_ok=True)  # left by a killed writer; a link is removed itself
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
    """Write ``path`` atomically, replacing the old file, and return its mtime [ms].

    Args:
        path: the file's final name.
        row_groups: the content, one row group each.
        schema: schema of all row groups.
        plain_columns: columns without Parquet statistics (large binary ones).
        after_ms: the mtime is later than this, as Spark reads files in order of mtime, in ms.
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
                # A page ends with the value that fills it, so reading the first values reads no
                # other page.
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
    """Return a writer whose pages have checksums."""
    import pyarrow.parquet as pq

    return pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True, **how)


def open_parquet(file: Path, **how: Any) -> pq.ParquetFile:
    """Open a file; reading verifies the checksums of its pages.

    Raises one of ``DAMAGED``, also when it is read.
    """
    import pyarrow.parquet as pq

    return pq.ParquetFile(file, page_checksum_verification=True, **how)


def parquet_schema(file: str | Path) -> pa.Schema:
    """Return the schema of a file; raises one of ``DAMAGED``."""
    import pyarrow.parquet as pq

    return pq.read_schema(file)


def text_columns(schema: pa.Schema) -> list[str]:
    """Return Parquet's paths of text columns, also in lists and structs.

    Dictionaries pay for them. Times and numbers rarely repeat: with dictionaries, a table of
    matches takes 1.7 times the space and longer to write.
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
    """Yield a stream; its content becomes ``path`` at the end of the block, unless it raises."""
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
    """Yield a temporary path for the folder ``path``; the block fills it and renames it.

    Leftovers of an earlier call are removed first, and what is not renamed at the end.
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
    """Make renames and removals in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def parquet_files(folder: Path) -> list[Path]:
    """Return the complete Parquet files directly in ``folder``, by name."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix == ".parquet" and not path.name.startswith((".", "_")) and path.is_file()
    )
