"""What commit records tell: offsets over time, rewinds, lag's end offsets, weights."""
