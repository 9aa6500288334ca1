"""The dual step of one cone for 8 outputs as vector instructions."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from metricdp.metric.simd import WIDTH, Vectors

TINY = 1e-30
NODES, PARTS = 6, 3  # nodes that a cone depends on at most; its parts (g, g', u)
SINGLE = types.float32


@intrinsic
def cone_step(  # noqa: PLR0917
    typing: Any,  # noqa: ARG001
    Z: Any,
    back: Any,
    Y: Any,
    anchor: Any,
    sigma: Any,
    factors: Any,
    at: Any,  # noqa: ARG001
    row: Any,  # noqa: ARG001
    offsets: Any,
    base: Any,  # noqa: ARG001
    factor_at: Any,  # noqa: ARG001
    scalars: Any,  # noqa: ARG001
) -> Any:
    """Step cone ``at`` and add A'y of its new multipliers to ``back``; return the squared length of the plain step.

    The cone's nodes are at ``base + 8 offsets[row]``; ``scalars`` are theta, omega, the anchor's weight and reflection.
    """
    integer = types.intp
    signature = SINGLE(
        Z, back, Y, anchor, sigma, factors, integer, integer, offsets, integer, integer, types.UniTuple(SINGLE, 4)
    )

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        tiles = Cone(context, builder)
        values, reduced, multipliers, anchors, steps, table, cone, kind, shifts, first, table_at, numbers = arguments
        integers = first.type
        theta, omega, weight, reflect = (tiles.spread(builder.extract_value(numbers, i)) for i in range(4))
        rest = tiles.minus(tiles.one, weight)
        width, parts = integers(WIDTH), integers(PARTS * WIDTH)
        shift_of = context.make_array(sig.args[8])(context, builder, value=shifts).data
        begin = builder.mul(kind, integers(NODES))
        shift = [builder.load(builder.gep(shift_of, [builder.add(begin, integers(i))])) for i in range(NODES)]
        places = [builder.add(first, builder.mul(width, one)) for one in shift]
        data = context.make_array(sig.args[5])(context, builder, value=table).data
        factor = [
            [
                tiles.spread(builder.load(builder.gep(data, [builder.add(table_at, integers(part * NODES + i))])))
                for i in range(NODES)
            ]
            for part in range(PARTS)
        ]
        where = [builder.add(builder.mul(cone, parts), integers(part * WIDTH)) for part in range(PARTS)]
        z = [tiles.load(tiles.place(sig.args[0], values, place)) for place in places]
        y = [tiles.load(tiles.place(sig.args[2], multipliers, place)) for place in where]
        old = [tiles.load(tiles.place(sig.args[3], anchors, place)) for place in where]
        s = tiles.times(omega, tiles.load(tiles.place(sig.args[4], steps, builder.mul(cone, width))))
        inverse = tiles.over(tiles.one, s)
        u, v, w = (
            tiles.sum([tiles.times(y[part], inverse), *(tiles.times(factor[part][i], z[i]) for i in range(NODES))])
            for part in range(PARTS)
        )
        # the nearest point of the cone |g| <= theta w
        g = tiles.plus(tiles.root(tiles.plus(tiles.times(u, u), tiles.times(v, v))), tiles.constant(TINY))
        shrink = tiles.over(tiles.one, tiles.plus(tiles.one, tiles.times(theta, theta)))
        height = tiles.positive(tiles.times(tiles.plus(w, tiles.times(theta, g)), shrink))
        limit = tiles.times(theta, w)
        r = tiles.where("<=", g, limit, g, tiles.times(theta, height))
        top = tiles.where("<=", g, limit, w, height)
        f = tiles.times(s, tiles.minus(tiles.one, tiles.over(r, g)))
        plain = [tiles.times(f, u), tiles.times(f, v), tiles.times(s, tiles.minus(w, top))]
        moved = [tiles.minus(a, b) for a, b in zip(plain, y, strict=True)]
        new = [
            tiles.plus(
                tiles.times(weight, tiles.plus(plain[part], tiles.times(reflect, moved[part]))),
                tiles.times(rest, old[part]),
            )
            for part in range(PARTS)
        ]
        for part in range(PARTS):
            tiles.store(new[part], tiles.place(sig.args[2], multipliers, where[part]))
        for i in range(NODES):  # one after the other: the last of six may be the first once more, with factors of 0
            target = tiles.place(sig.args[1], reduced, places[i])
            terms = [tiles.times(factor[part][i], new[part]) for part in range(PARTS)]
            tiles.store(tiles.sum([tiles.load(target), *terms]), target)
        squared = tiles.sum([tiles.times(one, one) for one in moved])
        return tiles.total(tiles.times(squared, inverse))

    return signature, generate


class Cone(Vectors):
    """Vectors with quotients, roots and longer sums."""

    def over(self, x: Any, y: Any) -> Any:
        return self.builder.fdiv(x, y, flags=("nnan", "ninf", "arcp"))

    def root(self, x: Any) -> Any:
        return self.call(f"llvm.sqrt.{self.suffix}", self.kind, [x])

    def sum(self, terms: list[Any]) -> Any:
        total = terms[0]
        for term in terms[1:]:
            total = self.plus(total, term)
        return total
