import pytest


@pytest.fixture(scope="session")
def spark():
    """One session for all tests that need Spark; without pyspark they are skipped by name."""
    pytest.importorskip("pyspark")
    from coterie_spark.session import local_session

    session = local_session("local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()
