"""A quiet Spark session in this process, and the Java that it needs."""

from coterie_spark.session.local import local_session

__all__ = ["local_session"]
