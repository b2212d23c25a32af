"""L09: Liu et al. 2009, sequence queries with negation over disorder (chapter IX)."""
