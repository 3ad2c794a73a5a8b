"""From batches to the last record of each key: partial states, which merge."""
