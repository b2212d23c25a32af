"""The query language: text -> plan (``query``), plan -> text, conditions on columns."""

from engine.query.analyse import query

__all__ = ["query"]
