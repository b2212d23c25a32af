"""A file of constraints."""

from __future__ import annotations

from pathlib import Path

from engine.errors import UserError
from engine.query.language.definitions import Definition, definitions


def read_definitions(file: Path | None) -> dict[str, Definition]:
    """The constraints of ``file``, by name; None: there are none.

    Raises:
        UserError: it cannot be read, or one of them, with its line.
    """
    if file is None:
        return {}
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{file}: cannot read the constraints: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: is not UTF-8; save it as UTF-8") from error
    return definitions(text, str(file))
