"""A mechanism as a function of batches, as ``datasets.map(function, batched=True)`` calls it: lists in, lists out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from metricdp.apply.text import TextSummary, Words
from metricdp.errors import InputError
from metricdp.mechanism.plane import check_of_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metricdp.mechanism.mechanism import Mechanism


@dataclass(frozen=True, eq=False, repr=False)
class Batched:
    """Replaces columns of a batch by draws; made by `batched`.

    ``summary`` counts the words of all batches of this process; each spent the budget once.
    """

    mechanism: Mechanism
    texts: tuple[str, ...]
    ids: tuple[str, ...]
    settings: dict[str, Any]
    summary: TextSummary = field(default_factory=TextSummary)

    def __repr__(self) -> str:
        return f"Batched({', '.join((*self.texts, *self.ids))}: {self.mechanism!r})"

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
        """Return the perturbed columns of ``batch``, under their own names: they take the place of the true ones."""
        missing = [name for name in (*self.texts, *self.ids) if name not in batch]
        if missing:
            raise InputError(f"the batch has no column {missing[0]!r}: name columns of the data set")
        made = {name: self._of_texts(name, batch[name]) for name in self.texts}
        allow = self.settings["allow_unprotected"]
        for name in self.ids:
            column = list(batch[name])
            made[name] = list(self.mechanism.perturb(column, allow_unprotected=allow)) if column else []
        return made

    def _of_texts(self, name: str, column: Sequence[Any]) -> list[str]:
        wrong = next((row for row, text in enumerate(column) if not isinstance(text, str)), None)
        if wrong is not None:
            raise InputError(
                f"entry {wrong + 1} of the column {name!r} is no text: fill or remove missing ones, since an empty "
                "place would show"
            )
        words = Words(self.mechanism, **self.settings)
        perturbed = words.texts(column)
        words.refuse_if_asked(f"the column {name!r}", unit="entry")
        for count in ("words", "unknown", "unprotected", "punctuation"):
            setattr(self.summary, count, getattr(self.summary, count) + getattr(words.summary, count))
        return perturbed


def batched(
    mechanism: Mechanism,
    *,
    text: str | Sequence[str] = (),
    ids: str | Sequence[str] = (),
    unknown: str = "refuse",
    keep_punctuation: bool = False,
    allow_unprotected: bool = False,
) -> Batched:
    """Return a function from a batch (a dict of lists) to its perturbed columns, for ``dataset.map(f, batched=True)``.

    Columns that are not named are not touched: ``map`` keeps them as they are, so remove those that are secret. ``map``
    keeps its results in a cache, and gives the same reports when it is called again, which spends nothing; a call with
    ``load_from_cache_file=False`` draws and spends again.

    Parameters
    ----------
    text
        Columns of texts: each word is replaced, as by `perturb_text`, whose other parameters these are.
    ids
        Columns that hold one record's id each, such as a word.

    Examples
    --------
    >>> import metricdp as mdp
    >>> words = mdp.Records([[0.0], [1.0]], ids=["left", "right"], kind="vectors")
    >>> same = mdp.evaluate.BASELINES["uniform"](mdp.Problem(words, epsilon=1.0, eta=1.0), None)[0]
    >>> noisy = batched(same, text="note")({"note": ["left, right!", "left"], "other": [1, 2]})
    >>> [len(note.split()) for note in noisy["note"]]
    [2, 1]
    """
    check_of_records(mechanism, "perturb_region_frame, which takes points as they are")
    texts, columns = ((one,) if isinstance(one, str) else tuple(one) for one in (text, ids))
    if not texts and not columns:
        raise InputError("no column is named: give text='...' for texts, or ids='...' for columns of ids")
    both = next((name for name in texts if name in columns), None)
    if both is not None:
        raise InputError(f"the column {both!r} is named as text and as ids: choose one")
    settings: dict[str, Any] = {
        "unknown": unknown,
        "keep_punctuation": keep_punctuation,
        "allow_unprotected": allow_unprotected,
    }
    if texts:
        Words(mechanism, **settings)  # what cannot be used for texts is refused at once
    return Batched(mechanism, texts, columns, settings)
