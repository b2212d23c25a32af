"""Which way of ordering suits a recording, and what it costs: one pass per order, measured."""

from slackwater.engine.apps.compare.comparison import OrdersCompared, compare
from slackwater.engine.apps.compare.measure import Measures, Reading

__all__ = ["Measures", "OrdersCompared", "Reading", "compare"]
