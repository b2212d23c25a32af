"""Named tuples of arrays reach compiled kernels as one pointer, as a ``const struct *`` in C.

Numba hands a tuple on by value: seven machine words of each array of it. What the kernels of an
operator share holds up to 160 arrays, so every call of one kernel by another moved 1,200 words, and
LLVM spent minutes on those moves. Here the words stand once, in the frame of the function that
Python calls, and kernels load those that they use. They never change while a kernel runs, and
``invariant.load`` says so: LLVM hoists the loads out of loops as it does with arguments.

Tuples without names, those of numbers alone, and those that a kernel makes itself stay values.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

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


class Shared(types.Type):  # type: ignore[misc]  # numba is not checked here
    """The type of such a tuple.

    Args:
        tuple_class: its class.
        members: types of its fields, in their order.
    """

    def __init__(self, tuple_class: type, members: tuple[types.Type, ...]) -> None:
        self.instance_class, self.types = tuple_class, members
        self.fields: tuple[str, ...] = tuple_class._fields  # type: ignore[attr-defined]
        # Part of the name of each kernel that takes it: what all members are called is too long.
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
        """The type of a field; None: it has none of this name."""
        return dict(zip(shared.fields, shared.types, strict=True)).get(name)


@lower_getattr_generic(Shared)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, shared: Shared, place: Any, name: str) -> Any:
    index = shared.fields.index(name)
    member = _loaded(builder, cgutils.gep_inbounds(builder, place, 0, index))
    return impl_ret_borrowed(context, builder, shared.types[index], member)


def _loaded(builder: Any, pointer: Any) -> Any:
    """Loads word by word: LLVM drops ``invariant`` from a load of several words."""
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
