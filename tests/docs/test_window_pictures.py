"""The pictures of windows in the reference are what the engine says."""

from __future__ import annotations

import pytest

from scripts.window_pictures import IMAGES, KINDS, picture


@pytest.mark.parametrize("name", KINDS)
def test_the_picture_is_up_to_date(name: str) -> None:
    assert (IMAGES / f"windows-{name}.svg").read_text(encoding="utf-8") == picture(name)
