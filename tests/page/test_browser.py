"""The page in a real browser (headless Chromium): what a person sees, and what must not happen."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from slackwater.engine.server.page.web_server import PageServer
from slackwater.engine.server.site_file import PageSettings
from slackwater.engine.sinks.forwarding import SinkFigures
from tests.live.conftest import free_port, until
from tests.page.chromium import MARKS, complaints, started
from tests.page.conftest import S, Site, a_result

HOSTILE = '<img src=x onerror="pwned=1"><script>pwned=1</script>"&\''
TOKEN = "correct horse battery"

pytestmark = MARKS


class ServedPage:
    """A page on a port of this machine, in a thread of its own."""

    def __init__(self, **settings: Any) -> None:
        self.site = Site()
        self.settings = PageSettings(port=free_port(), **settings)
        self.url = f"http://127.0.0.1:{self.settings.port}/"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._page: PageServer | None = None
        self.up()

    def do(self, what: Callable[[], Any]) -> Any:
        """In the loop of the page."""

        async def done() -> Any:
            return what()

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(30)

    def up(self) -> None:
        page = PageServer(self.settings, self.site.overview, self.site.feed)
        asyncio.run_coroutine_threadsafe(page.start(), self._loop).result(30)
        self._page = page

    def down(self) -> None:
        if self._page is not None:
            asyncio.run_coroutine_threadsafe(self._page.stop(), self._loop).result(30)
            self._page = None

    def close(self) -> None:
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(name="shown")
def _shown() -> Iterator[ServedPage]:
    made = ServedPage()
    yield made
    made.close()


@pytest.fixture(name="browser")
def _browser(chromium: webdriver.Chrome) -> webdriver.Chrome:
    """The browser without what the page of an earlier test says of its server's end."""
    chromium.get("about:blank")
    chromium.get_log("browser")
    return chromium


@pytest.fixture(name="chromium", scope="module")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with started(tmp_path_factory.mktemp("chromium")) as made:
        yield made


def text(browser: webdriver.Chrome, selector: str) -> str:
    found = browser.find_elements(By.CSS_SELECTOR, selector)
    return " ".join(each.text for each in found)


def see(browser: webdriver.Chrome, selector: str, words: str) -> None:
    until(
        lambda: words in browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent).join(' ')",
            selector,
        ),
        f"{words!r} in {selector}",
        20,
    )  # fmt: skip


def test_attack_03_queries_that_are_set_aside_are_listed(
    shown: ServedPage, browser: webdriver.Chrome
) -> None:
    answers = shown.site.overview.answers
    browser.get(shown.url)
    until(lambda: text(browser, "#sums"), "the sums")
    assert text(browser, "#failed") == ""
    answers.failed.append({"query": "q", "site": HOSTILE, "reason": HOSTILE, "version": "1"})
    until(lambda: text(browser, "#failed-rows li") == f"q of {HOSTILE}: {HOSTILE}", "the query")
    assert "1 set aside at a site; all others go on" in text(browser, "#failed-total")
    answers.failed.clear()
    answers.running = False
    until(lambda: "no query is answered, for now" in text(browser, "#failed"), "the engine's end")
    assert text(browser, "#failed-rows li") == ""
    answers.running = True
    until(lambda: text(browser, "#failed") == "", "answers again")
    assert browser.execute_script("return window.pwned") is None
    assert complaints(browser) == []


def test_sinks_are_a_table_where_there_are_any(
    shown: ServedPage, browser: webdriver.Chrome
) -> None:
    browser.get(shown.url)
    until(lambda: text(browser, "#link") == "live", "the stream")
    assert not browser.find_element(By.ID, "sinks").is_displayed()
    late = SinkFigures(
        "crm", 7, 3, 2, 1_000_000, 90.0, True, None, "crm: 503", "crm: 503", kind="http"
    )
    even = SinkFigures("tables", 12_000, delivered_at=time.time(), last_error=HOSTILE, kind="exec")
    shown.site.overview.answers.sinks = [asdict(late), asdict(even)]
    until(lambda: browser.find_element(By.ID, "sinks").is_displayed(), "the sinks")
    first, second = [
        [cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")]
        for row in browser.find_elements(By.CSS_SELECTOR, "#sinks-rows tr")
    ]
    assert first[:3] == ["crm", "http", "1,000,000 B, 2 min"]
    assert (first[3], first[5], first[6]) == ("7", "2", "waits: crm: 503")
    assert second[:4] == ["tables", "exec", "0", "12,000"]
    assert second[5:] == ["0", HOSTILE]
    assert browser.execute_script("return window.pwned") is None
    assert not complaints(browser)


def test_names_are_text_and_nothing_else(shown: ServedPage, browser: webdriver.Chrome) -> None:
    shown.do(lambda: shown.site.source(HOSTILE, site=HOSTILE))
    event = {"source": HOSTILE, "type": HOSTILE, "seq": 1, "ts": 1, "stream": "e"}
    lines = [a_result(1, query=HOSTILE, site=HOSTILE, events=[{**event, "attrs": {"a": HOSTILE}}])]
    shown.site.feed.publish(lines)
    browser.get(shown.url)
    see(browser, "tbody th", f"{HOSTILE}/{HOSTILE}")
    see(browser, "#results .what", HOSTILE)
    see(browser, "#clocks .name", HOSTILE)
    time.sleep(0.5)
    assert browser.execute_script("return typeof pwned") == "undefined"
    made = browser.find_elements(By.CSS_SELECTOR, "main img, main script")
    assert made == []
    assert complaints(browser) == []


def test_sources_sums_and_clocks(shown: ServedPage, browser: webdriver.Chrome) -> None:
    for place in range(3):
        shown.do(lambda place=place: shown.site.source(f"s{place}", offset=(place - 1) * S))
    browser.get(shown.url)
    see(browser, "#link", "live")
    see(browser, "tbody", "s2")
    see(browser, "#states", "3: 3 connected")
    see(browser, "#balance", "The sums agree. 9 in the log.")
    offsets = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "td[data-name=offset]")]
    assert [each.split(" ±")[0] for each in offsets] == [
        "\N{MINUS SIGN}1.00000 s",
        "0 µs",
        "1.000000 s",
    ]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#clocks svg polyline")) == 3
    shown.do(lambda: shown.site.source("late"))
    see(browser, "tbody", "late")


def test_headings_sort_by_keyboard(shown: ServedPage, browser: webdriver.Chrome) -> None:
    for place in range(3):
        shown.do(lambda place=place: shown.site.source(f"s{place}", events=place + 1))
    browser.get(shown.url)
    see(browser, "tbody", "s2")
    button = browser.find_element(By.CSS_SELECTOR, "th[data-name=events] button")
    browser.execute_script("arguments[0].focus()", button)
    button.send_keys(Keys.ENTER)
    see(browser, "tbody tr:first-child th", "s2")
    assert button.find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"
    button.send_keys(Keys.ENTER)
    see(browser, "tbody tr:first-child th", "s0")
    browser.find_element(By.ID, "find").send_keys("s1")
    until(lambda: len(browser.find_elements(By.CSS_SELECTOR, "tbody tr")) == 1, "one row", 20)
    browser.find_element(By.ID, "find").send_keys("nobody")
    see(browser, "#nothing", "No source has that in its name.")


def test_a_result_that_is_taken_back_is_struck_through(
    shown: ServedPage, browser: webdriver.Chrome
) -> None:
    shown.site.feed.publish([a_result(1), a_result(2, certainty="uncertain", probability=0.25)])
    browser.get(shown.url)
    see(browser, "#results .certainty", "uncertain 25 %")
    shown.site.feed.publish([a_result(1, "-")])
    see(browser, "#results .certainty", "taken back")
    lines = browser.find_elements(By.CSS_SELECTOR, "#results li .what")
    struck = [each.value_of_css_property("text-decoration-line") for each in lines]
    assert struck == ["none", "line-through"]
    # Inserted again, it stands.
    shown.site.feed.publish([a_result(1)])
    until(lambda: len(browser.find_elements(By.CSS_SELECTOR, "#results li")) == 3, "a line", 20)
    first = browser.find_element(By.CSS_SELECTOR, "#results li")
    assert first.get_attribute("data-taken") is None


def test_a_lost_connection_is_reported_and_nothing_is_shown_twice(
    shown: ServedPage, browser: webdriver.Chrome
) -> None:
    shown.site.feed.publish([a_result(n) for n in range(5)])
    browser.get(shown.url)
    see(browser, "#results-total", "the newest 5")
    shown.down()
    see(browser, "#link", "connection lost")
    shown.site.feed.publish([a_result(7)])
    shown.up()
    see(browser, "#link", "live")
    see(browser, "#results-total", "the newest 6")
    complaints(browser)  # that nobody answered for a while is reported there


def test_a_flood_of_results_keeps_the_page_small(
    shown: ServedPage, browser: webdriver.Chrome
) -> None:
    browser.get(shown.url)
    see(browser, "#link", "live")
    for turn in range(20):
        shown.site.feed.publish([a_result(turn * 1000 + n) for n in range(1000)])
        time.sleep(0.1)
    see(browser, "#results", "results were not shown; the list starts again here")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#results li")) <= 201


def test_many_sources_come_in_pages(shown: ServedPage, browser: webdriver.Chrome) -> None:
    shown.do(lambda: [shown.site.source(f"s{n:03}", events=1) for n in range(120)])
    browser.get(shown.url)
    see(browser, "#page", "page 1 of 3, 120 sources")
    assert len(browser.find_elements(By.CSS_SELECTOR, "tbody tr")) == 50
    see(browser, "#clocks-total", "Shown: the first 6 of the table, of 120.")
    browser.find_element(By.ID, "after").click()
    see(browser, "tbody tr:first-child th", "s050")


def test_the_token_is_asked_for(browser: webdriver.Chrome) -> None:
    shown = ServedPage(token=TOKEN)
    try:
        shown.do(lambda: shown.site.source("door"))
        browser.get(shown.url)
        see(browser, "#link", "token needed")
        assert not browser.find_element(By.TAG_NAME, "main").is_displayed()
        field = browser.find_element(By.ID, "token")
        field.send_keys("wrong", Keys.ENTER)
        see(browser, "#login-error", "That is not the token.")
        field.clear()
        field.send_keys(TOKEN, Keys.ENTER)
        see(browser, "tbody", "door")
        assert TOKEN not in browser.execute_script("return document.cookie + location.href")
        browser.refresh()
        see(browser, "tbody", "door")
    finally:
        complaints(browser)  # the refusal is reported there
        shown.close()


CONTRAST = """
const lum = (c) => {
  const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (!c.startsWith("rgba")) return c; // what fades, or is not there
  }
  return "rgb(255, 255, 255)";
};
const ratio = (e) => {
  const a = lum(getComputedStyle(e).color), b = lum(ground(e));
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
return [...document.querySelectorAll(
  "h1, h2, p, th, td span, dt, dd, .state, .certainty, .what, .query, time, button, label"
)].filter(e => e.offsetParent && e.textContent.trim() && !e.disabled && ratio(e) < 4.5)
  .map(e => [ratio(e), e.tagName, e.className, e.textContent]);
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_it_fits_and_can_be_read(
    shown: ServedPage, browser: webdriver.Chrome, width: int, scheme: str
) -> None:
    for name in ("door", "a-source-of-a-very-long-name-" + "x" * 60, "gone"):
        shown.do(lambda name=name: shown.site.source(name))
    shown.do(lambda: shown.site.core.disconnected("main/gone", shown.site.now))
    sink = SinkFigures(
        "crm" * 20, 7, dead=2, behind_bytes=10**9, waits="no answer" * 20, kind="http"
    )
    shown.site.overview.answers.sinks = [asdict(sink)]
    shown.site.feed.publish([a_result(1), a_result(2, certainty="uncertain"), a_result(1, "-")])
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        browser.get(shown.url)
        see(browser, "#results", "taken back")
        see(browser, "tbody", "away")
        see(browser, "#sinks-rows", "waits: no answer")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script(CONTRAST) == []
        unnamed = "return [...document.querySelectorAll('input, select, button')].filter(e => "
        unnamed += "!(e.labels && e.labels.length) && !e.textContent.trim()).length"
        assert browser.execute_script(unnamed) == 0
        assert complaints(browser) == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
