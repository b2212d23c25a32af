"""Writes the versions that are installed, each with the hashes of its files, by uv.

constraints.txt is for development, the two lists beside the Dockerfiles are for the images. A
version stays as it is while pyproject.toml allows it; ``--upgrade NAME`` lets one go, or all of
them with ``--upgrade ''``. Needs uv: ``pip install uv``.
"""

from __future__ import annotations

import argparse
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = "docs/samples/containers"
EXTRAS = {
    "constraints.txt": ["--all-extras"],
    f"{IMAGES}/agent.txt": [],
    f"{IMAGES}/gateway.txt": ["--extra", "engine", "--extra", "page"],
}
"""By file, what of pyproject.toml it pins; what builds the package goes with each."""


def main() -> None:
    """Writes the files; the images' versions are those of development."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", metavar="NAME", help="take its newest version; '': of all")
    name = parser.parse_args().upgrade
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    build = "\n".join(project["build-system"]["requires"])
    newest = [] if name is None else ["--upgrade-package", name] if name else ["--upgrade"]
    for file, extras in EXTRAS.items():
        chosen = newest if file == "constraints.txt" else ["--constraints", "constraints.txt"]
        subprocess.run(
            [
                "uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11",
                "--generate-hashes", "--no-annotate", "--no-header", "--output-file", file,
                *chosen, *extras, "pyproject.toml", "-",
            ],
            cwd=ROOT, input=build, text=True, check=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
