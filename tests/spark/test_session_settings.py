"""What a session is started with, and which masters are tried. No JVM is started."""

import atexit
import os
import socket
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from coterie import CoterieError

pytest.importorskip("pyspark")
from coterie_spark.session import local, master

OPTIONS = "spark.driver.extraJavaOptions"


class Builder:
    """Collects the settings of a session."""

    def __init__(self):
        self.made = {}

    def master(self, name):
        self.made["master"] = name
        return self

    def appName(self, name):
        self.made["name"] = name
        return self

    def config(self, key, value):
        self.made[key] = value
        return self

    def getOrCreate(self):
        return self.made


@pytest.fixture
def machine(monkeypatch):
    """Calls before a JVM starts; what is done at the end of the process."""
    calls, at_end = [], []

    class Sessions:
        active = None
        builder = property(lambda self: Builder())

        def getActiveSession(self):
            return self.active

    sessions = Sessions()
    monkeypatch.setattr("pyspark.sql.SparkSession", sessions)
    monkeypatch.setattr(local, "check_master", lambda name: calls.append(("master", name)))
    monkeypatch.setattr(local, "ensure_java", lambda: calls.append(("java",)))
    monkeypatch.setattr(atexit, "register", lambda *a, **k: at_end.append((a, k)))
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")  # restored afterwards
        monkeypatch.delenv(name)
    yield sessions, calls, at_end
    for (remove, *arguments), options in at_end:
        remove(*arguments, **options)


def test_a_local_session_listens_on_the_loopback_interface_alone(machine):
    made = local.local_session()
    own = {name: made[name] for name in made if name not in (OPTIONS, "spark.sql.warehouse.dir")}
    assert own == {
        "master": "local[*]",
        "name": "coterie",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert machine[1] == [("master", "local[*]"), ("java",)]


def test_a_session_of_a_cluster_has_the_address_that_spark_finds(machine):
    made = local.local_session("spark://a:7077", "mine", java_options="-Xone -Xtwo")
    assert (made["master"], made["name"]) == ("spark://a:7077", "mine")
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & made.keys()
    assert "SPARK_LOCAL_IP" not in os.environ
    assert made[OPTIONS].endswith(".properties -Xone -Xtwo")


def test_settings_of_the_caller_and_of_the_environment_hold(machine, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "python9")
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    conf = {OPTIONS: "-Xmine", "spark.ui.enabled": "true", "spark.x": "1"}
    made = local.local_session("local[2]", conf=conf, java_options="-Xother")
    assert {name: made[name] for name in conf} == conf
    assert (os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"]) == ("python9", "10.0.0.1")


def test_a_running_session_needs_neither_java_nor_a_master(machine):
    machine[0].active = object()
    assert local.local_session("local[2]")["master"] == "local[2]"
    assert machine[1] == []


def test_a_session_has_a_folder_of_its_own_which_goes_with_the_process(machine):
    made = local.local_session()
    ((remove, home), options) = machine[2].pop()
    (option,) = made[OPTIONS].split()
    name, _, url = option.partition("=")
    assert name == "-Dlog4j2.configurationFile"
    settings = Path(unquote(urlsplit(url).path))
    assert settings.parent == home
    assert "rootLogger.level = error" in settings.read_text()
    assert made["spark.sql.warehouse.dir"] == (home / "warehouse").as_uri()
    for _ in range(2):  # Spark may have removed it
        remove(home, **options)
    assert not home.exists()


# ---- masters


@pytest.fixture
def network(monkeypatch):
    """The addresses that are tried; those of ``open`` answer."""
    tried, answers = [], set()

    def create_connection(address, timeout):
        tried.append((*address, timeout))
        if address[0] not in answers:
            raise (
                OverflowError("port must be 0-65535")
                if address[1] > 65535
                else OSError(111, "Connection refused")
            )
        return open(os.devnull)

    monkeypatch.setattr(socket, "create_connection", create_connection)
    return tried, answers


def test_masters_are_tried_one_after_another_until_one_answers(network):
    tried, answers = network
    answers.update({"two", "::1"})
    master.check_master("spark://one:7077,two:7078,three:7079")
    assert tried == [("one", 7077, 10.0), ("two", 7078, 10.0)]
    tried.clear()
    master.check_master("spark://[::1]:7077")
    assert tried == [("::1", 7077, 10.0)]
    tried.clear()
    for other in ("local[2]", "yarn", "k8s://https://127.0.0.1:1"):
        master.check_master(other)  # Spark's own to find
    assert tried == []


def test_masters_that_do_not_answer_are_named_with_the_reason(network):
    places = {
        "one:7077": "Connection refused",
        ":7077": "no HOST:PORT",
        "one:": "no HOST:PORT",
        "one": "no HOST:PORT",
        "one:x": "no HOST:PORT",
        "one:99999": "port must be 0-65535",
    }
    url = f"spark://{','.join(places)}"
    with pytest.raises(CoterieError) as refused:
        master.check_master(url)
    reasons = "; ".join(f"{place}: {why}" for place, why in places.items())
    assert str(refused.value).startswith(f"no master of Spark answers at {url} ({reasons}); see")
    assert [host for host, _, _ in network[0]] == ["one", "one"]
