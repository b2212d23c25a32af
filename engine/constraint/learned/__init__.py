"""What a recording says of its traces: a constraint learned from it, and how often one is broken."""
