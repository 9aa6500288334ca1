"""Weighted steps on one tile of 8 floats as vector instructions.

Entries have weights w = exp(-gamma epsilon d), given as q = w^(-1/2): rows step by tau w, multipliers by
sigma / sqrt(w_i w_j) = sigma q_i q_j.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from metricdp.solve.solvers.firstorder.tiles import Tiles, pair_of

SINGLE = types.float32


@intrinsic
def weighted_back(typing: Any, v: Any, at: Any, w: Any, Q: Any, Z: Any, G: Any, z_at: Any, size: Any) -> Any:  # noqa: ARG001, PLR0917
    """Do ``w = 1 / q^2`` and ``v = z - size w g``."""
    signature = types.void(v, types.intp, w, Q, Z, G, types.intp, SINGLE)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Tiles(context, builder)
        values, where, weights, roots, rows, reduced, z_where, size_ = arguments
        q = tiles.load(tiles.place(sig.args[3], roots, z_where))
        z = tiles.load(tiles.place(sig.args[4], rows, z_where))
        g = tiles.load(tiles.place(sig.args[5], reduced, z_where))
        weight = builder.fdiv(tiles.one, tiles.times(q, q), flags=("arcp", "nnan", "ninf"))
        tiles.store(weight, tiles.place(sig.args[2], weights, where))
        step = tiles.times(tiles.times(tiles.spread(size_), weight), g)
        tiles.store(tiles.minus(z, step), tiles.place(sig.args[0], values, where))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def weighted_excess(typing: Any, v: Any, at: Any, w: Any, theta: Any) -> Any:  # noqa: ARG001
    """Return the sum of ``max(v - w theta, 0)`` and the sum of w where that is positive."""
    result = types.UniTuple(SINGLE, 2)
    signature = result(v, types.intp, w, SINGLE)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Tiles(context, builder)
        values, where, weights, theta_ = arguments
        weight = tiles.load(tiles.place(sig.args[2], weights, where))
        value = tiles.load(tiles.place(sig.args[0], values, where))
        above = tiles.positive(tiles.minus(value, tiles.times(weight, tiles.spread(theta_))))
        active = tiles.where(">", above, tiles.zero, weight, tiles.zero)
        return pair_of(context, builder, result, tiles.total(above), tiles.total(active))

    return signature, generate


@intrinsic
def weighted_rows(  # noqa: PLR0917
    typing: Any,  # noqa: ARG001
    v: Any,
    at: Any,  # noqa: ARG001
    w: Any,
    Q: Any,
    Z: Any,
    Z0: Any,
    ahead: Any,
    z_at: Any,  # noqa: ARG001
    theta: Any,  # noqa: ARG001
    share: Any,  # noqa: ARG001
    tiny: Any,  # noqa: ARG001
) -> Any:
    """Step a tile of a row to ``max(v - w theta, 0)``; return its squared change, each divided by w."""
    signature = SINGLE(v, types.intp, w, Q, Z, Z0, ahead, types.intp, SINGLE, SINGLE, SINGLE)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Tiles(context, builder)
        values, where, weights, roots, rows, anchors, aheads, z_where, theta_, share_, tiny_ = arguments
        weight = tiles.load(tiles.place(sig.args[2], weights, where))
        value = tiles.load(tiles.place(sig.args[0], values, where))
        q = tiles.load(tiles.place(sig.args[3], roots, z_where))
        z_place, anchor_place = tiles.place(sig.args[4], rows, z_where), tiles.place(sig.args[5], anchors, z_where)
        new = tiles.positive(tiles.minus(value, tiles.times(weight, tiles.spread(theta_))))
        old, anchor = tiles.load(z_place), tiles.load(anchor_place)
        _, reflected, stays, held = tiles.halpern(new, old, anchor, tiles.spread(share_), tiles.spread(tiny_))
        tiles.store(reflected, tiles.place(sig.args[6], aheads, z_where))
        tiles.store(stays, z_place)
        tiles.store(held, anchor_place)
        change = tiles.times(tiles.minus(new, old), q)
        return tiles.total(tiles.times(change, change))

    return signature, generate


def _stepping(signature: Any, *, is_restart: bool) -> Any:
    """Return the code of a step of multipliers; a restart stores the anchors as well."""

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Tiles(context, builder)
        y_array, anchor_array, where, ahead_array, roots, i_where, j_where, less_, more_, share_, tiny_ = arguments
        y_place = tiles.place(sig.args[0], y_array, where)
        old = tiles.load(y_place)
        qi = tiles.load(tiles.place(sig.args[4], roots, i_where))
        qj = tiles.load(tiles.place(sig.args[4], roots, j_where))
        scale = tiles.times(qi, qj)
        zi = tiles.times(tiles.load(tiles.place(sig.args[3], ahead_array, i_where)), scale)
        zj = tiles.times(tiles.load(tiles.place(sig.args[3], ahead_array, j_where)), scale)
        less, more = tiles.spread(less_), tiles.spread(more_)
        up = tiles.plus(old, tiles.minus(tiles.times(less, zi), tiles.times(more, zj)))
        down = tiles.plus(old, tiles.minus(tiles.times(more, zi), tiles.times(less, zj)))
        new = tiles.plus(tiles.positive(up), tiles.negative(down))
        anchor_place = tiles.place(sig.args[1], anchor_array, where)
        difference = tiles.minus(new, old)
        if is_restart:
            stays = tiles.without_tiny(new, tiles.spread(tiny_))
            tiles.store(stays, anchor_place)
        else:
            share, anchor = tiles.spread(share_), tiles.load(anchor_place)
            ahead = tiles.plus(new, difference)
            mixed = tiles.plus(anchor, tiles.times(share, tiles.minus(ahead, anchor)))
            stays = tiles.without_tiny(mixed, tiles.spread(tiny_))
        tiles.store(stays, y_place)
        change = builder.fdiv(tiles.times(difference, difference), scale, flags=("arcp", "nnan", "ninf"))
        return tiles.total(change)

    return signature, generate


@intrinsic
def weighted_multipliers(  # noqa: PLR0917
    typing: Any,  # noqa: ARG001
    Y: Any,
    Y0: Any,
    y_at: Any,  # noqa: ARG001
    ahead: Any,
    Q: Any,
    i_at: Any,  # noqa: ARG001
    j_at: Any,  # noqa: ARG001
    less: Any,  # noqa: ARG001
    more: Any,  # noqa: ARG001
    share: Any,  # noqa: ARG001
    tiny: Any,  # noqa: ARG001
) -> Any:
    """Step a tile of an edge's multipliers; return its squared change, each divided by ``q_i q_j``."""
    signature = SINGLE(Y, Y0, types.intp, ahead, Q, types.intp, types.intp, SINGLE, SINGLE, SINGLE, SINGLE)
    return _stepping(signature, is_restart=False)


@intrinsic
def restarted_multipliers(  # noqa: PLR0917
    typing: Any,  # noqa: ARG001
    Y: Any,
    Y0: Any,
    y_at: Any,  # noqa: ARG001
    ahead: Any,
    Q: Any,
    i_at: Any,  # noqa: ARG001
    j_at: Any,  # noqa: ARG001
    less: Any,  # noqa: ARG001
    more: Any,  # noqa: ARG001
    share: Any,  # noqa: ARG001
    tiny: Any,  # noqa: ARG001
) -> Any:
    """Step a tile of an edge's multipliers without mixing, and make the result its anchor."""
    signature = SINGLE(Y, Y0, types.intp, ahead, Q, types.intp, types.intp, SINGLE, SINGLE, SINGLE, SINGLE)
    return _stepping(signature, is_restart=True)
