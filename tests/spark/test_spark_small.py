"""The driver folds a small log without a job, and gives the answers of the workers."""

import pytest

from coterie.errors import CoterieError, FaultFound
from coterie_spark import replay
from coterie_spark.replay_job import roads
from support import golden_data
from support.commandline import coterie_ok, fails, folder_of

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

SPARK = ("--engine", "spark")
CASES = ["transactions", "old-formats", "corrupt/length-2gib"]


@pytest.fixture
def by_driver(spark):
    """The session, in which the driver folds small logs, as it does for users."""
    spark.conf.set(roads.SETTING, str(roads.DRIVER_BYTES))
    yield spark
    spark.conf.set(roads.SETTING, "-1")


def jobs_of(spark):
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", ["parquet", "json"])
def test_the_driver_writes_the_files_of_the_local_engine(by_driver, tmp_path, case, form):
    command = ("replay", golden_data.log(case), "--history", "--format", form)
    before = jobs_of(by_driver)
    coterie_ok(*command, "--out", tmp_path / "spark", *SPARK)
    assert jobs_of(by_driver) == before
    coterie_ok(*command, "--out", tmp_path / "one", "--engine", "local")
    assert folder_of(tmp_path / "spark") == folder_of(tmp_path / "one")
    for name in folder_of(tmp_path / "one"):
        ours, theirs = tmp_path / "spark" / name, tmp_path / "one" / name
        if form == "json":
            assert ours.read_bytes() == theirs.read_bytes()
        else:
            assert folder_of(ours) == ["part-00000.parquet"]
            assert pq.read_table(ours).equals(pq.read_table(theirs)), name


def test_the_tables_are_those_that_workers_make(by_driver):
    log = golden_data.log("transactions")
    mine = replay(by_driver, log, history=True)
    by_driver.conf.set(roads.SETTING, "-1")
    theirs = replay(by_driver, log, history=True)
    assert mine.summary == theirs.summary
    for name in theirs:
        assert sorted(map(repr, mine[name].collect())) == sorted(map(repr, theirs[name].collect()))
    mine.unpersist()
    theirs.unpersist()


def test_the_driver_stops_at_a_fault_in_one_line(by_driver, tmp_path):
    log, out = golden_data.log("corrupt/magic-3"), tmp_path / "out"
    fails("replay", log, "--out", out, "--on-fault", "stop", *SPARK, says=("byte 10616", "magic"))
    assert folder_of(tmp_path) == []
    with pytest.raises(FaultFound, match="byte 10616"):
        replay(by_driver, log, on_fault="stop")


def test_a_limit_that_is_no_number_is_one_line(by_driver):
    by_driver.conf.set(roads.SETTING, "all")
    with pytest.raises(CoterieError, match=r"spark.coterie.driverBytes must be a number of bytes"):
        replay(by_driver, golden_data.log("basic"))
