"""A slow exact check of sparse tables in Python's own integers."""

from __future__ import annotations

from metricdp.mechanism.certify import exp_enclosure

BITS = 96


def rows_of(table):
    """Return all rows as lists of whole numbers."""
    if not hasattr(table, "background"):  # of a run that ended before it had a table of its own
        return [[int(z) for z in row] for row in table]
    n, K = table.shape
    background = [int(b) for b in table.background]
    rows = []
    for i in range(n):
        row = [int(table.scale[i]) * b for b in background]
        low, high = int(table.indptr[i]), int(table.indptr[i + 1])
        columns = table.columns[low:high].tolist()
        assert columns == sorted(set(columns))
        assert all(0 <= k < K for k in columns)
        for k, weight in zip(columns, table.weights[low:high].tolist(), strict=True):
            assert weight >= 1
            row[k] += int(weight)
        rows.append(row)
    return rows


def fault(table, graph, epsilon):
    """Return what is wrong with a table; empty if nothing."""
    rows = rows_of(table)
    for i, row in enumerate(rows):
        if sum(row) != 1 << 63:
            return f"row {i} sums to {sum(row)}"
    for (i, j), d in zip(graph.pairs.tolist(), graph.distances.tolist(), strict=True):
        # beyond exp(44) > 2^63 any two positive weights are near enough
        if epsilon * d > 44.0:
            bad = [k for k, (x, y) in enumerate(zip(rows[i], rows[j], strict=True)) if (x == 0) != (y == 0)]
        else:
            E = exp_enclosure(epsilon, d)
            bad = [
                k
                for k, (x, y) in enumerate(zip(rows[i], rows[j], strict=True))
                if x << BITS > E * y or y << BITS > E * x
            ]
        if bad:
            return f"records {i} and {j} at {d}: output {bad[0]} has {rows[i][bad[0]]} and {rows[j][bad[0]]}"
    return ""


def loss_of(table, losses, prior):
    """Return the expected loss of a table from a full matrix of losses."""
    rows = rows_of(table)
    return sum(
        float(p) * sum(x * float(c) for x, c in zip(row, cost, strict=True)) / 2.0**63
        for p, row, cost in zip(prior, rows, losses, strict=True)
    )
