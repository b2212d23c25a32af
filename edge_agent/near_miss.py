"""What to say of a word that is none of the known ones, in the settings and in queries alike."""

from __future__ import annotations

from collections.abc import Iterable


def near_miss(word: str, known: Iterable[str]) -> str:
    """``; did you mean "x"?`` when a known word is near, else nothing."""
    import difflib  # noqa: PLC0415 - only for errors

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f'; did you mean "{near[0]}"?' if near else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean "x"?`` when a known word is near, else all the known words."""
    words = list(known)
    return near_miss(word, words) or f"; known are {', '.join(words)}"
