"""The folder in which a command works: the user's, or one that goes away."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slackwater.engine.core.errors import SparkFailure, UserError
from slackwater.engine.hosts.pipeline import with_log_kept


@contextmanager
def work_folder(work: Path | None) -> Iterator[Path]:
    """The folder of log, checkpoint and parts.

    Args:
        work: the user's, made if absent; None: a new one, of which only the log of a failure stays.

    Raises:
        UserError: it cannot be a folder.
    """
    if work is not None:
        try:
            work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            said = f"cannot be a folder for --work: {error.strerror}"
            raise UserError(f"{work}: {said}") from error
        yield work
        return
    with tempfile.TemporaryDirectory(prefix="slackwater-") as name:
        try:
            yield Path(name)
        except SparkFailure as failure:
            raise with_log_kept(failure, Path(f"{name}.spark.log")) from failure
