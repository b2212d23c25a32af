"""Gateway core of the engine: admits sources, numbers and logs their records, and sends acks."""
