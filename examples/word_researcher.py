"""A language researcher: from a file of word vectors and a text to a private text, beside the two usual baselines."""

from pathlib import Path

import metricdp as mdp
from metricdp.apply import batched, perturb_text
from metricdp.evaluate import compare

# a raw file as word2vec, fastText and GloVe write it: a word and its numbers in each line
some = mdp.data.words().select(range(120))
lines = (
    f"{word} {' '.join(f'{x:.5f}' for x in vector)}" for word, vector in zip(some.ids, some.coordinates, strict=True)
)
Path("vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
Path("note.txt").write_text(
    "Wilhelmina said that all people were there.\nBut when would you have time for this?\n", encoding="utf-8"
)

vocabulary = mdp.data.read_records("vectors.txt")
problem = mdp.Problem(vocabulary, epsilon=2.0, eta="connect")
print(problem)

result = mdp.solve(problem, gap=0.05)
print(result.mechanism.certificate)

# the same budget for all: what each costs, and whether it is proved to be private
table = compare(result.mechanism, problem, ["multivariate-laplace", "truncated-exponential"])
for row in table.rows:
    print(f"{row.name:24} loss {row.loss:.3f}  {'certified' if row.certified else 'NOT certified'}  {row.note}")
for one in table.estimates:
    print(f"{one.name:24} loss {one.loss:.3f} (standard error {one.standard_error:.3f})  {one.note}")

result.mechanism.save("words.mdp")
summary = perturb_text(mdp.load("words.mdp"), "note.txt", "private.txt", unknown="drop")
print(f"{summary.words} words drawn, {summary.unknown} outside the vocabulary left out")
print(Path("private.txt").read_text(encoding="utf-8"))

# the same for a column of a data set: dataset.map(function, batched=True) calls it like this
function = batched(result.mechanism, text="note", unknown="mask")
print(function({"note": ["They said that all people were there."], "year": [2026]}))
