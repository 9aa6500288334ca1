"""Sound pipelines, each of which the auditor must pass."""

from __future__ import annotations

from itertools import count
from typing import Any

from metricdp.evaluate.auditor.claims import point_claim, word_claim
from metricdp.evaluate.auditor.examples import N_FEW, Setting, line, on_ids, optimal, places, vocabulary
from metricdp.evaluate.auditor.neighbours import point_neighbours, word_neighbours
from metricdp.evaluate.auditor.pipelines import id_pipeline, point_pipeline
from metricdp.evaluate.remap import best_outputs
from metricdp.mechanism.baselines import constant_matrix, exponential_matrix, uniform
from metricdp.mechanism.mechanism import Mechanism


def exact_ids() -> Setting:
    """Draw for record ids, exactly."""
    mechanism = optimal(line())
    return on_ids(mechanism, id_pipeline(mechanism))


def exact_points() -> Setting:
    """Snap points within a connected mechanism, and claim what is promised for points and for their records."""
    mechanism = optimal(places())
    pairs = point_neighbours(mechanism, limit=0.5, n_pairs=N_FEW)
    return Setting(
        point_pipeline(mechanism, limit=0.5),
        pairs,
        point_claim(mechanism, limit=0.5),
        outputs=mechanism.outputs.ids(mechanism.records),
    )


def memory_of_answers() -> Setting:
    """Repeat stored answers, each of which is asked for by somebody new."""
    mechanism, person = optimal(line()), count()
    stored: dict[tuple[int, str], str] = {}

    def report(ids: list[Any]) -> list[str]:
        questions = [(next(person), name) for name in ids]
        stored.update(zip(questions, mechanism.perturb(ids), strict=True))
        return [stored[question] for question in questions]

    return on_ids(mechanism, report)


def remapped() -> Setting:
    """Replace reports by better ones without looking at the truth."""
    problem = places()
    mechanism = Mechanism.from_matrix(problem, exponential_matrix(problem))
    names, to = mechanism.outputs.ids(mechanism.records), best_outputs(mechanism, problem)

    def report(ids: list[Any]) -> list[str]:
        return [names[k] for k in to[mechanism.perturb_rows(mechanism.rows_of(ids))]]

    return on_ids(mechanism, report)


def uniform_reports() -> Setting:
    """Report every output equally often."""
    mechanism = uniform(line())
    return on_ids(mechanism, id_pipeline(mechanism), claim=lambda _x, _y: 0.0)


def constant_report() -> Setting:
    """Report the same output always."""
    mechanism = Mechanism.from_matrix(line(), constant_matrix(line()))
    return on_ids(mechanism, id_pipeline(mechanism), claim=lambda _x, _y: 0.0)


def unknown_words_masked() -> Setting:
    """Mask words outside the vocabulary, and do not keep case."""
    mechanism = vocabulary()
    known = set(mechanism.records.ids)

    def report(words: list[Any]) -> list[str]:
        return [mechanism.perturb(word.lower()) if word.lower() in known else "<unk>" for word in words]

    return Setting(report, word_neighbours(mechanism, n_pairs=N_FEW), word_claim(mechanism), n_draws=2_000)


SOUND = (
    exact_ids,
    exact_points,
    memory_of_answers,
    remapped,
    uniform_reports,
    constant_report,
    unknown_words_masked,
)
