"""Operations on one tile of 8 floats as vector instructions (see `metricdp.metric.simd`)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from metricdp.metric.simd import WIDTH, Vectors

__all__ = [
    "WIDTH",
    "Tiles",
    "add_parts",
    "copy_tile",
    "excess",
    "lowest_bit",
    "pair_of",
    "step_back",
    "step_multipliers",
    "step_rows",
]


class Tiles(Vectors):
    """Vectors, and the step that rows and multipliers share."""

    def without_tiny(self, x: Any, tiny: Any) -> Any:
        """Return ``x`` with 0 for entries that are at most ``tiny``."""
        return self.where(">", self.size(x), tiny, x, self.zero)

    def halpern(self, new: Any, old: Any, anchor: Any, share: Any, tiny: Any) -> tuple[Any, Any, Any, Any]:
        """Return the squared change, the reflected point, what stays of it beside the anchor, and the anchor.

        With share 0 the new point stays and becomes the anchor.
        """
        difference = self.minus(new, old)
        reflected = self.plus(new, difference)
        mixed = self.plus(self.times(share, reflected), self.times(self.minus(self.one, share), anchor))
        stays = self.without_tiny(self.where("<=", share, self.zero, new, mixed), tiny)
        held = self.where("<=", share, self.zero, stays, anchor)
        return self.total(self.times(difference, difference)), reflected, stays, held


def pair_of(context: Any, builder: Any, kind: Any, first: Any, second: Any) -> Any:
    """Return two numbers as one result."""
    return context.make_tuple(builder, kind, [first, second])


@intrinsic
def add_parts(typing: Any, v: Any, at: Any, Y: Any, y_at: Any, up: Any, down: Any) -> Any:  # noqa: ARG001, PLR0917
    """Do ``v += up max(y, 0) + down min(y, 0)``."""
    signature = types.void(v, types.intp, Y, types.intp, types.float32, types.float32)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Tiles(context, builder)
        values, where, multipliers, y_where, up_, down_ = arguments
        target = tiles.place(sig.args[0], values, where)
        y = tiles.load(tiles.place(sig.args[2], multipliers, y_where))
        rise = tiles.times(tiles.spread(up_), tiles.positive(y))
        fall = tiles.times(tiles.spread(down_), tiles.negative(y))
        tiles.store(tiles.plus(tiles.load(target), tiles.plus(rise, fall)), target)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def lowest_bit(typing: Any, word: Any) -> Any:  # noqa: ARG001
    """Return the position of the lowest bit that is set in a word that is not 0."""
    signature = types.intp(types.uint64)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return signature, generate


@intrinsic
def copy_tile(typing: Any, target: Any, at: Any, source: Any, source_at: Any) -> Any:  # noqa: ARG001
    """Copy one tile."""
    signature = types.void(target, types.intp, source, types.intp)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Tiles(context, builder)
        to, where, origin, origin_where = arguments
        tiles.store(tiles.load(tiles.place(sig.args[2], origin, origin_where)), tiles.place(sig.args[0], to, where))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def step_back(typing: Any, v: Any, at: Any, Z: Any, z_at: Any, size: Any) -> Any:  # noqa: ARG001, PLR0917
    """Do ``v = z - size v`` and return the largest entry."""
    signature = types.float32(v, types.intp, Z, types.intp, types.float32)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Tiles(context, builder)
        values, where, rows, z_where, size_ = arguments
        target = tiles.place(sig.args[0], values, where)
        z = tiles.load(tiles.place(sig.args[2], rows, z_where))
        new = tiles.minus(z, tiles.times(tiles.spread(size_), tiles.load(target)))
        tiles.store(new, target)
        return tiles.largest(new)

    return signature, generate


@intrinsic
def excess(typing: Any, v: Any, at: Any, theta: Any) -> Any:  # noqa: ARG001
    """Return the sum of ``max(v - theta, 0)`` and how many entries are above theta."""
    result = types.UniTuple(types.float32, 2)
    signature = result(v, types.intp, types.float32)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Tiles(context, builder)
        values, where, theta_ = arguments
        above = tiles.positive(tiles.minus(tiles.load(tiles.place(sig.args[0], values, where)), tiles.spread(theta_)))
        ones = tiles.where(">", above, tiles.zero, tiles.one, tiles.zero)
        return pair_of(context, builder, result, tiles.total(above), tiles.total(ones))

    return signature, generate


@intrinsic
def step_rows(  # noqa: PLR0917
    typing: Any,  # noqa: ARG001
    v: Any,
    at: Any,  # noqa: ARG001
    Z: Any,
    Z0: Any,
    ahead: Any,
    z_at: Any,  # noqa: ARG001
    theta: Any,  # noqa: ARG001
    share: Any,  # noqa: ARG001
    tiny: Any,  # noqa: ARG001
) -> Any:
    """Step a tile of a row to ``max(v - theta, 0)``; return the squared change and the sum of the result."""
    single = types.float32
    result = types.UniTuple(single, 2)
    signature = result(v, types.intp, Z, Z0, ahead, types.intp, single, single, single)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Tiles(context, builder)
        values, where, rows, anchors, aheads, z_where, theta_, share_, tiny_ = arguments
        above = tiles.minus(tiles.load(tiles.place(sig.args[0], values, where)), tiles.spread(theta_))
        z_place, anchor_place = tiles.place(sig.args[2], rows, z_where), tiles.place(sig.args[3], anchors, z_where)
        new, old, anchor = tiles.positive(above), tiles.load(z_place), tiles.load(anchor_place)
        change, reflected, stays, held = tiles.halpern(new, old, anchor, tiles.spread(share_), tiles.spread(tiny_))
        tiles.store(reflected, tiles.place(sig.args[4], aheads, z_where))
        tiles.store(stays, z_place)
        tiles.store(held, anchor_place)
        left = tiles.plus(tiles.plus(tiles.size(stays), tiles.size(held)), tiles.size(reflected))
        return pair_of(context, builder, result, change, tiles.total(left))

    return signature, generate


@intrinsic
def step_multipliers(  # noqa: PLR0917
    typing: Any,  # noqa: ARG001
    Y: Any,
    Y0: Any,
    y_at: Any,  # noqa: ARG001
    ahead: Any,
    i_at: Any,  # noqa: ARG001
    j_at: Any,  # noqa: ARG001
    less: Any,  # noqa: ARG001
    more: Any,  # noqa: ARG001
    share: Any,  # noqa: ARG001
    tiny: Any,  # noqa: ARG001
) -> Any:
    """Step a tile of an edge's multipliers; return the squared change and the sum of the result."""
    single = types.float32
    result = types.UniTuple(single, 2)
    signature = result(Y, Y0, types.intp, ahead, types.intp, types.intp, single, single, single, single)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Tiles(context, builder)
        y_array, anchor_array, where, ahead_array, i_where, j_where, less_, more_, share_, tiny_ = arguments
        y_place = tiles.place(sig.args[0], y_array, where)
        anchor_place = tiles.place(sig.args[1], anchor_array, where)
        old, anchor = tiles.load(y_place), tiles.load(anchor_place)
        zi = tiles.load(tiles.place(sig.args[3], ahead_array, i_where))
        zj = tiles.load(tiles.place(sig.args[3], ahead_array, j_where))
        less_all, more_all = tiles.spread(less_), tiles.spread(more_)
        up = tiles.plus(old, tiles.minus(tiles.times(less_all, zi), tiles.times(more_all, zj)))
        down = tiles.plus(old, tiles.minus(tiles.times(more_all, zi), tiles.times(less_all, zj)))
        new = tiles.plus(tiles.positive(up), tiles.negative(down))
        change, _, stays, held = tiles.halpern(new, old, anchor, tiles.spread(share_), tiles.spread(tiny_))
        tiles.store(stays, y_place)
        tiles.store(held, anchor_place)
        left = tiles.total(tiles.plus(tiles.size(stays), tiles.size(held)))
        return pair_of(context, builder, result, change, left)

    return signature, generate
