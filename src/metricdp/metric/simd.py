"""Vector instructions inside numba kernels.

Loops over 8 entries inside numba kernels stay scalar: the compiler cannot know that the arrays do not overlap, and to
find out takes as long as the loop. Functions made with `Vectors` say it with vectors instead. They take whole arrays
(C-contiguous) and the position of the first of 8 entries in them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 8
_FAST = ("nsz", "contract", "nnan", "ninf", "arcp", "reassoc")
_INT = ir.IntType(32)


class Vectors:
    """Writes instructions on vectors of 8 floats (single, or double) into the code of one function."""

    def __init__(self, context: Any, builder: Any, *, is_double: bool = False) -> None:
        self.context, self.builder = context, builder
        self.scalar = ir.DoubleType() if is_double else ir.FloatType()
        self.kind = ir.VectorType(self.scalar, WIDTH)
        self.suffix = "v8f64" if is_double else "v8f32"
        self.zero, self.one = self.constant(0.0), self.constant(1.0)

    def constant(self, value: float) -> Any:
        return ir.Constant(self.kind, [value] * WIDTH)

    def place(self, kind: Any, array: Any, offset: Any) -> Any:
        data = cgutils.create_struct_proxy(kind)(self.context, self.builder, value=array).data
        return self.builder.bitcast(self.builder.gep(data, [offset]), self.kind.as_pointer())

    def load(self, place: Any) -> Any:
        return self.builder.load(place, align=4)

    def store(self, value: Any, place: Any) -> None:
        self.builder.store(value, place, align=4)

    def spread(self, scalar: Any) -> Any:
        nothing = ir.Constant(self.kind, ir.Undefined)
        one = self.builder.insert_element(nothing, scalar, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(_INT, WIDTH), [0] * WIDTH))

    def plus(self, x: Any, y: Any) -> Any:
        return self.builder.fadd(x, y, flags=_FAST)

    def minus(self, x: Any, y: Any) -> Any:
        return self.builder.fsub(x, y, flags=_FAST)

    def times(self, x: Any, y: Any) -> Any:
        return self.builder.fmul(x, y, flags=_FAST)

    def where(self, relation: str, x: Any, y: Any, then: Any, otherwise: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered(relation, x, y), then, otherwise)

    def positive(self, x: Any) -> Any:
        return self.where(">", x, self.zero, x, self.zero)

    def negative(self, x: Any) -> Any:
        return self.where("<", x, self.zero, x, self.zero)

    def size(self, x: Any) -> Any:
        return self.call(f"llvm.fabs.{self.suffix}", self.kind, [x])

    def rounded_up(self, x: Any) -> Any:
        return self.call(f"llvm.ceil.{self.suffix}", self.kind, [x])

    def total(self, x: Any) -> Any:
        start = ir.Constant(self.scalar, 0.0)
        return self.call(f"llvm.vector.reduce.fadd.{self.suffix}", self.scalar, [start, x], fast=_FAST)

    def largest(self, x: Any) -> Any:
        return self.call(f"llvm.vector.reduce.fmax.{self.suffix}", self.scalar, [x], fast=_FAST)

    def any_of(self, mask: Any) -> Any:
        return self.call("llvm.vector.reduce.or.v8i1", ir.IntType(1), [mask])

    def call(self, name: str, result: Any, arguments: list[Any], fast: tuple[str, ...] = ()) -> Any:
        module = self.builder.module
        function = module.globals.get(name) or ir.Function(
            module, ir.FunctionType(result, [argument.type for argument in arguments]), name
        )
        return self.builder.call(function, arguments, fastmath=fast)


@intrinsic
def raise_to(typing: Any, V: Any, at: Any, source_at: Any, factor: Any) -> Any:  # noqa: ARG001
    """Do ``V[at:] = max(V[at:], factor V[source_at:])`` on 8 doubles; return whether any rose."""
    return _raising(V, whole=False)


@intrinsic
def raise_to_whole(typing: Any, V: Any, at: Any, source_at: Any, factor: Any) -> Any:  # noqa: ARG001
    """Do the same with the products rounded up to whole numbers."""
    return _raising(V, whole=True)


def _raising(V: Any, *, whole: bool) -> Any:
    signature = types.boolean(V, types.intp, types.intp, types.float64)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        vectors = Vectors(context, builder, is_double=True)
        array, where, source, factor = arguments
        target = vectors.place(sig.args[0], array, where)
        # no fast-math here: the certificate's slack was computed for this product
        bound = builder.fmul(vectors.spread(factor), vectors.load(vectors.place(sig.args[0], array, source)))
        bound = vectors.rounded_up(bound) if whole else bound
        old = vectors.load(target)
        rises = builder.fcmp_ordered(">", bound, old)
        vectors.store(builder.select(rises, bound, old), target)
        return vectors.any_of(rises)

    return signature, generate
