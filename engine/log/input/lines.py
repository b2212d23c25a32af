"""Lines of a text input in bounded chunks: plain, gzip or zstd files, or standard input.

Also lists the Parquet files of a folder.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from weakref import WeakKeyDictionary, finalize

import pyarrow as pa
from msgspec import Struct, field

from slackwater.engine.core.errors import UserError

STDIN: Final = "-"
FILE_SUFFIXES: Final = frozenset(
    {".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".parq", ".pq", ".lp"}
)
"""Suffixes of the files in a folder that are inputs."""
PACKED_SUFFIXES: Final = frozenset({".gz", ".zst"})
CHUNK_LINES: Final = 65_536
LINE_BYTES_MAX: Final = 1 << 20
KEPT_BYTES_OF_LONG_LINE: Final = 1_000
UNREADABLE: Final = (EOFError, OSError, zlib.error)
"""Errors when a damaged or wrongly compressed file is read."""
NOT_UTF8: Final = "save the file as UTF-8, or name its --encoding, as cp1252 (Windows, Latin-1)"
GET_AGAIN: Final = "get it again, or take what is whole: gzip -dc FILE > NEW (or zstd -dc)"
_BLOCK_BYTES: Final = 1 << 20
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_PACKED: Final = {
    b"PK\x03\x04": "a zip archive (as .xlsx is): unpack it, or save the sheet as CSV",
    b"BZh": "packed by bzip2: unpack it with bunzip2",
    b"\xfd7zXZ\x00": "packed by xz: unpack it with xz -d",
}
"""First bytes of files that are not supported, and what to do with them."""
_UTF8_BYTES_MAX: Final = 4
_BOM: Final = "\ufeff"
_SPOOLED: Final[WeakKeyDictionary[BinaryIO, int]] = WeakKeyDictionary()
"""Standard inputs that are spooled to a file, with its descriptor."""


class Chunk(Struct):
    """Consecutive lines; ``first``: number of the first line (1-based); ``faults``: by index."""

    first: int
    texts: list[str] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)


@contextmanager
def open_bytes(path: str, encoding: str | None = None) -> Iterator[BinaryIO]:
    """Open the bytes of ``path`` (``-``: standard input), decompressing gzip and zstd.

    ``encoding``: text is converted from it to UTF-8 unless it has the mark of UTF-16; bytes that
    are invalid in it stay.

    Raises:
        UserError: the file does not exist, is a directory, is unreadable or damaged.
    """
    raw: BinaryIO = sys.stdin.buffer
    with ExitStack() as opened:
        if path != STDIN:
            try:
                raw = opened.enter_context(Path(path).open("rb"))
            except OSError as error:
                raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        elif (spooled := _SPOOLED.get(raw)) is not None:
            raw = opened.enter_context(os.fdopen(os.dup(spooled), "rb"))
            raw.seek(0)
        try:
            yield opened.enter_context(_unpacked(raw, encoding))
        except UnicodeError as error:
            raise UserError(f"{path}: {error}; name another --encoding") from error
        except UNREADABLE as error:
            raise UserError(f"{path}: damaged file: {error}; {GET_AGAIN}") from error


def spool_stdin() -> None:
    """Spool standard input to a temporary file, so that it can be opened more than once.

    JSON lines are read once and stay a stream.
    """
    source = sys.stdin.buffer
    if source in _SPOOLED:
        return
    peek = getattr(source, "peek", None)
    if peek is not None and peek(1).lstrip(_BOM.encode() + b" \t\r\n").startswith(b"{"):
        return
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(source, file)
        file.flush()
        _SPOOLED[source] = os.dup(file.fileno())
    finalize(source, os.close, _SPOOLED[source])


def is_spooled() -> bool:
    """Whether standard input is spooled to a file."""
    return sys.stdin.buffer in _SPOOLED


@contextmanager
def _unpacked(raw: BinaryIO, encoding: str | None) -> Iterator[BinaryIO]:
    with _decompressed(raw) as unpacked:
        stream, head = unpacked, b""
        if isinstance(stream, io.BufferedReader | gzip.GzipFile):
            try:
                head = stream.peek(2)[:2]
            except UNREADABLE as error:
                stream = cast("BinaryIO", io.BufferedReader(_Damaged(error)))
        if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            yield cast("BinaryIO", io.BufferedReader(_AsUtf8(stream, "utf-16", "replace")))
        elif encoding is not None:
            yield cast("BinaryIO", io.BufferedReader(_AsUtf8(stream, encoding)))
        else:
            yield stream


class _Damaged(io.RawIOBase):
    """A stream that raises ``error`` when it is read."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        del buffer
        raise self._error


class _AsUtf8(io.RawIOBase):
    """A stream that converts text of another encoding to UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str, errors: str = "surrogateescape") -> None:
        self._stream = stream
        try:
            "".encode(encoding)  # others are no encodings of text
            self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        except LookupError as error:
            raise UserError(
                f"unknown --encoding {encoding}; use cp1252 (Windows), latin-1, utf-16 or another "
                "of Python's"
            ) from error
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._waiting:
            block = self._stream.read(_BLOCK_BYTES)
            self._waiting = self._decoder.decode(block, final=not block).encode(
                errors="surrogateescape"
            )
            if not block:
                break
        taken = self._waiting[: len(buffer)]
        buffer[: len(taken)] = taken
        self._waiting = self._waiting[len(taken) :]
        return len(taken)


@contextmanager
def _decompressed(raw: BinaryIO) -> Iterator[BinaryIO]:
    peekable = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast("Any", raw))
    head = peekable.peek(max(map(len, _PACKED)))
    for magic, said in _PACKED.items():
        if head.startswith(magic):
            name = getattr(raw, "name", None)
            raise UserError(f"{name if isinstance(name, str) else '<stdin>'}: is {said}")
    if head.startswith(_GZIP_MAGIC):
        with gzip.open(peekable, "rb") as unpacked:
            yield cast("BinaryIO", unpacked)
    elif head.startswith(_ZSTD_MAGIC):
        file = pa.PythonFile(peekable, mode="r")
        with pa.CompressedInputStream(file, "zstd") as packed, io.BufferedReader(packed) as stream:
            yield stream
    else:
        yield cast("BinaryIO", peekable)


def read_chunks(path: str, name: str, encoding: str | None) -> Iterator[Chunk]:
    """Yield the lines of ``path``, called ``name`` in messages, in chunks of ``CHUNK_LINES`` at
    most.

    A line that is not UTF-8 or longer than ``LINE_BYTES_MAX`` is a fault; the latter is cut to
    ``KEPT_BYTES_OF_LONG_LINE``, so that memory stays bounded.

    Raises:
        UserError: the file does not exist or is damaged.
    """
    chunk = Chunk(first=1)
    with open_bytes(path, encoding) as stream:
        for texts, faults in _blocks(stream, name):
            start = 0
            while start < len(texts):
                taken = texts[start : start + CHUNK_LINES - len(chunk.texts)]
                base = len(chunk.texts) - start
                chunk.texts += taken
                end = start + len(taken)
                chunk.faults |= {base + i: why for i, why in faults.items() if start <= i < end}
                start = end
                if len(chunk.texts) == CHUNK_LINES:
                    yield chunk
                    chunk = Chunk(first=chunk.first + CHUNK_LINES)
    if chunk.texts:
        yield chunk


def _blocks(stream: BinaryIO, name: str) -> Iterator[tuple[list[str], dict[int, str]]]:
    tail = b""
    long_line = b""  # the kept beginning of a line too long to hold, until its end is found
    at_start = True
    while block := _read(stream, name):
        data = tail + block
        whole, newline, tail = data.rpartition(b"\n")
        if newline:
            texts, faults = _decode(whole, at_start=at_start)
            if long_line:  # its rest ended at the first newline of this block
                texts[0], faults[0] = _long(long_line)
                long_line = b""
            at_start = False
            yield texts, faults
        if long_line or len(tail) > LINE_BYTES_MAX:
            long_line = long_line or tail[:KEPT_BYTES_OF_LONG_LINE]
            tail = b""
    if long_line:
        text, why = _long(long_line)
        yield [text], {0: why}
    elif tail:
        yield _decode(tail, at_start=at_start)


def _read(stream: BinaryIO, name: str) -> bytes:
    try:
        return stream.read(_BLOCK_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{name}: damaged gzip file: {error}; {GET_AGAIN}") from error
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror or error}") from error


def _decode(whole: bytes, *, at_start: bool) -> tuple[list[str], dict[int, str]]:
    faults: dict[int, str] = {}
    try:
        texts = whole.decode().split("\n")
    except UnicodeDecodeError:
        texts = []
        for index, line in enumerate(whole.split(b"\n")):
            try:
                texts.append(line.decode())
            except UnicodeDecodeError as error:
                texts.append(line.decode(errors="backslashreplace"))
                faults[index] = f"not UTF-8 at byte {error.start + 1}; {NOT_UTF8}"
    if at_start:
        texts[0] = texts[0].removeprefix(_BOM)
    if max(map(len, texts)) > LINE_BYTES_MAX // _UTF8_BYTES_MAX:
        for index, text in enumerate(texts):
            if len(text.encode()) > LINE_BYTES_MAX:
                texts[index], faults[index] = _long(text[:KEPT_BYTES_OF_LONG_LINE].encode())
    return texts, faults


def _long(beginning: bytes) -> tuple[str, str]:
    why = f"the line is longer than {LINE_BYTES_MAX} bytes; write one record a line"
    return beginning[:KEPT_BYTES_OF_LONG_LINE].decode(errors="backslashreplace"), why


def table_files(path: str) -> list[str]:
    """Return the Parquet files of a table: the file itself, or those in the folder, by name.

    Names that begin with a dot or an underscore are ignored, as in Spark.
    """
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    found = [
        file
        for file in folder.rglob("*")
        if file.is_file()
        and file.name.lower().endswith((".parquet", ".parq", ".pq"))
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]
    return [str(file) for file in sorted(found)]
