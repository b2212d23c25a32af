"""The kind ``postgres`` beside Debian's PostgreSQL: what stands is in the table, exactly once."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from slackwater.edge_agent.errors import SettingsError
from slackwater.engine.sinks.base import RetryError
from slackwater.engine.sinks.postgres import postgres_sink
from tests.live.conftest import free_port, until
from tests.sinks.receivers import RESULT, Answers, run_through, table_of
from tests.sinks.test_http import items
from tests.sinks.test_settle import changes, result

BIN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
NEEDS_POSTGRES = pytest.mark.skipif(
    BIN is None,
    reason="no PostgreSQL here (Debian: apt-get install postgresql)",
)
USER = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


class Database:
    """A server of its own, in a folder that goes."""

    def __init__(self, folder: Path) -> None:
        assert BIN is not None
        self.port = free_port()
        self._data = folder / "data"
        self.run(
            "initdb", "-D", self._data, "-A", "trust", "-U", "owner", "--no-sync", "-E", "UTF8"
        )
        self.start()

    def run(self, program: str, *words: Any) -> None:
        assert BIN is not None
        as_user: dict[str, Any] = {} if os.geteuid() else {"user": USER, "group": USER}
        subprocess.run(
            [BIN / program, *words], check=True, stdout=subprocess.DEVNULL, cwd="/", **as_user
        )

    def start(self) -> None:
        options = f"-p {self.port} -k {self._data} -c fsync=off -c listen_addresses=127.0.0.1"
        self.run("pg_ctl", "-D", self._data, "-w", "-o", options, "-l", self._data / "log", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")

    def url(self, user: str = "owner") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/postgres"

    def rows(self, statement: str) -> list[list[str]]:
        done = subprocess.run(
            ["psql", "-XAtq", "-F", "\x1f", "-c", statement, self.url()],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return [line.split("\x1f") for line in done.stdout.splitlines()]


@pytest.fixture(name="database", scope="module")
def _database() -> Iterator[Database]:
    folder = Path(tempfile.mkdtemp(prefix="slackwater-postgres-"))
    shutil.chown(folder, USER)
    made = Database(folder)
    yield made
    made.stop()
    shutil.rmtree(folder)


def sink_to(database: Database, table: str, **more: Any) -> Any:
    values = {"url": database.url(), "table": table, **more}
    return postgres_sink(table_of(values), "s")


@NEEDS_POSTGRES
def test_rows_are_the_results_as_columns(database: Database, tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    answers.write({"n": 1, "text": 'it\'s "ä" % \\ \n'}, site="ward%203")
    run_through(answers.forwarder(sink_to(database, "columns")))
    (row,) = database.rows(
        "SELECT id, key, query, site, certainty, known_at, result->>'n' FROM columns"
    )
    assert len(row[0]) == 32
    assert row[1].startswith("q1@")
    assert row[1].endswith("/ward%203/0")
    assert row[2:] == ["q1", "ward%203", "confirmed", str(RESULT["known_at"]), "1"]
    (text,) = database.rows("SELECT result->'text' FROM columns")
    assert json.loads(text[0]) == 'it\'s "ä" % \\ \n'


@NEEDS_POSTGRES
def test_a_retraction_deletes_one_of_several_equal_results(
    database: Database, tmp_path: Path
) -> None:
    answers = Answers(tmp_path)
    answers.write({"n": 1}, {"n": 1, "at": 9}, {"n": 2}, {"n": 1, "op": "-", "at": 20})
    run_through(answers.forwarder(sink_to(database, "several")))
    assert database.rows("SELECT result->>'n' FROM several ORDER BY 1") == [["1"], ["2"]]


@NEEDS_POSTGRES
@pytest.mark.parametrize("seed", range(5))
def test_over_kills_what_stands_is_there_exactly_once(
    database: Database, tmp_path: Path, seed: int
) -> None:
    """Positions of the files are lost at random: all of the answers come again."""
    random = Random(seed)
    answers = Answers(tmp_path)
    logs = {site: changes(random, 60) for site in "ab"}
    table = f"kills_{seed}"
    for number in range(60):
        for site, log in logs.items():
            answers.write(result(log[number], number), site=site)
        if random.random() < 0.1:
            sink = sink_to(database, table)
            forwarder = answers.forwarder(sink, batch=random.choice([1, 5, 100]))
            run_through(forwarder)
        if random.random() < 0.1:
            (tmp_path / ".sinks" / "s.state").unlink(missing_ok=True)
    run_through(answers.forwarder(sink_to(database, table)))
    standing: Counter[tuple[str, int]] = Counter()
    for site, log in logs.items():
        for which, op, _ in log:
            standing[site, which] += 1 if op == "+" else -1
    rows = database.rows(f"SELECT site, result->>'n' FROM {table}")
    assert Counter((site, int(n)) for site, n in rows) == +standing


@NEEDS_POSTGRES
def test_what_the_database_refuses_is_a_dead_letter(database: Database, tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    answers.write({"n": 1}, {"n": 2, "text": "\0"}, {"n": 3})
    run_through(answers.forwarder(sink_to(database, "refused")))
    assert database.rows("SELECT result->>'n' FROM refused") == [["1"], ["3"]]
    dead = json.loads((tmp_path / ".sinks" / "s.dead.jsonl").read_text())
    assert dead["result"]["n"] == 2


@NEEDS_POSTGRES
def test_a_table_of_another_program_is_left_alone(database: Database) -> None:
    """Its types would refuse every result for good. Columns of yours may follow the sink's."""
    names = [f"c{number} integer" for number in range(7)]
    database.rows(f"CREATE TABLE theirs ({', '.join(names)})")
    sink = sink_to(database, "theirs")
    for _ in range(2):
        with pytest.raises(RetryError, match="theirs is of another program"):
            sink.deliver(items(2))
    database.rows("DROP TABLE theirs")
    sink.deliver(items(2))
    database.rows("ALTER TABLE theirs ADD seen boolean DEFAULT false")
    sink.close()
    sink.deliver(items(3))
    sink.close()
    assert database.rows("SELECT count(*), count(seen) FROM theirs") == [["3", "3"]]


@NEEDS_POSTGRES
def test_a_column_of_theirs_that_no_result_fills_refuses_none_for_good(database: Database) -> None:
    sink = sink_to(database, "added")
    sink.deliver(items(2))
    database.rows("ALTER TABLE added ADD note text NOT NULL DEFAULT '-'")
    database.rows("ALTER TABLE added ALTER note DROP DEFAULT")
    with pytest.raises(RetryError, match=r'"note".*; give note a default, or drop its NOT NULL'):
        sink.deliver(items(4))
    database.rows("ALTER TABLE added ALTER note SET DEFAULT '-'")
    sink.deliver(items(4))
    sink.close()
    assert database.rows("SELECT count(*) FROM added") == [["4"]]


@NEEDS_POSTGRES
def test_a_server_that_goes_and_comes_back(database: Database) -> None:
    sink = sink_to(database, "away")
    sink.deliver(items(3))
    database.stop()
    try:
        for _ in range(2):
            with pytest.raises(RetryError, match=r"127\.0\.0\.1: "):
                sink.deliver(items(5))
    finally:
        database.start()
    until(lambda: database.rows("SELECT 1"), "the database")
    sink.deliver(items(5))
    sink.deliver(items(5))
    sink.close()
    assert database.rows("SELECT count(*) FROM away") == [["5"]]


@NEEDS_POSTGRES
def test_a_user_who_may_not_create_tables_can_use_them(database: Database) -> None:
    sink = sink_to(database, "shared")
    sink.deliver(items(1))
    sink.close()
    for statement in (
        "CREATE ROLE clerk LOGIN",
        "GRANT SELECT, INSERT, DELETE ON shared TO clerk",
        "GRANT SELECT, INSERT, UPDATE ON slackwater_sinks TO clerk",
    ):
        database.rows(statement)
    url = database.url("clerk")
    values = {"url": url, "table": "shared"}
    sink = postgres_sink(table_of(values), "clerk")
    sink.deliver(items(2))
    sink.close()
    assert database.rows("SELECT count(*) FROM shared") == [["3"]]
    other = postgres_sink(table_of({"url": url, "table": "other"}), "clerk")
    with pytest.raises(RetryError, match="permission denied"):
        other.deliver(items(1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "mysql://a/b"}, 'url: write "postgresql://HOST/..." (postgresql or postgres)'),
        ({"url": "postgres://a/b", "table": 'a"; DROP'}, "table: write a name of letters"),
        ({"url": "postgres://a/b", "table": "slackwater_sinks"}, "table: write a name"),
        ({"url": "postgres://u:geheim@a/b", "password": "x"}, "password: there is one in url"),
    ],
)
def test_mistakes_are_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as found:
        postgres_sink(table_of(settings), "s")
    assert said in str(found.value)
    assert "geheim" not in str(found.value)


def test_a_password_goes_beside_the_address() -> None:
    table = table_of({"url": "postgres://u:ge%20heim@a:7/b?sslmode=verify-full"})
    sink = postgres_sink(table, "s")
    assert sink._url.geturl() == "postgres://u@a:7/b?sslmode=verify-full"
    assert sink._password == "ge heim"
    assert "heim" not in table.printed()
