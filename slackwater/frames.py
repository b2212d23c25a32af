"""Arrow tables as data frames of other libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.engine.core.errors import need

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def as_pandas(table: pa.Table) -> pd.DataFrame:
    """``table`` as a pandas DataFrame.

    Raises:
        SlackwaterError: pandas is not installed.
    """
    need("pandas")
    return table.to_pandas()


def as_polars(table: pa.Table) -> pl.DataFrame:
    """``table`` as a polars DataFrame.

    Raises:
        SlackwaterError: polars is not installed.
    """
    need("polars")
    import polars as pl  # noqa: PLC0415 - no extra brings it

    return pl.from_arrow(table)


class AsFrames(ABC):
    """Conversions to data frames for classes with an Arrow table."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The content as an Arrow table."""

    def to_pandas(self) -> pd.DataFrame:
        """``to_arrow`` as a pandas DataFrame.

        Raises:
            SlackwaterError: pandas is not installed.
            UserError: as ``to_arrow``.
        """
        return as_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """``to_arrow`` as a polars DataFrame.

        Raises:
            SlackwaterError: polars is not installed.
            UserError: as ``to_arrow``.
        """
        return as_polars(self.to_arrow())
