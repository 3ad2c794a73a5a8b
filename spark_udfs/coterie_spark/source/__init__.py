"""The data source ``consumer_offsets``: decoded records as a DataFrame."""
