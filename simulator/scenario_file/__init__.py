"""Scenario files (TOML): sources, workloads, machines, recordings, without programming."""
