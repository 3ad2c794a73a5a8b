"""Bytes to fields and back: checksums, compression, batches, records, keys and values."""
