"""What is known of a running gateway: each source's events, clock and gaps, and the sums."""
