"""A hash of what an arrival log says, for "the same seed gives the same log".

Over the frames' canonical content: per frame the site, and per column its name, its values and
where it is null. Bytes that carry no meaning (padding, values under a null, the order and the
unused entries of a dictionary) do not count; where frames are cut does.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from engine.stream.frame import Frame


class FrameDigest:
    """SHA-256 over the frames added so far."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, frame: Frame) -> None:
        """The next frame of the log."""
        self._text("frame", frame.site, str(frame.rows))
        for name in sorted(frame.batch.schema.names):
            self._column(name, frame.batch.column(name))

    def hexdigest(self) -> str:
        """64 hexadecimal digits."""
        return self._hash.hexdigest()

    def _text(self, *words: str) -> None:
        for word in words:
            data = word.encode()
            self._hash.update(len(data).to_bytes(8, "little") + data)

    def _column(self, name: str, column: pa.Array) -> None:
        self._text(name, str(column.type))
        nulls = np.asarray(column.is_null())
        self._hash.update(np.packbits(nulls).tobytes())
        if isinstance(column, pa.DictionaryArray):
            words, codes = column.dictionary.to_pylist(), column.indices.fill_null(0).to_numpy()
            codes = codes[~nulls]
            used = np.flatnonzero(np.bincount(codes, minlength=len(words)))
            texts = [words[code] for code in used]
            rank = np.zeros(len(words), np.int32)
            rank[used] = np.argsort(np.argsort(np.array(texts, object)))
            self._text(str(len(texts)), *sorted(texts))
            self._hash.update(rank[codes].tobytes())
            return
        zero = pa.scalar(0).cast(column.type) if column.null_count else None
        values = column if zero is None else column.fill_null(zero)
        self._hash.update(values.to_numpy(zero_copy_only=False).tobytes())
