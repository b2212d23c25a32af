"""Compiled kernels called without Numba, which takes 0.2 s to import and more to get ready.

What is kept of a kernel is the machine code that Numba made for one kind of arguments. In it is the
function that Numba itself calls, which takes Python's objects and checks them; it needs no more of
Numba than two small libraries in C, and LLVM to put the code in its place. Which code fits which
arguments is decided here, by their types, and as strictly: another kind is another file.

A file that is damaged, of another processor or of other sources is not found, and code that needs
what only all of Numba has is not kept: such kernels go Numba's way.
"""

from __future__ import annotations

import builtins
import ctypes
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import FunctionType
from typing import Any, Final, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from engine.kernels.numba_parts import extension
from engine.kernels.sealed import sealed_bytes, unsealed

_SYMBOLS: Final = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"),
     ("size", "<u8")]
)  # fmt: skip
"""A row of a table of symbols (ELF, 64 bits)."""
_loading: Final = threading.Lock()
_loaded: Final[dict[Path, Callable[..., Any]]] = {}


class _Kept(NamedTuple):
    """What a file holds, besides the machine code.

    Attributes:
        entry: the name of the function that takes Python's objects.
        constants: of Python, that the code uses, by the name of the variable with their place.
    """

    entry: str
    constants: tuple[tuple[str, tuple[Any, ...]], ...]


def kept_as(function: FunctionType, kinds: object) -> str | None:
    """The name of the file for ``function`` of arguments of these kinds; None: it has none.

    It tells apart processors, too, as a home may be shared.
    """
    if function.__closure__ or function.__defaults__:
        return None
    made_for = f"{sys.version} {_processor()} {kinds}"
    digest = blake2b(made_for.encode(), digest_size=12).hexdigest()
    line = function.__code__.co_firstlineno
    return f"{function.__module__}.{function.__qualname__}-{line}.{digest}.code"


@cache
def _processor() -> str:
    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


def read(function: FunctionType, path: Path) -> Callable[..., Any] | None:
    """The kernel whose machine code ``path`` holds; None: it holds none to rely on."""
    content = unsealed(path)
    if content is None:
        return None
    length = int.from_bytes(content[:8], "big")
    kept = _Kept(*pickle.loads(memoryview(content)[8 : 8 + length]))  # noqa: S301 - our own, whole
    with _loading:
        if path in _loaded:  # by another thread, just now: LLVM takes each name once
            return _loaded[path]
        engine, make = _engine(), extension("_dynfunc")
        engine.add_object_file(llvm.ObjectFileRef.from_data(content[8 + length :]))
        engine.finalize_object()
        own = None
        for name, constants in kept.constants:
            environment = make.Environment(function.__globals__)
            environment.consts.extend(constants)
            _set(engine.get_global_value_address(name), environment)
            own = own or environment
        entry = engine.get_function_address(kept.entry)
        module = sys.modules[function.__module__]
        made: Callable[..., Any] = make.make_function(
            module, function.__name__, "compiled by Numba", entry, own, None
        )
        _loaded[path] = made
    return made


def keep(overload: Any, path: Path) -> None:
    """Keep what Numba compiled, unless it needs more of Numba than is at hand without it.

    Args:
        overload: Numba's result of compiling.
        path: the file.
    """
    library, own = overload.library, overload.environment
    if overload.objectmode or overload.lifted or overload.reload_init:
        return
    code = library._get_compiled_object()  # noqa: SLF001 - there is no public way
    needed = _undefined(code)
    if needed is None or not all(map(_is_at_hand, needed)):
        return
    referenced = overload.referenced_envs  # None if compiled just now
    if referenced is None:
        referenced = overload._find_referenced_environments()  # noqa: SLF001 - likewise
    others = [one for one in referenced if one.env_name != own.env_name]
    constants = tuple((one.env_name, tuple(one.consts)) for one in (own, *others))
    kept = pickle.dumps(tuple(_Kept(overload.fndesc.llvm_cpython_wrapper_name, constants)))
    content = len(kept).to_bytes(8, "big") + kept + code
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(sealed_bytes(content))
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)


def _undefined(code: bytes) -> list[str] | None:
    """Names of what machine code needs from elsewhere; None: it is not in a form that we read."""
    tables = {one.name(): one.data() for one in llvm.ObjectFileRef.from_data(code).sections()}
    try:
        symbols = np.frombuffer(tables[b".symtab"], _SYMBOLS)
        names = tables[b".strtab"]
    except KeyError:
        return None
    begins = symbols["name"][(symbols["section"] == 0) & (symbols["name"] > 0)]
    return [names[at : names.index(0, at)].decode() for at in begins.tolist()]


def _is_at_hand(name: str) -> bool:
    return name in _addresses() or hasattr(ctypes.CDLL(None), name)


@cache
def _engine() -> Any:
    """What puts machine code in its place; it knows what Numba's code is used to find."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name, address in _addresses().items():
        llvm.add_symbol(name, address)
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@cache
def _addresses() -> dict[str, int]:
    """Of all that Numba's machine code may call, by name, as Numba has it."""
    found = dict(_exceptions())
    found["_Py_NoneStruct"] = id(None)
    for library in (extension("_helperlib"), extension("_dynfunc")):
        found |= {f"numba_{name}": at for name, at in library.c_helpers.items()}
    found["numba_unpickle"] = ctypes.cast(_UNPICKLE, ctypes.c_void_p).value or 0
    runtime = extension("core.runtime._nrt_python").c_helpers
    return found | {name if name[0] == "_" else f"NRT_{name}": at for name, at in runtime.items()}


def _unpickle(data: int, length: int, _digest: int) -> Any:
    """An object that compiled code uses, as the class of a named tuple or an error that it raises.

    Numba's own function for this, in its place, imports all of Numba.
    """
    return _unpickled(ctypes.string_at(data, length))


_UNPICKLE: Final = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
)(_unpickle)


@cache
def _unpickled(content: bytes) -> Any:
    return pickle.loads(content)  # noqa: S301 - a part of our own code


def _exceptions() -> Iterator[tuple[str, int]]:
    for one in vars(builtins).values():
        if isinstance(one, type) and issubclass(one, BaseException):
            yield f"PyExc_{one.__name__}", id(one)


def _set(address: int, value: object) -> None:
    """The variable of compiled code at ``address`` is ``value``, which stays for good."""
    _held.append(value)
    ctypes.c_void_p.from_address(address).value = id(value)


_held: Final[list[object]] = []
