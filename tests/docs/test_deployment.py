"""Containers and systemd units of docs/samples: what they name is there, and what they start runs.

No image is built here (COPY and RUN were tried in a chroot of Debian, by hand): the steps of a
Dockerfile are read, and its programs run from a folder that has what it copies and nothing else of
this checkout.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from slackwater.edge_agent.drivers.metrics import PORT as METRICS_PORT
from slackwater.engine.server.site_file import PAGE_PORT, PORT
from tests.live.conftest import free_port, until

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "docs/samples"
CONTAINERS = SAMPLES / "containers"
_READ = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = _READ["project"], _READ["build-system"]["requires"]
SLACKWATER = ["-c", "from slackwater.edge_agent.entry import main; main()"]
PROGRAMS = {"python": [sys.executable, "-S"], "slackwater": [sys.executable, "-S", *SLACKWATER]}


def steps(name: str) -> list[tuple[str, str]]:
    """Instruction and the rest of each step, on one line."""
    text = (CONTAINERS / f"Dockerfile.{name}").read_text()
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def pins(path: Path) -> dict[str, str]:
    """By name, the version; each has the hashes of its files."""
    found = {}
    for entry in re.split(r"\n(?! )", path.read_text().strip()):
        pin = re.fullmatch(
            r"([\w-]+)==([\w.]+)[^\\]*(?:\\\n +--hash=sha256:[0-9a-f]{64} ?)+", entry
        )
        assert pin is not None, entry
        found[canonicalize_name(pin[1])] = pin[2]
    return found


def step(name: str, instruction: str) -> str:
    (found,) = (rest for word, rest in steps(name) if word == instruction)
    return found


@pytest.fixture(name="copied", params=["agent", "gateway"])
def _copied(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A folder with what the Dockerfile copies."""
    for word, rest in steps(request.param):
        if word == "COPY":
            *sources, _build = rest.split()
            for source in sources:
                path = ROOT / source
                if path.is_dir():  # a link to a folder that is not copied leads nowhere
                    shutil.copytree(path, tmp_path / path.name, symlinks=True)
                else:
                    shutil.copy(path, tmp_path / path.name)
    return request.param, tmp_path


def environment(copied: Path) -> dict[str, str]:
    """With ``-S``: the packages of this environment, and of ours only those that were copied."""
    path = f"{copied}{os.pathsep}{sysconfig.get_paths()['purelib']}"
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def test_what_is_copied_is_what_is_installed(copied: tuple[str, Path]) -> None:
    name, folder = copied
    assert {PROJECT["readme"], *PROJECT["license-files"]} <= {
        path.name for path in folder.iterdir()
    }
    installs = re.findall(r"pip install --no-cache-dir ([^&]*?)(?= &&)", step(name, "RUN"))
    assert installs == [
        f"--require-hashes -r /build/{name}.txt", "--no-deps --no-build-isolation /build",
    ]  # fmt: skip
    optional = PROJECT["optional-dependencies"]
    extras = optional["engine"] + optional["page"] if name == "gateway" else []
    wanted = {Requirement(each).name for each in PROJECT["dependencies"] + extras + BUILD}
    pinned = pins(folder / f"{name}.txt")
    assert {canonicalize_name(each) for each in wanted - {"slackwater"}} <= pinned.keys()
    assert name == "gateway" or len(pinned) == len(wanted)  # a device gets no more
    together = pins(ROOT / "constraints.txt")
    assert pinned.items() <= together.items()  # of versions that were tried together
    low, image = re.search(r">=3\.(\d+)", PROJECT["requires-python"]), step(name, "FROM")
    assert low is not None
    assert int(image.partition("3.")[2].partition("-")[0]) >= int(low[1])


PRIVATE_NAMES = ("numba", "llvmlite", "pyspark")
"""Libraries of which engine/ uses private names."""


def test_pins_lie_within_the_ranges_and_private_names_have_a_ceiling() -> None:
    """Both what `make setup` takes and what pip takes by itself."""
    pinned = pins(ROOT / "constraints.txt")
    extras = PROJECT["optional-dependencies"].values()
    wanted = [Requirement(each) for each in (*PROJECT["dependencies"], *BUILD, *chain(*extras))]
    for each in wanted:
        if each.name != "slackwater":
            assert pinned[canonicalize_name(each.name)] in each.specifier, each
        if each.name in PRIVATE_NAMES:
            assert any(bound.operator == "<" for bound in each.specifier), each
    assert set(PRIVATE_NAMES) <= {each.name for each in wanted}


def test_attack2_the_script_of_an_image_needs_no_more_than_is_copied(
    copied: tuple[str, Path],
) -> None:
    """``slackwater`` as pip writes it, of what the image has."""
    name, folder = copied
    module, _, called = PROJECT["scripts"]["slackwater"].partition(":")
    script = f"import sys; from {module} import {called}; sys.exit({called}())"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-c", script, *words], check=False, capture_output=True,
            text=True, cwd=folder, env=environment(folder),
        )  # fmt: skip

    reported = run("agent", "--help")
    assert (reported.returncode, reported.stderr) == (0, "")
    assert run("--help").returncode == run("--version").returncode == 0
    if name == "agent":
        said = "slackwater: this needs engine; type: pip install 'slackwater[engine]'\n"
        assert (run("query").returncode, run("query").stderr) == (1, said)


@pytest.mark.slow
def test_agent_and_gateway_of_the_containers_work(copied: tuple[str, Path]) -> None:
    """Each with its own settings; ports and /data are those of this test."""
    name, folder = copied
    kind = "agent" if name == "agent" else "site"
    words = [*json.loads(step(name, "ENTRYPOINT")), *json.loads(step(name, "CMD"))]
    assert words[-2:] == ["--config", f"/etc/slackwater/{kind}.toml"]
    words = [*PROGRAMS[words[0]], *words[1:-1], str(folder / f"{kind}.toml")]
    port, web_port = free_port(), free_port()
    text = (CONTAINERS / f"{kind}.toml").read_text().replace('"/data/', f'"{folder}/')
    text = text.replace('host = "gateway"', f'host = "127.0.0.1"\nport = {port}')
    text = text.replace("[gateway]\nlisten", f"[gateway]\nport = {port}\nlisten")
    text = re.sub(r"(\[(?:metrics|page)\].*\n)", rf"\1port = {web_port}\n", text)
    (folder / f"{kind}.toml").write_text(text)
    word, _, check = step(name, "HEALTHCHECK").partition("CMD ")
    assert "--interval" in word
    health = json.loads(check)
    assert health[0] == "python"
    ast.parse(health[2])
    own = str(METRICS_PORT if name == "agent" else PAGE_PORT)
    assert own in health[2]
    healthy = [sys.executable, "-S", health[1], health[2].replace(own, str(web_port))]
    running = subprocess.Popen(words, cwd=folder, env=environment(folder), stderr=subprocess.PIPE)
    try:
        until(lambda: subprocess.run(healthy, capture_output=True, check=False).returncode == 0
              or running.poll() is not None, "health")  # fmt: skip
    finally:
        running.terminate()
        _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said.decode()
    assert (folder / ("outbox" if name == "agent" else "site.log")).is_dir()


def test_compose_names_what_is_there() -> None:
    text = (CONTAINERS / "compose.yaml").read_text()
    contexts = re.findall(r"context: (\S+)\s+dockerfile: (\S+)", text)
    assert [(CONTAINERS / context / file).is_file() for context, file in contexts] == [True, True]
    assert {(CONTAINERS / context).resolve() for context, _ in contexts} == {ROOT}
    for mine, inside in re.findall(r"- (\./\S+?):(\S+?):ro", text):
        name = "gateway" if "site" in mine else "agent"
        assert (CONTAINERS / mine).is_file()
        assert inside == json.loads(step(name, "CMD"))[-1]
    ports = set(step("gateway", "EXPOSE").split())
    assert ports == {f"{PORT}/tcp", f"{PORT}/udp", f"{PAGE_PORT}/tcp"}
    assert set(re.findall(r'"(?:[\d.]+:)?\d+:(\d+/\w+)"', text)) == ports
    named = set(re.findall(r"^  (\w+):$", text.partition("\nvolumes:")[2], re.MULTILINE))
    assert named == set(re.findall(r"- (\w+):/data$", text, re.MULTILINE))
    site = tomllib.loads((CONTAINERS / "site.toml").read_text())
    agent = tomllib.loads((CONTAINERS / "agent.toml").read_text())
    assert site["tokens"][f"main/{agent['agent']['source']}"] == agent["agent"]["token"]
    assert f"\n  {agent['gateway']['host']}:\n" in text


OTHER = 54321
"""A user without rights."""


@pytest.fixture(name="machine")
def _machine() -> Iterator[Path]:
    """A folder that such a user can look into."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), [("agent", "agent.toml"), ("gateway", "site.toml")])
def test_attack2_the_documented_installation_starts(
    name: str, settings: str, machine: Path
) -> None:
    """Settings as docs/deploy.md installs them; the program as the unit starts it, which hands
    the account of the service copies of what it names.
    """
    unit = (SAMPLES / f"slackwater-{name}.service").read_text()
    installed = re.search(
        rf"sudo install -D -m (\d+) {settings} (/etc/slackwater/{settings})",
        (ROOT / "docs/deploy.md").read_text(),
    )
    assert installed is not None
    port, mode = free_port(), int(installed[1], 8)
    text = (SAMPLES / settings).read_text().replace("port = 9750", f"port = {port}")
    text = re.sub(r'"(status.json|site.log|answers)"', rf'"{machine}/lib/\1"', text)
    text += f"\n[metrics]\nport = {port}\n" if name == "agent" else ""
    etc, handed, lib = (machine / each for each in ("etc", "handed", "lib"))
    for folder, owner in ((etc, 0), (handed, OTHER), (lib, OTHER)):
        folder.mkdir(mode=0o755)
        own(folder, owner)
    (etc / settings).touch(mode)
    (etc / settings).write_text(text)
    for copy, source in re.findall(
        r"^LoadCredential=(\S+?):/etc/slackwater/(\S+)$", unit, re.MULTILINE
    ):
        shutil.copy(etc / source, handed / copy)
        own(handed / copy, OTHER)
    (command,) = re.findall(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)
    command = command.replace("${CREDENTIALS_DIRECTORY}", str(handed))
    words = [sys.executable, *SLACKWATER, *command.replace("/etc/slackwater", str(etc)).split()]
    as_other = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"]
    running = subprocess.Popen(
        [*(as_other if os.geteuid() == 0 else []), *words], cwd=lib, stdin=subprocess.PIPE,
        stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(lib)},
    )  # fmt: skip
    try:
        until(lambda: answers(port) or running.poll() is not None, "the service")
        assert running.poll() is None, running.communicate()[1].decode()
    finally:
        running.terminate()
        running.communicate(timeout=60)
    assert (lib / ("status.json" if name == "agent" else "site.log")).exists()


def own(path: Path, owner: int) -> None:
    if os.geteuid() == 0:
        os.chown(path, owner, owner)


def answers(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("name", ["slackwater-agent", "slackwater-gateway"])
def test_units_are_right(name: str, tmp_path: Path) -> None:
    text = (SAMPLES / f"{name}.service").read_text()
    assert text.startswith(f"# /etc/systemd/system/{name}.service\n")
    program, *words = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)[0].split()
    assert Path(program).name in PROJECT["scripts"]
    assert words[-2] == "--config"
    sample = tmp_path / Path(words[-1]).name
    shutil.copy(SAMPLES / sample.name, sample)
    check = ["agent", "check"] if words[0] == "agent" else ["serve", "--check", "--config"]
    subprocess.run(
        [sys.executable, *SLACKWATER, *check, str(sample)], check=True, capture_output=True
    )
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("no systemd-analyze, which reads units, on this machine")
    unit = tmp_path / f"{name}.service"
    unit.write_text(text.replace(program, sys.executable))
    read = subprocess.run(
        [verify, "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert f"{name}.service:" not in read.stderr, read.stderr


def test_alarms_are_of_metrics_that_are_there_and_are_explained() -> None:
    text = (SAMPLES / "alerts.yml").read_text()
    names = re.findall(r"- alert: (\w+)", text)
    page = (ROOT / "docs/operations.md").read_text()
    assert re.findall(r"^\| `([A-Z]\w+)` \|", page, flags=re.MULTILINE) == names
    known = set(re.findall(r"`(slackwater_\w+)`", (ROOT / "docs/reference/metrics.md").read_text()))
    used = set(re.findall(r"slackwater_\w+", text))
    assert used
    assert used <= known


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here (of prometheus)")
def test_prometheus_understands_the_alarms() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", str(SAMPLES / "alerts.yml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "13 rules found" in done.stdout
