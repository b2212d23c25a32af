"""Who sees the page, and what stands on every answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.engine.core.errors import UserError
from slackwater.engine.server.page import web_server
from slackwater.engine.server.page.web_server import HEADERS, OPEN
from slackwater.engine.server.site_file import read_site
from tests.page.conftest import Site

TOKEN = "correct horse battery"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "WRONG_TOKEN_S", 0.01)


ALL = (*sorted(OPEN - {"/login"}), "/state", "/live", "/metrics", "/nothing", "/state?sort=wrong")


@pytest.mark.parametrize("path", ALL)
async def test_every_answer_has_the_policy(site: Site, path: str) -> None:
    async with site.client() as client, client.get(path) as answer:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    async with site.client(token=TOKEN) as client, client.get(path) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_nothing_is_loaded_from_elsewhere_and_no_script_stands_in_the_page() -> None:
    static = Path(__file__).parents[2] / "engine/server/page/static"
    for file in static.iterdir():
        text = file.read_text()
        text = text.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
        assert "http" not in text
        assert "//" not in text.replace("// ", "")
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
            assert word not in text
    page = (static / "page.html").read_text()
    assert page.count("<script") == page.count("<script src=")
    assert "style=" not in page
    assert " on" not in page.replace(" one", "").replace(" on ", "")


@pytest.mark.parametrize("path", ["/state", "/live", "/metrics"])
async def test_without_the_token_nothing_is_reported(site: Site, path: str) -> None:
    site.source("door")
    async with site.client(token=TOKEN) as client:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": ""},
            {"Authorization": "Bearer \xff"},
            {"Cookie": f"slackwater_{client.port}={TOKEN}"},
        ):
            answer = await client.get(path, headers=headers)
            assert answer.status == 401
            assert "door" not in await answer.text()
        good = await client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
        assert good.status == 200
        good.close()


async def test_what_needs_no_token_says_nothing_of_the_site(site: Site) -> None:
    site.source("a-secret-door")
    async with site.client(token=TOKEN) as client:
        for path in OPEN - {"/login"}:
            answer = await client.get(path)
            assert answer.status == 200
            assert "secret" not in await answer.text()


async def test_the_form_gives_a_cookie_that_is_not_the_token(site: Site) -> None:
    async with site.client(token=TOKEN) as client:
        assert (await client.post("/login", data={"token": "wrong"})).status == 403
        assert (await client.get("/state")).status == 401
        answer = await client.post("/login", data={"token": TOKEN})
        assert answer.status == 204
        reported = answer.headers["Set-Cookie"]
        assert "HttpOnly" in reported
        assert "SameSite=Strict" in reported
        assert TOKEN not in reported
        cookie = reported.split(";")[0]
        name, _, value = cookie.partition("=")
        assert (await client.get("/state", cookies={name: value})).status == 200
        assert (await client.get("/state", cookies={name: value[:-1]})).status == 401


async def test_a_large_form_is_refused(site: Site) -> None:
    async with site.client(token=TOKEN) as client:
        answer = await client.post("/login", data={"token": "x" * 100_000})
        assert answer.status == 413


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9751", "", "[::1", "127.0.0.1.evil"]
)
async def test_without_a_token_other_names_of_this_machine_are_refused(
    site: Site, host: str
) -> None:
    async with site.client() as client:
        assert (await client.get("/state", headers={"Host": host})).status in (400, 403)
        for good in ("localhost", "localhost:80", "127.0.0.1:9751", "[::1]:9751"):
            assert (await client.get("/state", headers={"Host": good})).status == 200
    async with site.client(token=TOKEN) as client:
        headers = {"Host": "my-gateway", "Authorization": f"Bearer {TOKEN}"}
        assert (await client.get("/state", headers=headers)).status == 200


async def test_health_and_readiness(site: Site) -> None:
    async with site.client() as client:
        assert (await client.get("/healthz")).status == 200
        assert (await client.get("/readyz")).status == 200
        site.fails = True
        site.source("door")
        assert (await client.get("/readyz")).status == 503
        assert (await client.get("/healthz")).status == 200
        site.fails = False
        site.later(10**10)
        assert (await client.get("/readyz")).status == 200


async def test_attack_02_and_03_readiness_is_of_the_answers_too(site: Site) -> None:
    """503 while nobody answers; a query that failed at one site does not end the service of all."""
    answers = site.overview.answers
    async with site.client(token=TOKEN) as client:
        answers.running = False
        reported = await client.get("/readyz")
        assert (reported.status, await reported.text()) == (
            503,
            "nobody answers the queries, for now\n",
        )
        assert (await client.get("/healthz")).status == 200
        answers.running = True
        answers.failed.append({"query": "q", "site": "evil", "reason": "secret", "version": "1"})
        reported = await client.get("/readyz")
        assert reported.status == 200
        text = await reported.text()
        assert "1 queries of sites have failed" in text
        assert "evil" not in text
        assert "secret" not in text
        headers = {"Authorization": f"Bearer {TOKEN}"}
        state = (await (await client.get("/state", headers=headers)).json())["answers"]
        assert state == {
            "running": True, "failed_total": 1,
            "failed": [{"query": "q", "site": "evil", "reason": "secret"}], "sinks": [],
        }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('listen = "0.0.0.0"', "[page] token: must be given, as others can reach 0.0.0.0"),
        ('listen = "::"', "[page] token: must be given"),
        ('listen = "::ffff:10.0.0.1"', "[page] token: must be given"),
        ('listen = "gateway"', "[page] token: must be given"),
        ('token = "short"', "[page] token: can be guessed: at least 12 characters"),
        ("tls = true", "[page] tls: needs the certificate and key of [tls]"),
        ("prot = 1", '[page] prot: no such setting; did you mean "port"?'),
    ],
)
def test_settings_that_are_wrong_are_reported(tmp_path: Path, text: str, reported: str) -> None:
    file = tmp_path / "site.toml"
    file.write_text(f'[gateway]\nlog = "l"\n[page]\n{text}\n')
    with pytest.raises(UserError) as caught:
        read_site(file)
    assert reported in str(caught.value)


def test_settings_of_the_page(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text('[gateway]\nlog = "l"\n')
    assert read_site(file).page is None
    # A socket of IPv6 that takes IPv4, too, hears of this machine by a mapped address.
    file.write_text('[gateway]\nlog = "l"\n[page]\nlisten = "::ffff:127.0.0.1"\n')
    assert read_site(file).page is not None
    file.write_text(f'[gateway]\nlog = "l"\n[page]\nlisten = "0.0.0.0"\ntoken = "{TOKEN}"\n')
    found = read_site(file)
    assert found.page is not None
    assert (found.page.listen, found.page.port) == ("0.0.0.0", 9751)
    assert TOKEN not in found.printed
    assert TOKEN not in repr(found.page)
