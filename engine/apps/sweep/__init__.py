"""Sweeps: one scenario with many settings, judged by its thresholds."""
