"""Compiles each kernel once, together with its callees; uses private names of Numba.

Numba optimises each callee with everything that it calls and makes machine code of it. So a
function below a chain of ten kernels is compiled ten times (the loop of windows: 184 s instead of
36 s). Here a callee is only translated, and optimised where it is used.

Tested with Numba 0.68.1 and llvmlite 0.50.0 (pyproject.toml has upper bounds). With another
version, or with ``SLACKWATER_PLAIN_NUMBA=1``, plain ``numba.njit`` gives the same results but
compiles longer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from hashlib import blake2b
from typing import Any, Final

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

TRIED: Final = "0.68."


@cache
def is_plain() -> bool:
    """Return whether kernels are compiled with public interfaces only."""
    may_extend = os.environ.get("SLACKWATER_PLAIN_NUMBA") != "1"
    return not (may_extend and numba.__version__.startswith(TRIED) and _has_names())


def _has_names() -> bool:
    """Return whether this Numba has the private names that are used here."""
    from numba.core import codegen, compiler  # noqa: PLC0415 - loaded with Numba

    flags = getattr(compiler, "Flags", object)()
    made = getattr(numba.njit(_nrt=False)(_has_names), "_compiler", None)
    return (
        hasattr(getattr(compiler, "CompileResult", None), "_find_referenced_environments")
        and hasattr(compiler, "compile_extra") and hasattr(flags, "_values")
        and hasattr(codegen, "JITCodeLibrary") and hasattr(made, "_compile_core")
    )  # fmt: skip


def as_callee(function: Callable[..., Any], *, allocates: bool, inline: bool) -> Any:
    """Return Numba's dispatcher of ``function`` for the kernels that call it."""
    if is_plain():
        return numba.njit(error_model="numpy", forceinline=inline)(function)
    options = {"forceinline": inline, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made = _dispatcher(function, _translate, _nrt=allocates, **options)
    made.get_call_template = partial(_for_any_value, made.get_call_template)
    return made


def as_entry(function: Callable[..., Any], *, allocates: bool) -> Any:
    """Return Numba's dispatcher of ``function`` for calls from Python."""
    if is_plain():
        return numba.njit(error_model="numpy")(function)
    return _dispatcher(function, _compile, _nrt=allocates)


def _dispatcher(function: Callable[..., Any], compiled: Callable[..., Any], **options: bool) -> Any:
    made = numba.njit(error_model="numpy", **options)(function)
    compiler = made._compiler  # noqa: SLF001 - this module uses private names
    compiler._compile_core = partial(compiled, compiler)  # noqa: SLF001
    return made


def _translate(compiler: Any, arguments: Any, result: Any) -> Any:
    """Translate a callee to LLVM's language, without machine code."""
    codegen = compiler.targetdescr.target_context.codegen()
    library = _callee_library()(codegen, compiler.py_func.__qualname__)
    return _compiled(compiler, arguments, result, library)


def _compile(compiler: Any, arguments: Any, result: Any) -> Any:
    """Compile an entry to machine code, with the constants of its callees in place."""
    made = _compiled(compiler, arguments, result, None)
    for environment in made._find_referenced_environments():  # noqa: SLF001 - as above
        made.library.codegen.set_env(environment.env_name, environment)
    return made


def _compiled(compiler: Any, arguments: Any, result: Any, library: Any) -> Any:
    from numba.core.compiler import compile_extra  # noqa: PLC0415 - where it is compiled

    flags, target = _flags()(), compiler.targetdescr
    target.options.parse_as_flags(flags, compiler.targetoptions)
    return compile_extra(
        target.typing_context, target.target_context, compiler.py_func, arguments, result, flags,
        compiler.locals, library, compiler.pipeline_class,
    )  # fmt: skip


@cache
def _flags() -> Any:
    from numba.core import compiler  # noqa: PLC0415 - where it is compiled

    class Flags(compiler.Flags):  # type: ignore[misc]  # numba is not checked here
        """Flags with a fast comparison.

        Numba looks up each operation by its flags, too. Its own comparison builds lists of all
        options and took a third of the time.
        """

        def __hash__(self) -> int:
            return hash(Flags)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Flags) and bool(self._values == other._values)

    return Flags


@cache
def _callee_library() -> Any:
    from numba.core.codegen import JITCodeLibrary  # noqa: PLC0415 - where it is compiled

    class CalleeLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba is not checked here
        """Code that is only linked into other libraries: not optimised or loaded by itself."""

        @property
        def codegen(self) -> Any:
            return self

        def set_env(self, name: str, environment: Any) -> None:
            """Do nothing: the entry sets it when there is machine code."""

        def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - Numba's
            self._ensure_finalized()
            return 0

        def _optimize_final_module(self) -> None:
            """Do nothing: the entry is optimised together with this code."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    return CalleeLibrary


def _for_any_value(find: Callable[..., Any], types: Any, named: Any) -> Any:
    """Find one callee for all literals in calls (``f(x, -1)``), unless a literal is an index."""
    try:
        return find(tuple(map(numba.types.unliteral, types)), named)
    except numba.core.errors.TypingError:
        return find(types, named)


# Named tuples of arrays are passed to compiled kernels as one pointer, like a ``const struct *``.
#
# Numba passes a tuple by value, with seven machine words per array. The shared state of an
# operator's kernels has up to 160 arrays, so every call between kernels moved 1,200 words, and LLVM
# spent minutes on those moves. Here the words are stored once, in the frame of the function that
# Python calls, and kernels load the words that they use. They never change while a kernel runs.
# ``invariant.load`` declares that, so LLVM hoists the loads out of loops as for arguments.
#
# Tuples without names, tuples of numbers only, and tuples made in a kernel stay values.


class Shared(types.Type):  # type: ignore[misc]  # numba is not checked here
    """The type of a named tuple of arrays that is passed as a pointer.

    Args:
        tuple_class: its class.
        members: the types of its fields, in order.
    """

    def __init__(self, tuple_class: type, members: tuple[types.Type, ...]) -> None:
        self.instance_class, self.types = tuple_class, members
        self.fields: tuple[str, ...] = tuple_class._fields  # type: ignore[attr-defined]
        # Part of the name of each kernel that takes it; the types of all members are too long.
        digest = blake2b(str(members).encode(), digest_size=8).hexdigest()
        super().__init__(f"{tuple_class.__module__}.{tuple_class.__qualname__}.{digest}")

    @property
    def key(self) -> tuple[type, tuple[str, ...], tuple[types.Type, ...]]:
        return self.instance_class, self.fields, self.types


_by_value: Callable[..., Any] = typeof_impl.dispatch(tuple)


@typeof_impl.register(tuple)  # type: ignore[untyped-decorator]
def _type_of(value: tuple[Any, ...], context: Any) -> types.Type | None:
    if not hasattr(value, "_fields"):
        return _by_value(value, context)
    members = tuple(typeof_impl(member, context) for member in value)
    if any(isinstance(member, types.Array | Shared) for member in members):
        return None if None in members else Shared(type(value), members)
    return _by_value(value, context)


@register_model(Shared)
class _Pointer(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, shared: Shared) -> None:
        members = [manager.lookup(member).get_value_type() for member in shared.types]
        super().__init__(manager, shared, ir.LiteralStructType(members).as_pointer())


@unbox(Shared)  # type: ignore[untyped-decorator]
def _placed(shared: Shared, value: Any, c: Any) -> NativeValue:
    """Write the members into the frame of the function that Python calls."""
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    place = cgutils.alloca_once(c.builder, c.context.get_value_type(shared).pointee)
    placed = []
    for index, kind in enumerate(shared.types):
        native = c.unbox(kind, c.pyapi.tuple_getitem(value, index))
        c.builder.store(native.value, cgutils.gep_inbounds(c.builder, place, 0, index))
        with c.builder.if_then(native.is_error, likely=False):
            c.builder.store(cgutils.true_bit, failed)
        placed.append((kind, native))

    def release() -> None:
        for kind, native in reversed(placed):
            if native.cleanup is not None:
                native.cleanup()
            if c.context.enable_nrt:
                c.context.nrt.decref(c.builder, kind, native.value)

    return NativeValue(place, cleanup=release, is_error=c.builder.load(failed))


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Shared

    def generic_resolve(self, shared: Shared, name: str) -> types.Type | None:
        """Return the type of the field ``name``; None: there is none."""
        return dict(zip(shared.fields, shared.types, strict=True)).get(name)


@lower_getattr_generic(Shared)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, shared: Shared, place: Any, name: str) -> Any:
    index = shared.fields.index(name)
    member = _loaded(builder, cgutils.gep_inbounds(builder, place, 0, index))
    return impl_ret_borrowed(context, builder, shared.types[index], member)


def _loaded(builder: Any, pointer: Any) -> Any:
    """Load word by word, as LLVM drops ``invariant`` from a load of several words."""
    kind = pointer.type.pointee
    if not isinstance(kind, ir.Aggregate):
        word = builder.load(pointer)
        word.set_metadata("invariant.load", builder.module.add_metadata([]))
        return word
    made = ir.Constant(kind, ir.Undefined)
    for index in range(len(kind.elements)):
        word = _loaded(builder, cgutils.gep_inbounds(builder, pointer, 0, index))
        made = builder.insert_value(made, word, index)
    return made
