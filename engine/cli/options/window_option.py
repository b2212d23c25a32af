"""``--window``: how long windows are corrected."""

from __future__ import annotations

from typing import Annotated

import typer

WindowText = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="WINDOW",
        help="How long after its end a window is corrected: horizon=10m. Default: 60 s, or its "
        "size if that is longer.",
    ),
]
