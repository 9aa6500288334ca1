"""Every plot is drawn for real, with labelled axes and the numbers that it should show."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import InputError, MissingExtraError
from metricdp.partition import make_partition
from metricdp.report.plots import (
    LARGEST_DISC_AREA,
    plot_convergence,
    plot_loss,
    plot_mechanism,
    plot_record,
    plot_sweep,
)

NASTY = "$x_{</script>}$ " + "long " * 20


@pytest.fixture(autouse=True)
def _closed():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def results():
    records = mdp.data.grid(3, 4)
    return [mdp.solve(mdp.Problem(records, epsilon=e, eta=2.0, outputs=6), method="direct") for e in (2.0, 0.5, 1.0)]


@pytest.fixture(scope="module")
def streets():
    problem = mdp.Problem(mdp.data.road("gothenburg", n=60, seed=3), epsilon=2.0, eta=1.0, outputs=12)
    return problem, mdp.exponential(problem)


def rendered(axes):
    """Draw the figure; give its axes if they are labelled and some ink was used."""
    axes.figure.canvas.draw()
    pixels = np.asarray(axes.figure.canvas.buffer_rgba())
    assert len(np.unique(pixels.reshape(-1, 4), axis=0)) > 10
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert axes.get_title()
    return axes


def test_the_heat_map_shows_every_probability(results):
    mechanism = results[0].mechanism
    axes = rendered(mechanism.plot())
    shown = np.asarray(axes.images[0].get_array())
    assert shown.shape == mechanism.table.shape
    assert np.sort(shown.ravel()) == pytest.approx(np.sort(np.maximum(mechanism.probabilities, 1e-6).ravel()))


def test_one_record_is_drawn_on_the_streets(streets):
    problem, mechanism = streets
    name = problem.records.ids[7]
    axes = rendered(mechanism.plot(name))
    assert name in axes.get_title()
    assert len(axes.collections[0].get_segments()) == problem.records.streets.n_edges
    assert axes.collections[2].get_sizes() == pytest.approx(LARGEST_DISC_AREA * mechanism.probabilities[7])
    assert np.asarray(axes.collections[3].get_offsets())[0] == pytest.approx(problem.records.coordinates[7, ::-1])


def test_one_word_is_drawn_as_bars_of_the_likeliest_reports():
    records = mdp.data.words(n=40)
    named = mdp.Records(records.coordinates, ids=[NASTY, *records.ids[1:]], kind="vectors", name="words")
    mechanism = mdp.exponential(mdp.Problem(named, epsilon=0.5, eta=6.0, outputs=30))
    axes = rendered(plot_record(mechanism, NASTY))
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == pytest.approx(np.sort(mechanism.probabilities[0])[-20:])


def test_an_unknown_record_is_named(results):
    with pytest.raises(InputError, match="is not a record of this mechanism"):
        plot_mechanism(results[0].mechanism, "nowhere")


def test_the_bounds_of_a_run(results):
    axes = rendered(results[0].plot())
    heights = [line.get_ydata()[0] for line in axes.lines]
    assert heights == pytest.approx([results[0].lower_bound, results[0].loss])


def test_the_bounds_of_each_component():
    rows = [
        {"seconds": 0.1, "stage": "benders", "component": 4, "lower_bound": 0.2, "upper_bound": float("inf")},
        {"seconds": 0.4, "stage": "benders", "component": 4, "lower_bound": 0.5, "upper_bound": 0.9},
        {"seconds": 0.5, "stage": "certified", "lower_bound": 1.0, "loss": 1.5},
    ]
    axes = rendered(plot_convergence(rows))
    assert [line.get_ydata().tolist() for line in axes.lines] == [[0.2, 0.5], [0.9]]
    assert "1.5" in axes.get_title()
    with pytest.raises(InputError, match="holds no bounds"):
        plot_convergence([{"seconds": 0.1, "stage": "start"}])


def test_the_partition_with_its_boundary(streets):
    problem, _ = streets
    partition = make_partition(problem.records, problem.metric, problem.graph, n_blocks=5)
    axes = rendered(partition.plot(problem.records))
    lines, internal, boundary = axes.collections
    assert len(lines.get_segments()) == len(partition.cut_edges)
    assert len(boundary.get_offsets()) == len(partition.boundary)
    assert len(internal.get_offsets()) + len(boundary.get_offsets()) == problem.n_records


def test_the_loss_falls_with_epsilon(results):
    axes = rendered(plot_loss(results))
    budgets, losses = axes.lines[0].get_data()
    assert budgets.tolist() == [0.5, 1.0, 2.0]
    assert (np.diff(losses) < 0).all()
    with pytest.raises(InputError, match="nothing to draw"):
        plot_loss([])


def test_axes_of_the_users_own_are_used(results):
    _, mine = plt.subplots()
    assert results[0].plot(axes=mine) is mine


def test_without_matplotlib_the_extra_is_named(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'pip install "metricdp\[plot\]"'):
        results[0].plot()


def test_notebooks_show_escaped_html(results, streets):
    problem, _ = streets
    records = mdp.Records([[0.0, 0.0], [1.0, 0.0]], kind="vectors", name="<img src=x onerror=alert(1)>")
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=2.0, outputs=2))
    html = mechanism._repr_html_()
    assert "<img" not in html
    assert "&lt;img src=x" in html
    assert "Private: every one of 1 neighbour pairs" in html
    assert f"{results[0].loss:.6g}" in results[0]._repr_html_()
    partition = make_partition(problem.records, problem.metric, problem.graph, n_blocks=5)
    assert f">{len(partition.boundary)} (two-sided)</td>" in partition._repr_html_()


def test_records_problems_and_comparisons_show_escaped_html():
    bad = "<script>alert(1)</script>"
    records = mdp.Records(np.arange(14.0).reshape(7, 2), ids=[bad, *"bcdefg"], kind="vectors", name=bad)
    problem = mdp.Problem(records, epsilon=1.0, eta="connect", outputs=7)
    table = mdp.evaluate.compare({bad: np.eye(7)}, problem, ["exponential"])
    for shown in (records, problem, table):
        html = shown._repr_html_()
        assert "<script" not in html
        assert "&lt;script&gt;" in html
    assert ">2 more</td>" in records._repr_html_()
    assert f"{problem.graph.n_pairs} pairs within" in problem._repr_html_()
    assert "NOT certified" in table._repr_html_()
    assert f">{table.rows[1].loss:.6g}</td>" in table._repr_html_()


def test_a_sweep_marks_the_points_that_are_not_certified():
    """A matrix made for epsilon 1 is private at 1 and 2, and not at 0.5."""
    problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0)
    fixed = mdp.exponential(problem).probabilities
    found = mdp.evaluate.sweep(problem, [0.25, 2.0], {"mine": lambda _: fixed, "optimal": "optimal"})
    assert [point.certified for point in found.points if point.name == "mine"] == [False, True]
    canvas = plot_sweep(found)
    marked = [one for one in canvas.collections if one.get_label() == "mine: not certified"]
    assert [one.get_offsets()[:, 0].tolist() for one in marked] == [[0.25]]
    assert [line.get_label() for line in canvas.lines] == ["mine", "optimal"]
