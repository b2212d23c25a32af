"""Files of compiled kernels, each with a checksum before it: a damaged one is compiled anew.

Numba's own have none: it unpickles what is there, and runs it. A bit that has turned over is then a
traceback, another answer, or the end of the process.

Numba keeps a kernel twice: as machine code, which is run, and as bitcode, of which it would make a
kernel that calls it, and which takes longer to read than all the rest. Ours are made of parts
(``engine.kernels.parts``), so nothing is left of the bitcode but the names in it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core.caching import Cache, IndexDataCacheFile

from engine.kernels.sealed import sealed_bytes, unsealed


class SealedFiles(IndexDataCacheFile):  # type: ignore[misc]  # numba is not checked here
    """Takes the place of ``cache``'s files.

    Args:
        cache: of one kernel.
        folder: named after all that the kernel is compiled from. Checkouts and environments with
            the same sources share it: Numba's own folders and stamps hang on a file's path and
            time. None: as Numba has it.
    """

    def __init__(self, cache: Cache, folder: Path | None) -> None:
        implementation = cache._impl  # noqa: SLF001 - there is no public way
        stamp = folder.name if folder else implementation.locator.get_source_stamp()
        self._code = b""
        super().__init__(str(folder or cache.cache_path), implementation.filename_base, stamp)

    def _load_index(self) -> dict[Any, str]:
        content = unsealed(Path(self._index_path))
        if content is None:
            return {}
        version, stamp, overloads = pickle.loads(content)  # noqa: S301 - our own, and whole
        fresh = (version, stamp) == (self._version, self._source_stamp)
        return dict(overloads) if fresh else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        index = self._version, self._source_stamp, overloads
        self._write(self._index_path, self._dump(index))

    def overload(self, load: Callable[..., Any], *signature: Any) -> Any:
        """What Numba's ``load`` makes of these files; None: they have nothing for ``signature``."""
        found = load(*signature)
        if found is not None:
            # Loading has dropped it, and there is no public way.
            found.library._compiled_object = self._code  # noqa: SLF001
        return found

    def _load_data(self, name: str) -> Any:
        """Raises ``FileNotFoundError``, as Numba expects it, if there is nothing to rely on."""
        path = Path(self._data_path(name))
        content = unsealed(path)
        if content is None:
            raise FileNotFoundError(path)
        data = pickle.loads(content)  # noqa: S301 - our own, and whole
        (_, _, (self._code, _)), *_ = data
        return data

    def _save_data(self, name: str, data: Any) -> None:
        (library, kind, (code, bitcode)), *others = data
        kept = (library, kind, (code, _names_of(bitcode))), *others
        self._write(self._data_path(name), self._dump(kept))

    def _write(self, path: str, content: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with self._open_for_write(path) as file:
            file.write(sealed_bytes(content))


def _names_of(bitcode: bytes) -> bytes:
    """Bitcode with the same functions, none of which does anything but stop the process: Numba
    asks a kernel's bitcode for the names that its machine code has.
    """
    names, nothing = ir.Module(), ir.FunctionType(ir.VoidType(), ())
    trap = names.declare_intrinsic("llvm.trap", (), nothing)
    for function in llvm.parse_bitcode(bitcode).functions:
        if not function.is_declaration:
            block = ir.Function(names, nothing, function.name).append_basic_block()
            inside = ir.IRBuilder(block)
            inside.call(trap, ())
            inside.unreachable()
    return bytes(llvm.parse_assembly(str(names)).as_bitcode())
