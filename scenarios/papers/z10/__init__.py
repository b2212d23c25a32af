"""Z10: Zhou et al. 2010, durable events out of order (section 6)."""
