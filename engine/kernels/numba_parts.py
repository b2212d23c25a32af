"""Parts of Numba that are used without the rest of it, which takes 0.2 s to import."""

from __future__ import annotations

import sysconfig
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def version() -> bytes:
    """The file that says which Numba is installed.

    Raises:
        ImportError: none is.
    """
    return (_folder() / "_version.py").read_bytes()


@cache
def extension(name: str) -> ModuleType:
    """A library in C of Numba's.

    Raises:
        ImportError: it is not there.
    """
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    path = _folder() / f"{name.replace('.', '/')}{suffix}"
    loader = ExtensionFileLoader(f"numba.{name}", str(path))
    spec = spec_from_file_location(f"numba.{name}", path, loader=loader)
    if spec is None:
        raise ImportError(f"no library in {path}", name=f"numba.{name}")
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@cache
def _folder() -> Path:
    found = find_spec("numba")
    if found is None or not found.submodule_search_locations:
        raise ImportError("Numba is not installed", name="numba")
    return Path(found.submodule_search_locations[0])
