"""Which way of ordering suits a recording, and what it costs: one pass per order, measured."""

from engine.apps.compare.comparison import OrdersCompared, compare
from engine.apps.compare.measure import Measures, Reading

__all__ = ["Measures", "OrdersCompared", "Reading", "compare"]
