"""What a service writes is not for every user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slackwater.edge_agent.standard_streams import keep_private


@pytest.mark.parametrize(
    ("before", "file", "folder"),
    [(0o022, 0o640, 0o750), (0o000, 0o640, 0o750), (0o077, 0o600, 0o700), (0o002, 0o640, 0o750)],
)
def test_files_are_for_the_user_and_its_group(
    before: int, file: int, folder: int, tmp_path: Path
) -> None:
    """Nor may the group write; who allows less still does."""
    kept = os.umask(before)
    try:
        keep_private()
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "file").touch()
    finally:
        os.umask(kept)
    assert (tmp_path / "folder").stat().st_mode & 0o777 == folder
    assert (tmp_path / "folder" / "file").stat().st_mode & 0o777 == file
