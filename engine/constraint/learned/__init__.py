"""What a recording says of its traces: a constraint that they keep to, and how often they do."""
