"""Options that tell how an input is read, which several commands have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.errors import UserError

BAD_SUFFIX: Final = ".bad.jsonl"
"""Of the file for skipped lines, where none is named."""

OnBad = Annotated[
    str, typer.Option(metavar="stop|skip", help="stop at a bad line, or skip, count and keep it.")
]
DeadLetter = Annotated[
    Path | None, typer.Option(metavar="FILE", help="JSONL file for the skipped lines.")
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="FIELD=COLUMN", help="Of CSV or Parquet, e.g. ts=Client.Time; repeatable."
    ),
]


def parse_mapping(pairs: Iterable[str]) -> dict[str, str]:
    """``FIELD=COLUMN`` words as a dict.

    Raises:
        UserError: a word without ``=``, or a field given twice.
    """
    mapping: dict[str, str] = {}
    for pair in pairs:
        field, equals, column = pair.partition("=")
        if not equals or not field or not column:
            raise UserError(f"--map {pair}: write FIELD=COLUMN, as in --map ts=Client.Time")
        if field in mapping:
            raise UserError(f'--map {pair}: "{field}" is "{mapping[field]}" already')
        mapping[field] = column
    return mapping
