"""Arrow tables as data frames of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.engine.core.extras import need

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def as_pandas(table: pa.Table) -> pd.DataFrame:
    """``table`` as a DataFrame of pandas.

    Raises:
        SlackwaterError: pandas is not installed.
    """
    need("pandas")
    return table.to_pandas()


def as_polars(table: pa.Table) -> pl.DataFrame:
    """``table`` as a DataFrame of polars.

    Raises:
        SlackwaterError: polars is not installed.
    """
    need("polars")
    import polars as pl  # noqa: PLC0415 - no extra brings it

    return pl.from_arrow(table)
