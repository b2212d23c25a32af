"""The query language: text -> plan, plan -> text, and what a plan asks of the data."""

from engine.query.analysis.analyse import query
from engine.query.explain import explain
from engine.query.expression import computed_values
from engine.query.fields import needed_attributes
from engine.query.render import render as to_text
from engine.query.results_as_events import check_attributes

__all__ = [
    "check_attributes",
    "computed_values",
    "explain",
    "needed_attributes",
    "query",
    "to_text",
]
