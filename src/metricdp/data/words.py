"""Common English words as vectors."""

from __future__ import annotations

from functools import cache

import numpy as np

from metricdp.data.records import Records
from metricdp.data.shipped import load_shipped

WORDS_ETA = 4.0
"""A good neighbour threshold (Euclidean) for these words: 17.7 neighbours on average among all 2,000, 4.4 among 500.

The vectors are longer than those of the paper, so its eta = 2.0 would leave nearly every word alone. Average degree,
components and largest component (500 words: mean of ten draws):

======  ======================  ========================
eta     500 words               2,000 words
======  ======================  ========================
3.5     1.2, 380, 95            4.5, 1174, 603
4.0     4.4, 285, 186           17.7, 719, 1055
4.5     14.5, 166, 305          58.5, 275, 1652
5.0     39.0, 57, 435           157.5, 50, 1941
6.0     175.6, 3, 498           704.1, 2, 1999
======  ======================  ========================
"""


def words(*, n: int | None = None, seed: int = 0) -> Records:
    """Return 2,000 common English words, the most frequent first, as 100-dimensional GloVe vectors.

    The prior is how often the words are used (wordfreq), and ``WORDS_ETA`` is a good eta for them. The sources and
    their licences are in ``files/PROVENANCE.md``.

    Parameters
    ----------
    n
        Number of words to draw, each equally likely; all of them if left out.
    seed
        Seed of the draw.

    Examples
    --------
    >>> records = words()
    >>> records, records.ids[:4], records.prior[0].round(3)
    (Records('words': 2000 vectors, 100 dimensions), ('the', 'and', 'for', 'that'), np.float64(0.098))
    """
    records = _whole()
    return records if n is None else records.sample(n, seed=seed)


@cache
def _whole() -> Records:
    tensors = load_shipped("words")
    ids = tensors["words"].tobytes().decode().split("\n")
    vectors = tensors["vectors"].astype(np.float64) / 8192
    prior = 10.0 ** (-tensors["centibels"].astype(np.float64) / 100)
    return Records(vectors, ids=ids, prior=prior, kind="vectors", name="words")
