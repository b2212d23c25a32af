"""A text that identifies settings: the same in every process, and different for other settings.

``repr`` is no such text: that of a set depends on the process, that of a function is its address.
"""

from __future__ import annotations

import copyreg
import enum
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any, Final

from msgspec import Struct

from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain.operators import ChainSettings

_VERSION: Final = "slackwater settings 2"
"""The number is raised when equal settings get another text."""
_PROTOCOL: Final = 2


def identity_of(settings: ChainSettings) -> str:
    """The text is equal if a chain with these settings may continue a saved state.

    A function is identified by its module, name, code and closure; functions that it calls, by
    name.

    Raises:
        UserError: a dataflow has an object that cannot be identified in another process.
    """
    return f"{_VERSION}\n{_SettingsText().of(settings)}"


class _SettingsText:
    """Text of one value and of everything in it."""

    def __init__(self) -> None:
        self._within: list[Any] = []

    def of(self, value: Any) -> str:
        if isinstance(value, enum.Enum):
            return f"{type(value).__qualname__}.{value.name}"
        if value is None or value is ... or isinstance(value, bool | int | float | str | bytes):
            return repr(value)
        if isinstance(value, type):
            return _name_of(value)
        parts = _parts(value)
        if parts is not None:
            text = ", ".join(f"{name}={self.of(part)}" for name, part in parts)
            return f"{type(value).__qualname__}({text})"
        if isinstance(value, Mapping):
            items = value.items()
            return "{" + ", ".join(f"{self.of(key)}: {self.of(of)}" for key, of in items) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(map(self.of, value)) + "]"
        if isinstance(value, set | frozenset):
            return "{" + ", ".join(sorted(map(self.of, value))) + "}"
        if any(each is value for each in self._within):
            return "itself"
        self._within.append(value)
        text = self._of_object(value)
        self._within.pop()
        return text

    def _of_object(self, value: Any) -> str:
        """Text of an object that may refer to itself."""
        if isinstance(value, CodeType):
            return self._code(value)
        value = getattr(value, "py_func", value)  # the function of a Numba kernel
        if isinstance(value, FunctionType):
            parts = (value.__code__, value.__defaults__, value.__kwdefaults__, _closed_over(value))
            return f"{_name_of(value)} {sha256(self.of(parts).encode()).hexdigest()[:24]}"
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            made_of = reduce(value) if reduce else value.__reduce_ex__(_PROTOCOL)
        except TypeError as error:
            raise UserError(
                f"the functions of a dataflow hold a value of type {type(value).__qualname__}, "
                f"which no restart can know again ({error}): let them make it, or name it at the "
                "top of their module"
            ) from error
        if isinstance(made_of, str):
            return f"{value.__module__}.{made_of}"
        return f"{self.of(made_of[0])}{self.of([_as_list(part) for part in made_of[1:]])}"

    def _code(self, code: CodeType) -> str:
        """Text of a code object without its file and lines."""
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        return self.of((code.co_code, code.co_exceptiontable, names, counts, code.co_consts))


def _parts(value: Any) -> Iterable[tuple[str, Any]] | None:
    """Names and values of fields, without those that are computed from others; None: no fields."""
    if is_dataclass(value):
        return [(each.name, getattr(value, each.name)) for each in fields(value) if each.repr]
    if isinstance(value, Struct):
        return [(name, getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return zip(value._fields, value, strict=True)
    return None


def _closed_over(function: FunctionType) -> list[Any]:
    return [_content(cell) for cell in function.__closure__ or ()]


def _content(cell: Any) -> Any:
    """Return the content of a closure's cell; Ellipsis: it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return ...


def _as_list(part: Any) -> Any:
    """Iterators of ``__reduce_ex__`` as lists."""
    return list(part) if hasattr(part, "__next__") else part


def _name_of(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
