"""From the text of a query to its parts, and where each stands in the text."""
