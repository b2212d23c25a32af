"""The order ``none``, and what its punctuations prove."""
