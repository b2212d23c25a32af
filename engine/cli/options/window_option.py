"""``--window`` and ``--monitor``: how long windows and alerts are corrected; files beside."""

from __future__ import annotations

from pathlib import Path
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
MonitorText = Annotated[
    str | None,
    typer.Option(
        "--monitor",
        metavar="MONITOR",
        help="How traces under a constraint are followed: horizon=10s (late events rewrite), "
        "check=basic. Default: in release order, check=light.",
    ),
]
ConstraintsFile = Annotated[
    Path | None,
    typer.Option(
        "--constraints",
        metavar="FILE",
        help="Constraints that queries name: CONSTRAINT name FOR TRACE BY ... AS ...;",
    ),
]
HistoryPath = Annotated[
    Path | None,
    typer.Option(
        "--history",
        metavar="FILE",
        help="What CHECK knows of runs before, and leaves to runs to come; made if absent.",
    ),
]
