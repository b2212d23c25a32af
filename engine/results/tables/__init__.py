"""Results as tables of plain, typed columns: Parquet and CSV."""
