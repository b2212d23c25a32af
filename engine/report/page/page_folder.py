"""A folder of our own with a page and its numbers: judged before the work, each file whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from engine.errors import UserError
from engine.extras import need
from engine.log.whole_file import whole_file


def check_page_folder(out: Path, names: Collection[str], option: str = "--out") -> None:
    """What can be known to go wrong at the end is told before the work.

    Args:
        out: the folder.
        names: of the files that it may hold already.
        option: that named it.

    Raises:
        UserError: the folder is a file, or holds what is not ours.
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; choose a folder for {option}")
    above = next(path for path in out.absolute().parents if path.exists())
    if not above.is_dir():
        raise UserError(f"{out}: {above} is a file, not a folder; choose another {option}")
    held = {path.name for path in out.iterdir()} if out.exists() else set()
    other = sorted(held - set(names))
    if other:
        raise UserError(f"{out}: holds other files ({other[0]}); choose another {option}")


def check_new_page(out: Path, names: Collection[str]) -> None:
    """What can be known to go wrong at the end is told before the work of a page for ``--out``.

    Raises:
        UserError: see ``check_page_folder``.
        MissingExtra: the extra [report] is not installed.
    """
    need("report")
    check_page_folder(out, names)


def write_page_folder(out: Path, files: Mapping[str, str], beside: Collection[str] = ()) -> None:
    """Writes ``files``, content by name, into the folder ``out``, made if absent.

    ``beside``: what it may hold besides.

    Raises:
        UserError: see ``check_page_folder``.
    """
    check_page_folder(out, {*files, *beside})
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        with whole_file(out / name) as sink:
            sink.write(content.encode())
