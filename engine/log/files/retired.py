"""What is kept of a log's files that were removed because of their age, or for want of room."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field, structs

from engine.errors import UserError
from engine.log.saved_state import load, save

RETIRED: Final = "retired.state"


class Retired(Struct, frozen=True):
    """Files up to number ``upto`` are no part of the log any more.

    ``first_mark`` and ``last_mark``: what told its first file, and file ``upto``, from others;
    ``known``: what the gateway must know of them (``engine.gateway.recall``); ``files`` and
    ``bytes``: how much was removed in all, ``unread``: how many files an engine had not read.
    """

    upto: int = 0
    first_mark: int | None = None
    last_mark: int | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    bytes: int = 0
    unread: int = 0


def retired(directory: Path) -> Retired:
    """Of the log in ``directory``.

    Raises:
        UserError: it is damaged.
    """
    path = directory / RETIRED
    state = load(path)
    if state is None and path.exists():
        raise UserError(
            f"{path}: damaged: restore it; without it nobody knows where the log begins"
        )
    return Retired(**(state or {}))


def keep(directory: Path, state: Retired) -> None:
    """Replaces what was known; on disk when this returns.

    Raises:
        OSError: it cannot be written.
    """
    save(directory / RETIRED, structs.asdict(state))
