"""``--spill``: whether old events of patterns leave memory, and where they go."""

from __future__ import annotations

from typing import Annotated

import typer

Spill = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Old events of patterns go to files: "
        "FOLDER[,hot=..,chunk=..,parts=..,pending=..,wait=..]; on Spark state[,..].",
    ),
]
