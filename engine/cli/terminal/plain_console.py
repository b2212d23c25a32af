"""A console of rich on which texts out of data do nothing but stand there."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from engine.cli.terminal.visible import visible


class PlainConsole(Console):
    """Its own colours and lines are rich's; every text it is given is made visible."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)
