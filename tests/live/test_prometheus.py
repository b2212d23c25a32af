"""Debian's Prometheus scrapes a real gateway, and the dashboard's expressions have values."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.live.conftest import Field, free_port, until
from tests.page.test_metrics import DASHBOARD


@contextmanager
def prometheus(folder: Path, target: int, token: str) -> Iterator[int]:
    """Debian's Prometheus, scraping a port of this machine each second; gives its own port."""
    port = free_port()
    (folder / "token").write_text(token)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: slackwater\n"
        f"  authorization: {{credentials_file: {folder}/token}}\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n"
    )
    process = subprocess.Popen(
        [
            "prometheus", f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield port
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
@pytest.mark.skipif(which("prometheus") is None, reason="no prometheus here (Debian's package)")
def test_a_real_prometheus_scrapes_and_the_dashboard_has_values(field: Field) -> None:
    token, page = "a token of the page", free_port()
    field.site(f'[page]\nport = {page}\ntoken = "{token}"\n')
    field.serve()
    agent = field.agent_file("d", field.replay("a.jsonl", range(2000), pace=1, step_ms=20))
    field.start("agent", "--config", agent)
    with prometheus(field.folder, page, token) as port:

        def ask(expression: str) -> list[Any]:
            url = f"http://127.0.0.1:{port}/api/v1/query?{urlencode({'query': expression})}"
            try:
                with urlopen(url, timeout=5) as answer:
                    told = json.load(answer)
            except OSError:
                return []
            assert told["status"] == "success", told
            return list(told["data"]["result"])

        until(lambda: ask("slackwater_source_clock_bound_seconds > 0"), "a scrape")
        until(lambda: ask("rate(slackwater_source_events_recorded_total[1m]) > 0"), "a rate")
        (up,) = ask("slackwater_source_up")
        assert up["metric"]["source"] == "d"
        board = json.loads(DASHBOARD.read_text())
        empty = []
        for panel in board["panels"]:
            for target in panel["targets"]:
                asked = target["expr"].replace("$site", ".*").replace("$source", ".*")
                if not ask(asked):
                    empty.append(asked)
        # Nothing was turned away, so that this family has no series.
        assert empty == ["rate(slackwater_faults_total[5m])"]
