"""What others sent, in a line for people: no line of its own, and nothing that a terminal does."""

from __future__ import annotations


def one_line(text: str, most: int | None = None) -> str:
    r"""``text`` with line feeds and all else that is not printed written out.

    Args:
        text: of anybody.
        most: so many characters of it are shown; None: all.

    >>> one_line("d\nlistening at 0.0.0.0\x1b[2J"), one_line("abcdef", 3)
    ('d\\nlistening at 0.0.0.0\\x1b[2J', 'abc...')
    """
    cut = text if most is None or len(text) <= most else f"{text[:most]}..."
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in cut)
