"""Which files a table of row-wise Parquet has; light, as of every folder it is asked."""

from __future__ import annotations

from pathlib import Path


def table_files(path: str) -> list[str]:
    """The Parquet files of a table: the file itself, or those in the folder, by name.

    Names that begin with a dot or an underscore are no data, as Spark has it.
    """
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    found = [
        file
        for file in folder.rglob("*")
        if file.is_file()
        and file.name.lower().endswith((".parquet", ".parq", ".pq"))
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]
    return [str(file) for file in sorted(found)]
