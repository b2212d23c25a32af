"""Columns as JSON texts, the same that ``json.dumps`` makes, without a Python object per row."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.results.float_texts import float_texts


def pair(name: str, values: pa.Array, unit: int) -> pa.Array:
    """``"name": value`` of each of ``values``; whole numbers are divided by ``unit``."""
    return around(f"{json.dumps(name)}: ", json_text(values, unit), "")


def around(begin: str, texts: pa.Array, end: str) -> pa.Array:
    """Each of ``texts`` between ``begin`` and ``end``."""
    return pc.binary_join_element_wise(begin, texts, end, "")


def woven(*parts: str | pa.Array) -> pa.Array:
    """Per row all ``parts`` one after another: its texts, and those that are the same for all."""
    together: list[str | pa.Array] = []
    for part in parts:
        if isinstance(part, str) and together and isinstance(together[-1], str):
            together[-1] += part
        else:
            together.append(part)
    return pc.binary_join_element_wise(*together, "")


def json_text(values: pa.Array, unit: int) -> pa.Array:
    """Values as JSON."""
    if pa.types.is_string(values.type):
        coded = values.dictionary_encode()
        known = [json.dumps(text, ensure_ascii=False) for text in coded.dictionary.to_pylist()]
        texts = pa.array(known, pa.string()).take(coded.indices)
    elif pa.types.is_floating(values.type):
        texts = float_texts(values.fill_null(0.0).to_numpy(zero_copy_only=False))
        texts = pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))
    else:
        texts = pc.cast(in_unit(values, unit), pa.string())
    return texts.fill_null("null")


def in_unit(times: pa.Array, unit: int) -> pa.Array:
    """Times [ns] in whole units, rounded down."""
    if unit == 1:
        return times
    absent = np.asarray(times.is_null().to_numpy(zero_copy_only=False))
    return pa.array(times.fill_null(0).to_numpy(zero_copy_only=False) // unit, mask=absent)


def in_one_text(lines: pa.Array) -> str:
    """Texts, none of them null, one after another."""
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return str(data[int(ends[0]) : int(ends[-1])].to_pybytes(), "utf-8")


def rest(more: pa.Array) -> pa.Array:
    """``, `` and the further fields, without their braces; nothing where there are none."""
    there = pc.fill_null(pc.greater(pc.binary_length(more), 2), False)
    inner = pc.utf8_slice_codeunits(pc.fill_null(more, "{}"), 1, -1)
    return pc.if_else(there, pc.binary_join_element_wise(", ", inner, ""), "")


def in_one(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, cut loose from what surrounds it."""
    return pa.concat_arrays(column.chunks)
