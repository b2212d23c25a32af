"""Where the parts of a pass are kept: files of batches, memory, and the ledger of both."""
