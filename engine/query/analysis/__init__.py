"""From the parts of a query to its plan, or to what is wrong with it."""
