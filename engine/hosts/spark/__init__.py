"""The Spark host, and ``chain``, a step for existing Spark jobs.

``chain(order="sequence", queries=["SELECT ..."])(df)`` turns a DataFrame of frames or of plain
rows, from any source, into a DataFrame of results.
"""

from slackwater.engine.hosts.spark.dataframe import chain

__all__ = ["chain"]
