"""Where an engine begins in a log of which the oldest files were retired."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from engine.errors import UserError
from engine.log.files.retired import retired
from engine.results.answer_lines import SUFFIX


def check_begin(log: Path, answers: Path, queries: Iterable[str]) -> None:
    """Answers are to be made from the log's beginning: it must still be there, or there are none.

    Raises:
        UserError: files of the log were retired, and the answers that were made of them would be
            replaced by those that the rest of the log gives.
    """
    upto = retired(log).upto
    for name in queries if upto else ():
        folder = answers / name
        if any(folder.glob(f"*{SUFFIX}")):
            raise UserError(
                f"query {name}: {folder} has answers to the log's files from the first on, "
                f"of which those up to {upto} were retired, and the engine's state does not fit, "
                "or a file of answers was damaged (said above): ask as before, with the same "
                "engine, and restore the file; or move that folder away, then answers are made "
                f"from file {upto + 1} on"
            )


def skipped(log: Path, done: int, tell: Callable[[str], None]) -> int:
    """The number to go on from: ``done``, unless what follows it was retired, which is told."""
    upto = retired(log).upto
    if done >= upto:
        return done
    if done:
        tell(f"answers: the log's files {done + 1} to {upto} were retired unread: they lack those")
    else:
        tell(f"answers: the log's files up to {upto} were retired: they begin behind them")
    return upto
