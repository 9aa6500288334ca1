"""What a first-order step does, in plain numpy and double precision."""

from __future__ import annotations

import numpy as np


def mixed(new, old, anchor, share, tiny):
    """The step of Halpern: what is ahead, what stays, and the anchor."""
    ahead = 2 * new - old
    stays = new if share == 0 else share * ahead + (1 - share) * anchor
    stays = np.where(np.abs(stays) > tiny, stays, 0.0)
    return ahead, stays, stays if share == 0 else anchor


def level_of(v):
    """The level theta with sum max(v - theta, 0) = 1, by sorting."""
    ordered = np.sort(v.astype(float))[::-1]
    level = (np.cumsum(ordered) - 1) / np.arange(1, len(v) + 1)
    return level[np.flatnonzero(ordered > level)[-1]]
