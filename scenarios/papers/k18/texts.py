"""The collection that is indexed: the Python Language Reference, as every Python ships it.

``pydoc_data.topics`` is part of the standard library: some 80 topics of help() in English prose.
Runs of its paragraphs stand for the articles of K18's Wikipedia.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

WORDS_LEAST: Final = 200
"""Least number of words of a document; the last one of a topic may have fewer."""
Document = tuple[str, ...]
"""The words of a document, in order."""


@cache
def documents() -> tuple[Document, ...]:
    """All of them, in the order of topics' names."""
    from pydoc_data.topics import topics  # noqa: PLC0415 - 700 kB of text, for few

    found: list[Document] = []
    for name in sorted(topics):
        words: list[str] = []
        for paragraph in re.split(r"\n\s*\n", topics[name]):
            words += re.findall(r"[a-z]+", paragraph.lower())
            if len(words) >= WORDS_LEAST:
                found.append(tuple(words))
                words = []
        if words:
            found.append(tuple(words))
    return tuple(found)
