"""What a window holds: cells by key, sums and sketches."""
