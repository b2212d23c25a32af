"""One session of Spark for all tests that use one."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from slackwater.engine.hosts.spark.host import spark_session


@pytest.fixture(scope="session", name="session")
def _session(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log")
