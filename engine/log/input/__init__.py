"""Inputs of any kind as frames: traces, CSV, Parquet, arrival logs."""
