"""What commit records show: offsets over time, rewinds, end offsets, weights, divergence."""
