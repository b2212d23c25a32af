"""A headless Chromium for tests that look at pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest
from selenium import webdriver

CHROMIUM, DRIVER = which("chromium"), which("chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1400,1000",
)  # fmt: skip
MARKS = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(
        None in (CHROMIUM, DRIVER), reason="no chromium here (Debian: chromium, chromium-driver)"
    ),
]


@contextmanager
def started(folder: Path) -> Iterator[webdriver.Chrome]:
    """A browser with its own profile in ``folder``; its console is kept."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options, webdriver.ChromeService(str(DRIVER)))
    try:
        yield made
    finally:
        made.quit()


def complaints(browser: webdriver.Chrome) -> list[str]:
    """What the console says beside hints; a broken policy is reported there."""
    return [line["message"] for line in browser.get_log("browser") if line["level"] != "DEBUG"]
