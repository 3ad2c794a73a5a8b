"""The replay on Spark: the driver plans, workers scan and merge."""
