"""The certainty of matches: confirmed or possible, and with which probability."""
