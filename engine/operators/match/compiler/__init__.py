"""Compiles a query to the records that kernels read."""
