"""What a user would run instead: the whole linear program by a general solver.

This file imports nothing of the library and each solver only when asked, since HiGHS and OR-tools cannot live in one
process: every peer runs in a process of its own (``benchmarks.worker``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = tuple[np.ndarray, np.ndarray | None, str]  # matrix, multipliers of the mDP rows (2P x K), the solver's status


@dataclass(frozen=True)
class Program:
    """The whole linear program: all outputs, both directions of every pair."""

    costs: np.ndarray  # prior times loss, N x K
    pairs: np.ndarray
    distances: np.ndarray
    epsilon: float

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tail, head and exp(epsilon d) of every direction of every pair: z[tail] <= growth z[head]."""
        tail = np.concatenate((self.pairs[:, 0], self.pairs[:, 1])).astype(np.int64)
        head = np.concatenate((self.pairs[:, 1], self.pairs[:, 0])).astype(np.int64)
        return tail, head, np.exp(self.epsilon * np.tile(self.distances, 2))

    @property
    def scale(self) -> float:
        """The largest cost, by which all are divided: solvers' tolerances are made for numbers around 1."""
        return float(self.costs.max()) or 1.0

    def inequalities(self) -> sparse.csr_matrix:
        """Return all mDP rows of one output, 2P x N."""
        tail, head, growth = self.ends
        rows = np.arange(len(tail))
        values = np.concatenate((np.ones(len(tail)), -growth))
        shape = (len(tail), len(self.costs))
        return sparse.csr_matrix((values, (np.tile(rows, 2), np.concatenate((tail, head)))), shape=shape)

    def all_inequalities(self) -> sparse.csr_matrix:
        """Return the rows of all outputs; the variable of record i and output k has the number i K + k."""
        return sparse.kron(self.inequalities(), sparse.identity(self.costs.shape[1]), format="csr")

    def sums(self) -> sparse.csr_matrix:
        """Return the rows by which probabilities sum to 1."""
        n, K = self.costs.shape
        return sparse.kron(sparse.identity(n), np.ones((1, K)), format="csr")


def highs(program: Program, algorithm: str, tolerance: float | None) -> Answer:
    """Solve with HiGHS; interior point methods without crossover, which would only cost time here."""
    import highspy

    if algorithm == "hipo":
        import highspy_extras  # noqa: F401  (without it HiGHS runs another algorithm)
    n, K = program.costs.shape
    matrix = sparse.vstack((program.sums(), program.all_inequalities()), format="csr")
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = n * K, matrix.shape[0]
    model.col_cost_ = program.costs.ravel() / program.scale
    model.col_lower_, model.col_upper_ = np.zeros(n * K), np.full(n * K, np.inf)
    model.row_lower_ = np.concatenate((np.ones(n), np.full(matrix.shape[0] - n, -np.inf)))
    model.row_upper_ = np.concatenate((np.ones(n), np.zeros(matrix.shape[0] - n)))
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_ = matrix.indptr, matrix.indices
    model.a_matrix_.value_ = matrix.data
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("solver", algorithm)
    if algorithm in ("ipx", "hipo"):
        solver.setOptionValue("run_crossover", "off")
    if algorithm == "pdlp" and tolerance is not None:
        solver.setOptionValue("pdlp_optimality_tolerance", tolerance)
        solver.setOptionValue("kkt_tolerance", tolerance)
    solver.passModel(model)
    solver.run()
    solution = solver.getSolution()
    word = solver.modelStatusToString(solver.getModelStatus())
    Z = np.array(solution.col_value).reshape(n, K)
    return Z, -np.array(solution.row_dual)[n:].reshape(-1, K), word


def linprog(program: Program, _tolerance: float | None) -> Answer:
    """Solve with scipy.optimize.linprog as its documentation shows it."""
    from scipy.optimize import linprog as solve

    n, K = program.costs.shape
    rows = program.all_inequalities()
    found = solve(
        program.costs.ravel() / program.scale,
        A_ub=rows,
        b_ub=np.zeros(rows.shape[0]),
        A_eq=program.sums(),
        b_eq=np.ones(n),
        bounds=(0, None),
        method="highs",
    )
    if found.x is None:
        raise RuntimeError(found.message)
    return found.x.reshape(n, K), -found.ineqlin.marginals.reshape(-1, K), found.message


def ortools_pdlp(program: Program, tolerance: float | None) -> Answer:
    from ortools.pdlp import solvers_pb2
    from ortools.pdlp.python import pdlp

    n, K = program.costs.shape
    matrix = sparse.vstack((program.sums(), program.all_inequalities()), format="csc")
    model = pdlp.QuadraticProgram()
    model.resize_and_initialize(n * K, matrix.shape[0])
    model.objective_vector = program.costs.ravel() / program.scale
    model.variable_lower_bounds, model.variable_upper_bounds = np.zeros(n * K), np.full(n * K, np.inf)
    model.constraint_matrix = matrix
    model.constraint_lower_bounds = np.concatenate((np.ones(n), np.full(matrix.shape[0] - n, -np.inf)))
    model.constraint_upper_bounds = np.concatenate((np.ones(n), np.zeros(matrix.shape[0] - n)))
    options = solvers_pb2.PrimalDualHybridGradientParams()
    criteria = options.termination_criteria.simple_optimality_criteria
    criteria.eps_optimal_absolute = criteria.eps_optimal_relative = tolerance or 1e-6
    found = pdlp.primal_dual_hybrid_gradient(model, options)
    word = str(found.solve_log.termination_reason)
    return found.primal_solution.reshape(n, K), -found.dual_solution[n:].reshape(-1, K), word


def clarabel(program: Program, _tolerance: float | None) -> Answer:
    """Solve with CVXPY and Clarabel, written in the usual way."""
    import cvxpy

    Z = cvxpy.Variable(program.costs.shape, nonneg=True)
    rows = program.inequalities() @ Z <= 0
    objective = cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(program.costs / program.scale, Z)))
    problem = cvxpy.Problem(objective, [cvxpy.sum(Z, axis=1) == 1, rows])
    problem.solve(solver=cvxpy.CLARABEL)
    if Z.value is None:
        raise RuntimeError(f"no answer: {problem.status}")
    return Z.value, rows.dual_value, problem.status


def qif(program: Program, _tolerance: float | None) -> Answer:
    """Solve with libqif's optimal mechanism for a given d; it takes functions, and returns no multipliers."""
    import qif as library

    n, K = program.costs.shape
    allowed = np.full((n, n), np.inf)
    i, j = program.pairs[:, 0], program.pairs[:, 1]
    allowed[i, j] = allowed[j, i] = program.epsilon * program.distances
    np.fill_diagonal(allowed, 0.0)
    loss = n * program.costs / program.scale  # the prior is in the costs already
    Z = library.mechanism.d_privacy.min_loss_given_d(
        np.full(n, 1.0 / n), K, lambda x, y: float(allowed[x, y]), lambda x, y: float(loss[x, y])
    )
    Z = np.array(Z)
    if Z.shape != (n, K):
        raise RuntimeError(f"no answer: a matrix of shape {Z.shape} came back")
    return Z, None, "no word"


PEERS: dict[str, Callable[[Program, float | None], Answer]] = {
    "HiGHS simplex": lambda program, tolerance: highs(program, "simplex", tolerance),
    "HiGHS IPX": lambda program, tolerance: highs(program, "ipx", tolerance),
    "HiGHS HiPO": lambda program, tolerance: highs(program, "hipo", tolerance),
    "HiGHS PDLP": lambda program, tolerance: highs(program, "pdlp", tolerance),
    "scipy linprog": linprog,
    "OR-tools PDLP": ortools_pdlp,
    "CVXPY Clarabel": clarabel,
    "libqif": qif,
}
ITERATIVE_PEERS = ("HiGHS PDLP", "OR-tools PDLP")  # their tolerance follows from the gap; the others have one accuracy
TOLERANCE_PER_GAP = 1e-2
