"""A quiet Spark session in this process: no UI, no progress bar, nothing below an error logged.

The command line and the tests start it. Callers with a session of their own do not need it: every
function of the package takes a session.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.errors import CoterieError
from coterie_spark.session.java import ensure_java
from coterie_spark.session.master import check_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Without a level of the gateway's own logger, Spark prints that it sets one.
_LOG4J = """\
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n%ex{short}
"""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def local_session(
    master: str = "local[*]",
    app_name: str = "coterie",
    conf: Mapping[str, str] | None = None,
    *,
    java_options: str = "",
) -> SparkSession:
    """Start a session, or apply ``conf`` to the running one and return it.

    Parameters
    ----------
    master : str
        ``local[N]`` or ``local[*]`` in this process, or the URL of a cluster. A local driver
        listens on the loopback interface only.
    app_name : str
        Name of the application.
    conf : mapping of str to str, optional
        Spark's own settings; they override those made here.
    java_options : str
        More options of the JVM, if one is started; those of ``conf`` override them.

    Raises
    ------
    CoterieError
        pyspark is not installed, or no Java is found (see ``ensure_java``).
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise CoterieError(
            f"Spark is not installed ({missing}): pip install 'coterie[spark]';"
            " --engine local needs none"
        ) from None
    if SparkSession.getActiveSession() is None:
        check_master(master)
        ensure_java()
    # The workers run the Python of this process, not whatever python3 the PATH has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = _settings(master)
    settings[_JAVA_OPTIONS] += f" {java_options}"
    settings |= dict(conf or {})
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _settings(master: str) -> dict[str, str]:
    home = Path(tempfile.mkdtemp(prefix="coterie-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    log4j = home / "log4j2.properties"
    log4j.write_text(_LOG4J)
    settings = {
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": (home / "warehouse").as_uri(),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
    }
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings
