"""Reads the columns of a pass's ordered events, and of the truth, as NumPy arrays.

Only the columns that are asked for are read, so that a measure's memory is that of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import ContractViolation
from engine.log.whole_file import parquet_files

TEXTS: Final = ("site", "source", "stream", "type")
NO_NUMBER: Final = -1
"""Stands for null in a column of numbers, and for null in a column of codes."""
NO_TEXT: Final = "(none)"


@dataclass(frozen=True, slots=True)
class RunRows:
    """Equally long columns: int64 numbers, and texts as int32 codes of ``texts[column]``."""

    numbers: dict[str, np.ndarray]
    texts: dict[str, list[str]]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.numbers[name]

    def __len__(self) -> int:
        return int(next(iter(self.numbers.values())).size)

    def text(self, name: str, code: int) -> str:
        """The text behind a code of column ``name``."""
        return NO_TEXT if code < 0 else self.texts[name][code]

    def groups(self, *names: str) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """(texts, row numbers) of each combination of the text columns ``names``.

        Row numbers ascend within a group; groups come in order of first codes.
        """
        key = np.zeros(len(self), np.int64)
        for name in names:
            key = key * (len(self.texts[name]) + 1) + self.numbers[name] + 1
        order = np.argsort(key, kind="stable")
        if order.size == 0:
            return
        cuts = np.flatnonzero(np.diff(key[order])) + 1
        for rows in np.split(order, cuts):
            first = int(rows[0])
            yield tuple(self.text(name, int(self.numbers[name][first])) for name in names), rows


def ordered_rows(directory: Path, columns: Sequence[str]) -> RunRows:
    """``columns`` of the ordered events below ``directory`` (one pass), in release order.

    Raises:
        ContractViolation: a part lacks one of the columns.
    """
    folder = directory / "ordered"
    return read_rows(parquet_files(folder) if folder.is_dir() else [], columns)


def read_rows(paths: Sequence[Path], columns: Sequence[str]) -> RunRows:
    """``columns`` of Parquet files, one after the other.

    Raises:
        ContractViolation: a file lacks one of the columns.
    """
    tables = [_read(path, columns) for path in paths]
    numbers: dict[str, np.ndarray] = {}
    texts: dict[str, list[str]] = {}
    for name in columns:
        # Let go as it is read: not all columns are there twice.
        parts = [chunk for table in tables for chunk in table.pop(name).chunks]
        if name in TEXTS:
            numbers[name], texts[name] = _codes(parts)
        else:
            found = [part.fill_null(NO_NUMBER).to_numpy() for part in parts]
            numbers[name] = np.concatenate(found) if found else np.empty(0, np.int64)
    return RunRows(numbers, texts)


def _read(path: Path, columns: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    coded = [name for name in columns if name in TEXTS]
    with pq.ParquetFile(path, read_dictionary=coded) as file:
        absent = sorted(set(columns) - set(file.schema_arrow.names))
        if absent:
            raise ContractViolation(f"{path}: lacks the columns {', '.join(absent)}")
        table = file.read(columns=list(columns))
    return dict(zip(table.column_names, table.columns, strict=True))


def _codes(parts: Sequence[pa.Array]) -> tuple[np.ndarray, list[str]]:
    """Codes and texts of chunks that each have a dictionary of their own."""
    known: dict[str, int] = {}
    found = []
    for part in parts:
        coded = part if pa.types.is_dictionary(part.type) else part.dictionary_encode()
        own = [known.setdefault(text, len(known)) for text in coded.dictionary.to_pylist()]
        indices = coded.indices.fill_null(len(own)).to_numpy()
        found.append(np.array([*own, NO_NUMBER], np.int32)[indices])
    return (np.concatenate(found) if found else np.empty(0, np.int32)), list(known)
