"""Sweeps: one scenario at many settings, judged by its thresholds."""
