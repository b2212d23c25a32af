"""Which way of ordering suits a recording, and what it costs: one pass per order, measured."""
