"""Encrypted connections: who has which certificate, and what is told when it is the wrong one."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.live.conftest import Field, free_port

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="certificates are made with openssl"
)
SERVER = '[tls]\ncertificate = "gateway.pem"\nkey = "gateway.key"\n'
AGENT = '[tls]\non = true\nauthorities = "ca.pem"\n'
DEVICE = 'certificate = "device.pem"\nkey = "device.key"\n'


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def authority(folder: Path, name: str) -> None:
    openssl(
        folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
        f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
    )  # fmt: skip


def certificate(folder: Path, name: str, ca: str) -> None:
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    openssl(
        folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
        "-keyout", f"{name}.key", "-out", f"{name}.csr",
    )  # fmt: skip
    openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key",
        "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem",
    )  # fmt: skip


@pytest.fixture(name="tls")
def _tls(field: Field) -> Field:
    authority(field.folder, "ca")
    certificate(field.folder, "gateway", "ca")
    certificate(field.folder, "device", "ca")
    return field


def test_a_device_with_its_certificate_is_admitted(tls: Field) -> None:
    tls.site(SERVER + 'clients = "ca.pem"\n')
    gateway = tls.serve()
    assert "(TLS)" in gateway.text
    door = tls.agent_file("door", tls.replay("d.jsonl", range(500)), AGENT + DEVICE)
    agent = tls.start("agent", "--config", door)
    assert agent.end(None) == 0, agent.text
    assert gateway.end() == 0
    assert tls.values("door") == list(range(500))


def test_a_device_without_a_certificate_is_not(tls: Field) -> None:
    tls.site(SERVER + 'clients = "ca.pem"\n')
    gateway = tls.serve()
    door = tls.agent_file("door", tls.replay("d.jsonl", range(5)), AGENT)
    agent = tls.start("agent", "--config", door)
    time.sleep(1.0)
    assert agent.end() == 1
    assert "certificate required" in agent.text.lower() or "closed the connection" in agent.text
    assert gateway.end() == 0
    assert not list((tls.folder / "site.log").glob("*.parquet"))


def test_the_page_is_encrypted_and_asks_browsers_for_no_certificate(tls: Field) -> None:
    page = free_port()
    tls.site(f'{SERVER}clients = "ca.pem"\n[page]\nport = {page}\ntls = true\n')
    gateway = tls.serve()
    gateway.says(f"page at https://127.0.0.1:{page}/")
    trusts = ssl.create_default_context(cafile=tls.folder / "ca.pem")
    with urlopen(f"https://127.0.0.1:{page}/healthz", timeout=20, context=trusts) as answer:
        assert answer.read() == b"alive\n"
    with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urlopen(f"https://127.0.0.1:{page}/healthz", timeout=20)
    assert gateway.end() == 0


def test_a_gateway_of_another_authority_is_not_believed(tls: Field) -> None:
    authority(tls.folder, "other")
    tls.site(SERVER)
    tls.serve()
    more = '[tls]\non = true\nauthorities = "other.pem"\n'
    agent = tls.start(
        "agent", "--config", tls.agent_file("door", tls.replay("d.jsonl", range(5)), more)
    )
    agent.says("certificate verify failed")
    assert agent.end() == 1


def test_a_certificate_that_is_not_there_is_told(field: Field) -> None:
    field.site(SERVER)
    gateway = field.start("serve", "--config", "site.toml", "--check")
    assert gateway.end(None) == 2
    assert "gateway.pem" in gateway.text
    agent = field.start(
        "agent", "check", field.agent_file("door", '[[input]]\nkind = "stdin"', AGENT)
    )
    assert agent.end(None) == 2
    assert "ca.pem: No such file" in agent.text
