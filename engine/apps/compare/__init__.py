"""Comparison of orders on a recording: one measured pass per order."""

from slackwater.engine.apps.compare.comparison import OrdersCompared, compare
from slackwater.engine.apps.compare.measure import Measures, Reading

__all__ = ["Measures", "OrdersCompared", "Reading", "compare"]
