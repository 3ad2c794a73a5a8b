"""The replay on Spark: planned by the driver, scanned and merged by workers."""
