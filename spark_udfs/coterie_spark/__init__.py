"""Bulk replay on Spark. Importing this package imports no Spark."""
