"""Broken pipelines: real faults around a certified mechanism, each of which the auditor must catch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.records import Records
from metricdp.evaluate.auditor.auditor import Neighbours
from metricdp.evaluate.auditor.claims import point_claim, word_claim
from metricdp.evaluate.auditor.examples import (
    N_FEW,
    Setting,
    arms,
    from_table,
    line,
    on_ids,
    optimal,
    places,
    snapping,
    straight_claim,
    vocabulary,
)
from metricdp.evaluate.auditor.neighbours import point_neighbours, word_neighbours
from metricdp.evaluate.auditor.pipelines import id_pipeline
from metricdp.mechanism.baselines import exponential_matrix
from metricdp.mechanism.sample import seeded_bits_for_experiments_only, system_bits
from metricdp.mechanism.snap import nearest_records
from metricdp.metric.distances import CoordinateMetric
from metricdp.problem.loss import distance_loss
from metricdp.problem.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

KM_PER_DEGREE = 111.195  # along a meridian


# what breaks the promise around a certified mechanism


def horseshoe_snapping() -> Setting:
    """Snap points on the two arms of a horseshoe, and claim epsilon (d + s + s')."""
    mechanism = arms(joined=True)
    pairs = point_neighbours(mechanism, limit=0.7, n_pairs=N_FEW)
    return Setting(snapping(mechanism), pairs, straight_claim(mechanism))


def two_components_snapping() -> Setting:
    """Snap points across two components whose cells touch, and claim epsilon (d + s + s')."""
    mechanism = arms(joined=False)
    pairs = point_neighbours(mechanism, limit=0.7, n_pairs=N_FEW)
    return Setting(snapping(mechanism), pairs, straight_claim(mechanism))


def tripled_distances() -> Setting:
    """Multiply the distances by 3 before solving, and claim epsilon for the true ones."""
    problem = line()
    stretched = Records(3.0 * problem.records.coordinates, ids=problem.records.ids, kind="vectors")
    mechanism = optimal(Problem(stretched, epsilon=problem.epsilon, eta=3.0 * problem.eta))
    return on_ids(optimal(problem), id_pipeline(mechanism))


def edited_table() -> Setting:
    """Move three tenths of one row to the truth after the table was certified."""
    mechanism = optimal(line())
    table = mechanism.probabilities
    table[3] *= 0.7
    table[3, 3] += 0.3
    return on_ids(mechanism, from_table(mechanism, table))


def renormalised() -> Setting:
    """Remove outputs far from the truth and normalise the rows again."""
    mechanism = optimal(line())
    far = distance_loss(mechanism.records, mechanism.outputs, CoordinateMetric(mechanism.metric)) > 2.5
    return on_ids(mechanism, from_table(mechanism, np.where(far, 0.0, mechanism.probabilities)))


def rounded_to_zero() -> Setting:
    """Round probabilities to one digit, so that some become zero."""
    mechanism = optimal(line())
    return on_ids(mechanism, from_table(mechanism, np.round(mechanism.probabilities, 1)))


def full_rate_exponential() -> Setting:
    """Use epsilon where the formula of the exponential mechanism has epsilon / 2."""
    problem = line()
    ends = Problem(problem.records, epsilon=2.0 * problem.epsilon, eta=problem.eta, outputs=[0, 7])
    claimed = optimal(Problem(problem.records, epsilon=problem.epsilon, eta=problem.eta, outputs=[0, 7]))
    return on_ids(claimed, from_table(claimed, exponential_matrix(ends)), n_draws=20_000)


def degrees_as_a_plane() -> Setting:
    """Take degrees for a plane with 111 km each, far from the equator, and claim epsilon per km."""
    mechanism = optimal(places())
    flat = KM_PER_DEGREE * mechanism.records.coordinates
    made = optimal(Problem(Records(flat, kind="vectors"), epsilon=mechanism.epsilon, eta=1.2, outputs=16))
    return on_ids(mechanism, id_pipeline(made))


def isolated_record() -> Setting:
    """Report a record without neighbours as itself, and claim epsilon times the distance for all records."""
    points = np.array([0.0, 1.0, 2.0, 3.0, 5.0])[:, None]
    mechanism = optimal(Problem(Records(points, kind="vectors"), epsilon=0.7, eta=1.5, outputs=5))
    return on_ids(
        mechanism,
        lambda ids: [str(k) for k in mechanism.perturb_rows(mechanism.rows_of(ids), allow_unprotected=True)],
        pairs=[Neighbours("3", "4", "a record and one without neighbours")],
        claim=lambda x, y: mechanism.epsilon * abs(float(points[int(x), 0] - points[int(y), 0])),
    )


# what breaks it in the way reports are drawn


def same_seed() -> Setting:
    """Start the generator from the same seed at every call."""
    mechanism = optimal(line())

    def report(ids: list[Any]) -> Sequence[Any]:
        return from_table(mechanism, mechanism.probabilities, bits=seeded_bits_for_experiments_only(1))(ids)

    return on_ids(mechanism, report)


def one_number_per_batch() -> Setting:
    """Use one random number for a whole batch."""
    mechanism = optimal(line())
    once = from_table(mechanism, mechanism.probabilities, bits=lambda n: np.repeat(system_bits(1), n))
    return on_ids(mechanism, once)


def redrawn_until_different() -> Setting:
    """Draw a report that equals the truth again until it differs."""
    mechanism = optimal(line())
    table = mechanism.probabilities
    np.fill_diagonal(table, 0.0)  # what drawing again amounts to
    return on_ids(mechanism, from_table(mechanism, table))


def average_of_five() -> Setting:
    """Report the average of five draws, and claim the budget of one."""
    mechanism = optimal(line())

    def report(ids: list[Any]) -> list[float]:
        drawn = mechanism.perturb_rows(np.repeat(mechanism.rows_of(ids), 5)).reshape(-1, 5)
        return [round(float(value), 6) for value in mechanism.outputs.coordinates[drawn, 0].mean(axis=1)]

    return on_ids(mechanism, report, outputs=None)


def far_points_dropped() -> Setting:
    """Leave out points far from every record without a word, and make a claim for all points."""
    mechanism = optimal(line())
    metric, limit = CoordinateMetric(mechanism.metric), 0.6

    def report(points: list[Any]) -> Sequence[Any]:
        _, distances = nearest_records(np.array(points), mechanism.records, metric)
        near = [point for point, far in zip(points, distances > limit, strict=True) if not far]
        return snapping(mechanism)(near) if near else []

    pairs = point_neighbours(mechanism, limit=limit, n_pairs=N_FEW)
    return Setting(report, pairs, straight_claim(mechanism))


def true_digits_kept() -> Setting:
    """Add the last digits of the true coordinates to the report."""
    mechanism = optimal(places())
    snapped, place_of = (
        snapping(mechanism),
        dict(zip(mechanism.records.ids, mechanism.records.coordinates, strict=True)),
    )

    def report(points: list[Any]) -> list[tuple[float, float]]:
        places = np.array([place_of[name] for name in snapped(points)])
        given = np.array(points)
        return [(float(lat), float(lon)) for lat, lon in places + (given - np.round(given, 3))]

    pairs = point_neighbours(mechanism, limit=0.5, n_pairs=N_FEW)
    return Setting(report, pairs, point_claim(mechanism, limit=0.5))


def unknown_words_written() -> Setting:
    """Write words outside the vocabulary as they are."""
    mechanism = vocabulary()
    known = set(mechanism.records.ids)

    def report(words: list[Any]) -> list[str]:
        return [mechanism.perturb(word.lower()) if word.lower() in known else word for word in words]

    return Setting(report, word_neighbours(mechanism, n_pairs=N_FEW), word_claim(mechanism), n_draws=2_000)


BROKEN = (
    horseshoe_snapping,
    two_components_snapping,
    tripled_distances,
    edited_table,
    renormalised,
    rounded_to_zero,
    full_rate_exponential,
    degrees_as_a_plane,
    isolated_record,
    same_seed,
    one_number_per_batch,
    redrawn_until_different,
    average_of_five,
    far_points_dropped,
    true_digits_kept,
    unknown_words_written,
)
