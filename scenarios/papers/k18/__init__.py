"""K18: Kuralenok et al. 2018, the optimistic approach to out-of-order events (section VI)."""
