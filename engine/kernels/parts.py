"""A kernel as a part of those that call it: no machine code of its own.

Numba makes a kernel's callees ready to be called from Python, too: it optimises each, with all that
it calls, makes machine code of it, and a function that takes Python's objects. What is at the
bottom of a tower of ten kernels was so compiled ten times over: the windows' loop took 184 s, where
it now takes 36. A part is only translated; what Python calls is optimised once, with its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Flags, compile_extra


def as_part(function: Callable[..., Any], **options: bool) -> Any:
    """Numba's dispatcher of ``function``, which only kernels call."""
    return _dispatcher(function, _part, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def as_whole(function: Callable[..., Any], **options: bool) -> Any:
    """Numba's dispatcher of ``function``, which Python calls."""
    return _dispatcher(function, _whole, **options)


def _dispatcher(function: Callable[..., Any], compiled: Callable[..., Any], **options: bool) -> Any:
    made = numba.njit(error_model="numpy", **options)(function)
    compiler = made._compiler  # noqa: SLF001 - there is no public way
    core = compiler._compile_core  # noqa: SLF001 - likewise
    compiler._compile_core = partial(compiled, compiler, core)  # noqa: SLF001
    return made


def _part(compiler: Any, _core: Callable[..., Any], arguments: Any, result: Any) -> Any:
    """What a dispatcher's ``compiler`` makes of its function, as a part."""
    flags, target = Flags(), compiler.targetdescr
    target.options.parse_as_flags(flags, compiler.targetoptions)
    library = _Part(target.target_context.codegen(), compiler.py_func.__qualname__)
    return compile_extra(
        target.typing_context, target.target_context, compiler.py_func, arguments, result,
        flags, compiler.locals, library, compiler.pipeline_class,
    )  # fmt: skip


def _whole(_compiler: Any, core: Callable[..., Any], arguments: Any, result: Any) -> Any:
    """What Numba's own ``core`` makes of a function, which knows its parts' constants."""
    made = core(arguments, result)
    for environment in made._find_referenced_environments():  # noqa: SLF001 - no public way
        made.library.codegen.set_env(environment.env_name, environment)
    return made


class _Part(JITCodeLibrary):  # type: ignore[misc]  # numba is not checked here
    """A library that only others are made of."""

    @property
    def codegen(self) -> _Nowhere:
        return _Nowhere()

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - Numba's
        """0: it has no machine code."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        """Whoever it is part of is optimised."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Nowhere:
    """Takes the place of what makes machine code."""

    def set_env(self, name: str, environment: Any) -> None:
        """``_whole`` does, once there is machine code."""
