"""Results on disk: idempotent sinks per micro-batch, and their export as JSONL and Parquet."""
