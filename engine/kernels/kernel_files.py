"""Files of compiled kernels, each with a checksum before it: a damaged one is compiled anew.

Numba's own have none: it unpickles what is there, and runs it. A bit that has turned over is then a
traceback, another answer, or the end of the process.
"""

from __future__ import annotations

import pickle
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from numba.core.caching import Cache, IndexDataCacheFile

from engine.cache_home import own_bytes

_DIGEST: Final = 32


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
        super().__init__(str(folder or cache.cache_path), implementation.filename_base, stamp)

    def _load_index(self) -> dict[Any, str]:
        content = _unsealed(Path(self._index_path))
        if content is None:
            return {}
        version, stamp, overloads = pickle.loads(content)  # noqa: S301 - our own, and whole
        fresh = (version, stamp) == (self._version, self._source_stamp)
        return dict(overloads) if fresh else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._save(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        """Raises ``FileNotFoundError``, as Numba expects it, if there is nothing to rely on."""
        path = Path(self._data_path(name))
        content = _unsealed(path)
        if content is None:
            raise FileNotFoundError(path)
        return pickle.loads(content)  # noqa: S301 - our own, and whole

    def _save_data(self, name: str, data: Any) -> None:
        self._save(self._data_path(name), data)

    def _save(self, path: str, data: Any) -> None:
        content = self._dump(data)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with self._open_for_write(path) as file:
            file.write(_digest(content))
            file.write(content)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST).digest()


def _unsealed(path: Path) -> bytes | None:
    """The file's content; None: absent, another's, or damaged."""
    whole = own_bytes(path)
    if whole is None or _digest(whole[_DIGEST:]) != whole[:_DIGEST]:
        return None
    return whole[_DIGEST:]
