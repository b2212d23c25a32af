"""From the text of a query to its parts and their places in the text."""
