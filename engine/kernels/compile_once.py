"""A kernel is compiled once, with all that it calls: what this takes of Numba's private names.

Numba optimises each callee with all that it calls, and makes machine code of it: what ten kernels
in a row call is compiled ten times over (the loop of windows: 184 s, 36 s this way). Here a callee
is translated only, and optimised where it is used.

Tried with Numba 0.68.1 and llvmlite 0.50.0 (pyproject.toml has ceilings). With another version, or
with ``SLACKWATER_PLAIN_NUMBA=1``, plain ``numba.njit`` gives the same results, later.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import numba

TRIED: Final = "0.68."


@cache
def is_plain() -> bool:
    """Whether kernels are compiled by public interfaces alone."""
    wanted = os.environ.get("SLACKWATER_PLAIN_NUMBA") != "1"
    return not (wanted and numba.__version__.startswith(TRIED) and _has_names())


def _has_names() -> bool:
    """Whether this Numba has the private names that are used here."""
    from numba.core import codegen, compiler  # noqa: PLC0415 - loaded with Numba

    made = getattr(numba.njit(_nrt=False)(_has_names), "_compiler", None)
    return (
        hasattr(getattr(compiler, "CompileResult", None), "_find_referenced_environments")
        and hasattr(compiler, "compile_extra") and hasattr(compiler, "Flags")
        and hasattr(codegen, "JITCodeLibrary") and hasattr(made, "_compile_core")
    )  # fmt: skip


def as_callee(function: Callable[..., Any], *, allocates: bool, inline: bool) -> Any:
    """Numba's dispatcher of ``function`` for the kernels that call it."""
    if is_plain():
        return numba.njit(error_model="numpy", forceinline=inline)(function)
    options = {"forceinline": inline, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made = _dispatcher(function, _translate, _nrt=allocates, **options)
    made.get_call_template = partial(_for_any_value, made.get_call_template)
    return made


def as_entry(function: Callable[..., Any], *, allocates: bool) -> Any:
    """Numba's dispatcher of ``function`` for calls from Python."""
    if is_plain():
        return numba.njit(error_model="numpy")(function)
    return _dispatcher(function, _compile, _nrt=allocates)


def _dispatcher(function: Callable[..., Any], compiled: Callable[..., Any], **options: bool) -> Any:
    made = numba.njit(error_model="numpy", **options)(function)
    compiler = made._compiler  # noqa: SLF001 - this module is for private names
    compiler._compile_core = partial(compiled, compiler, compiler._compile_core)  # noqa: SLF001
    return made


def _translate(compiler: Any, _core: Callable[..., Any], arguments: Any, result: Any) -> Any:
    """A callee's function in LLVM's language, without machine code."""
    from numba.core.compiler import Flags, compile_extra  # noqa: PLC0415 - where it is compiled

    flags, target, function = Flags(), compiler.targetdescr, compiler.py_func
    target.options.parse_as_flags(flags, compiler.targetoptions)
    library = _callee_library()(target.target_context.codegen(), function.__qualname__)
    return compile_extra(
        target.typing_context, target.target_context, function, arguments, result, flags,
        compiler.locals, library, compiler.pipeline_class,
    )  # fmt: skip


def _compile(_compiler: Any, core: Callable[..., Any], arguments: Any, result: Any) -> Any:
    """An entry's machine code, which needs the constants of its callees in place."""
    made = core(arguments, result)
    for environment in made._find_referenced_environments():  # noqa: SLF001 - as above
        made.library.codegen.set_env(environment.env_name, environment)
    return made


@cache
def _callee_library() -> Any:
    from numba.core.codegen import JITCodeLibrary  # noqa: PLC0415 - where it is compiled

    class CalleeLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba is not checked here
        """Code that only other libraries are made of: neither optimised nor loaded by itself."""

        @property
        def codegen(self) -> Any:
            return self

        def set_env(self, name: str, environment: Any) -> None:
            """Nothing: the entry does, once there is machine code."""

        def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - Numba's
            self._ensure_finalized()
            return 0

        def _optimize_final_module(self) -> None:
            """Nothing: the entry is optimised, with this in it."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    return CalleeLibrary


def _for_any_value(find: Callable[..., Any], types: Any, named: Any) -> Any:
    """One callee for all numbers in calls (``f(x, -1)``), unless it picks from a tuple by one."""
    try:
        return find(tuple(map(numba.types.unliteral, types)), named)
    except numba.core.errors.TypingError:
        return find(types, named)
