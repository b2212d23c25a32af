"""A query as records that kernels walk."""
