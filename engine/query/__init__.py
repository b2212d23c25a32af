"""The query language: text -> plan, plan -> text, and what a plan asks of the data."""

from slackwater.engine.query.analysis.analyse import query
from slackwater.engine.query.explain import explain
from slackwater.engine.query.expression import computed_values
from slackwater.engine.query.fields import needed_attributes
from slackwater.engine.query.render import render as to_text
from slackwater.engine.query.results_as_events import check_attributes

__all__ = [
    "check_attributes",
    "computed_values",
    "explain",
    "needed_attributes",
    "query",
    "to_text",
]
