"""A hash of an arrival log's content, to compare runs with the same seed.

It covers the frames' canonical content: per frame the site, and per column its name, its values and
its nulls. Bytes without meaning (padding, values under a null, the order and the unused entries of
a dictionary) do not count; the boundaries of frames do.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from slackwater.engine.core.frame import Frame
from slackwater.simulator.arrow_views import null_rows, plain_values


class FrameDigest:
    """SHA-256 over the frames added so far."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, frame: Frame) -> None:
        """Add the next frame of the log."""
        batch = frame.batch
        self._texts("frame", frame.site, str(batch.num_rows))
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in sorted(columns):
            self._column(name, columns[name])

    def hexdigest(self) -> str:
        """64 hexadecimal digits."""
        return self._hash.hexdigest()

    def _texts(self, *words: str) -> None:
        self._hash.update(b"".join([_with_length(word.encode()) for word in words]))

    def _column(self, name: str, column: pa.Array) -> None:
        nulls = null_rows(column)
        nowhere = bytes(-(-len(column) // 8))
        self._hash.update(
            _with_length(name.encode())
            + _with_length(str(column.type).encode())
            + (nowhere if nulls is None else np.packbits(nulls).tobytes())
        )
        if isinstance(column, pa.DictionaryArray):
            codes = plain_values(column.indices)
            self._words(column.dictionary.to_pylist(), codes if nulls is None else codes[~nulls])
            return
        values = plain_values(column)
        if nulls is not None:
            values = np.where(nulls, values.dtype.type(0), values)
        self._hash.update(values.tobytes())

    def _words(self, words: list[str], codes: np.ndarray) -> None:
        """Hash a column of texts by their ranks among the texts in use, in alphabetical order."""
        used = np.flatnonzero(np.bincount(codes, minlength=len(words)))
        texts = [words[code] for code in used]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        rank = np.zeros(len(words), np.int32)
        rank[used[order]] = np.arange(len(texts))
        self._texts(str(len(texts)), *[texts[place] for place in order])
        self._hash.update(rank[codes].tobytes())


def _with_length(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text
