"""Optimistic stateful operators (K18): windowed grouping, the cycle, tombstones, one barrier."""
