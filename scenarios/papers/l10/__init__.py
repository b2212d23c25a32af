"""L10: Li 2010, robust detection of event patterns; one folder per reproduced chapter."""
