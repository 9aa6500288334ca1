"""Linear programs by HiGHS. This is the only file that imports the LP solver.

No result of the LP solver is trusted: points are repaired and certified, duals are cleaned and give bounds by a
formula that is valid for any dual.
"""

from __future__ import annotations

import atexit
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import highspy
import numpy as np

from metricdp.errors import InfeasibleError, InputError, MissingExtraError, OutOfRoomError, SolverError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from metricdp.solve.stop import Stop

ALGORITHMS = ("simplex", "ipx", "hipo")
SMALLEST_COEFFICIENT = 1e-9  # HiGHS drops smaller ones silently
LARGEST_COEFFICIENT = 1e15  # and takes larger ones for infinite
# Bytes of HiGHS, measured: of a program of its own, and of each column, row and entry once it is solved. It holds a
# program as given and scaled, by rows and by columns, work vectors as long as all rows, and the factors of its basis.
SOLVER_BYTES = 10e6  # the code and the tables of HiGHS
PROGRAM_BYTES, COLUMN_BYTES, ROW_BYTES, NONZERO_BYTES = 80e3, 440.0, 2_200.0, 60.0
LISTEN_SECONDS = 0.05  # between two looks at the stop flag
GRACE_SECONDS = 0.5  # for a run that should have ended; HiPO may not react for a minute
N_ATTEMPTS = 4  # solves before a program counts as failed
DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4
# simplex edge weights; steepest-edge weights are recomputed after rows are added, which costs more than the iterations
CHOSEN_BY_HIGHS, DEVEX = -1, 1
HOT_START_SECONDS = 2.0  # that a hot start may take in any case
HOT_START_RATIO = 3.0  # times the longest cold start so far that a hot start may take
STOPPED_STATUSES = (highspy.HighsModelStatus.kTimeLimit, highspy.HighsModelStatus.kInterrupt)


@dataclass(frozen=True)
class LpSolution:
    """A point and a dual of a linear program, with the solver's status.

    ``is_optimal`` is False when a limit stopped the solver; the values are then those of its last iterate.
    """

    is_optimal: bool
    x: NDArray[np.float64]
    row_dual: NDArray[np.float64]
    solver_status: str
    iterations: int


def lp_bytes(columns: float, rows: float, nonzeros: float) -> float:
    """Return the bytes that HiGHS takes for a linear program."""
    return PROGRAM_BYTES + COLUMN_BYTES * columns + ROW_BYTES * rows + NONZERO_BYTES * nonzeros


class LinearProgram:
    """Minimise ``cost @ x`` subject to column bounds and rows; rows can be added between solves (hot start)."""

    def __init__(
        self,
        cost: NDArray[np.float64],
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        *,
        algorithm: str = "simplex",
        tolerance: float = 1e-9,
        is_primal: bool = False,
        is_hot_started: bool = True,
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise InputError(f"unknown LP algorithm {algorithm!r}: choose one of {', '.join(ALGORITHMS)}")
        if algorithm == "hipo" and find_spec("highspy_extras") is None:
            # without it HiGHS would silently run another algorithm
            raise MissingExtraError("highspy-extras", "hipo", "the interior point solver HiPO")
        self.n_columns = len(cost)
        self.n_rows = 0
        self._n_nonzeros = 0
        self._bytes = 0.0  # as of the last solve
        self.algorithm = algorithm
        self._patience = np.inf
        self._highs = highspy.Highs()
        self._set("output_flag", False)
        self._set("threads", 1)  # fixed for the process: HiGHS cannot change it, and simplex and IPX use one
        self._set("primal_feasibility_tolerance", tolerance)
        self._set("dual_feasibility_tolerance", tolerance)
        self._set("solver", algorithm)
        self._pricing = DEVEX if is_hot_started else CHOSEN_BY_HIGHS
        self._set("simplex_dual_edge_weight_strategy", self._pricing)
        self.is_primal = is_primal
        if algorithm != "simplex":
            self._set("run_crossover", "off")
            self._set("ipm_optimality_tolerance", 1e-8)
            self._highs.HandleUserInterrupt = True
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.n_columns, 0
        model.col_cost_, model.col_lower_, model.col_upper_ = cost, lower, upper
        model.row_lower_, model.row_upper_ = np.zeros(0), np.zeros(0)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.zeros(1, dtype=np.int32)
        model.a_matrix_.index_, model.a_matrix_.value_ = np.zeros(0, dtype=np.int32), np.zeros(0)
        self._check(self._highs.passModel(model), "taking the model")

    def add_rows(
        self,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        starts: NDArray[np.int32],
        indices: NDArray[np.int32],
        values: NDArray[np.float64],
    ) -> None:
        """Add rows in compressed form; every coefficient must be one that HiGHS keeps."""
        size = np.abs(values)
        if values.size and not (size.min() >= SMALLEST_COEFFICIENT and size.max() <= LARGEST_COEFFICIENT):
            raise SolverError(
                f"LP coefficients range from {size.min():.3g} to {size.max():.3g}, outside the range "
                f"{SMALLEST_COEFFICIENT:g} to {LARGEST_COEFFICIENT:g} that the LP solver keeps"
            )
        status = self._highs.addRows(
            len(lower), lower, upper, len(values), starts.astype(np.int32), indices.astype(np.int32), values
        )
        self._check(status, "adding rows")
        self.n_rows += len(lower)
        self._n_nonzeros += len(values)
        if self._highs.getNumRow() != self.n_rows:
            raise SolverError(f"the LP solver kept {self._highs.getNumRow()} of {self.n_rows} rows")

    def add_columns(
        self,
        cost: NDArray[np.float64],
        starts: NDArray[np.int32],
        indices: NDArray[np.int32],
        values: NDArray[np.float64],
    ) -> None:
        """Add non-negative columns in compressed form."""
        m = len(cost)
        status = self._highs.addCols(
            m,
            cost,
            np.zeros(m),
            np.full(m, np.inf),
            len(values),
            starts.astype(np.int32),
            indices.astype(np.int32),
            values,
        )
        self._check(status, "adding columns")
        self.n_columns += m
        self._n_nonzeros += len(values)

    def limit_hot_starts(self, seconds: float = HOT_START_SECONDS) -> None:
        """Solve from scratch when a hot start takes longer than ``seconds``, or much longer than from scratch."""
        self._patience = seconds

    def set_bounds(self, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> None:
        """Change the bounds of the first ``len(lower)`` columns."""
        columns = np.arange(len(lower), dtype=np.int32)
        self._check(self._highs.changeColsBounds(len(columns), columns, lower, upper), "changing bounds")

    def set_costs(self, cost: NDArray[np.float64]) -> None:
        """Change the costs of the first ``len(cost)`` columns."""
        columns = np.arange(len(cost), dtype=np.int32)
        self._check(self._highs.changeColsCost(len(columns), columns, cost), "changing costs")

    def solve(self, *, stop: Stop | None = None) -> LpSolution:
        """Solve, from the last basis if there is one; again from scratch if the solver fails.

        With ``stop`` the solver ends at its deadline or soon after a request; the solution says so. OutOfRoomError
        is raised if the additions since the last solve would take more memory than ``stop`` allows.
        """
        if stop is not None:
            self.look_for_room(stop)
        self._bytes = self._needed()
        for attempt in range(N_ATTEMPTS):
            self._prepare(attempt)
            begin = time.monotonic()
            if not self._run(stop, at_most=self._patience if attempt == 0 else np.inf):
                return LpSolution(False, np.zeros(self.n_columns), np.zeros(self.n_rows), "abandoned", 0)
            status = self._highs.getModelStatus()
            self._recover(attempt)
            if attempt > 0:
                self._patience = max(self._patience, HOT_START_RATIO * (time.monotonic() - begin))
            if status == highspy.HighsModelStatus.kTimeLimit and attempt == 0 and not (stop and stop.is_due):
                continue  # a hot start that stalls: solve from scratch
            if status == highspy.HighsModelStatus.kOptimal:
                return self._solution(is_optimal=True)
            if status in STOPPED_STATUSES or (stop is not None and stop.is_due):
                return self._solution(is_optimal=False)
            if status == highspy.HighsModelStatus.kInfeasible and attempt > 0:
                raise InfeasibleError("the linear program has no solution")
        raise SolverError(f"the LP solver gave up: {self._highs.modelStatusToString(status)}")

    def look_for_room(self, stop: Stop, more_rows: int = 0) -> None:
        """Raise OutOfRoomError if the additions since the last solve, and ``more_rows`` mDP rows, would not fit.

        HiGHS takes most of its memory when it solves, not when it is given rows.
        """
        needed = self._needed(more_rows) - self._bytes
        if needed > 0.0 and not stop.has_room(needed):
            raise OutOfRoomError(
                f"a linear program of {self.n_columns:,} columns and {self.n_rows + more_rows:,} rows would not fit: "
                f"it needs {needed / 1e9:.2f} GB more, and {stop.room / 1e9:.2f} are left"
            )

    def _needed(self, more_rows: int = 0) -> float:
        return lp_bytes(self.n_columns, self.n_rows + more_rows, self._n_nonzeros + 2.0 * more_rows)

    def _prepare(self, attempt: int) -> None:
        """Prepare another attempt: drop the basis at first, then change the algorithm's settings."""
        if attempt > 0:
            self._highs.clearSolver()
            self._set("simplex_strategy", DUAL_SIMPLEX)
        if attempt == 2:
            self._set("presolve", "off")
            self._set("simplex_dual_edge_weight_strategy", CHOSEN_BY_HIGHS)
        elif attempt == 3:
            self._set("solver", "ipx")
            self._set("run_crossover", "on")

    def _recover(self, attempt: int) -> None:
        """Restore the usual settings after an attempt."""
        if self.is_primal:
            # new columns and new costs leave the point feasible: continue from it by the primal simplex method
            self._set("simplex_strategy", PRIMAL_SIMPLEX)
        if attempt == 2:
            self._set("presolve", "choose")
            self._set("simplex_dual_edge_weight_strategy", self._pricing)
        elif attempt == 3 and self.algorithm == "simplex":
            self._set("solver", "simplex")

    def write(self, path: Path) -> None:
        """Write the LP to a file that the solver's maintainers can read."""
        self._check(self._highs.writeModel(str(path)), f"writing the LP to {path}")

    def _solution(self, *, is_optimal: bool) -> LpSolution:
        solution, info = self._highs.getSolution(), self._highs.getInfo()
        x = np.array(solution.col_value, dtype=np.float64)
        dual = np.array(solution.row_dual, dtype=np.float64)
        if x.shape != (self.n_columns,) or not np.isfinite(x).all():
            x = np.zeros(self.n_columns)
        if dual.shape != (self.n_rows,) or not np.isfinite(dual).all():
            dual = np.zeros(self.n_rows)
        status = self._highs.modelStatusToString(self._highs.getModelStatus())
        iterations = max(info.simplex_iteration_count, 0) + max(info.ipm_iteration_count, 0)
        return LpSolution(is_optimal, x, dual, status, iterations)

    def _run(self, stop: Stop | None, *, at_most: float) -> bool:
        """Run the solver; return False if it did not end when it had to: the model must not be used then."""
        seconds = min(at_most, np.inf if stop is None else stop.seconds_left)
        # HiGHS counts the run time of all runs of a model together
        self._set("time_limit", self._highs.getRunTime() + max(seconds, 0.01))
        if stop is None:
            self._highs.run()
            return True
        with stop.telling(self._hurry):
            if threading.current_thread() is not threading.main_thread():
                self._highs.run()
                return True
            # in a thread, so that this one can handle Ctrl-C
            thread = threading.Thread(target=self._highs.run, daemon=True)
            thread.start()
            due = np.inf
            while thread.is_alive() and time.monotonic() < due + GRACE_SECONDS:
                thread.join(LISTEN_SECONDS)
                due = min(due, time.monotonic()) if stop.is_due else np.inf
            if thread.is_alive():
                _abandoned.append(thread)
            return not thread.is_alive()

    def _hurry(self) -> None:
        """End a run in progress: its time limit is read between iterations and in presolve."""
        self._highs.setOptionValue("time_limit", 0.0)
        self._highs.cancelSolve()  # interior point methods read their limit at the start only, but check this

    def _set(self, option: str, value: object) -> None:
        self._check(self._highs.setOptionValue(option, value), f"setting {option} to {value}")

    @staticmethod
    def _check(status: object, action: str) -> None:
        if status == highspy.HighsStatus.kError:
            raise SolverError(f"the LP solver refused {action}")


_abandoned: list[threading.Thread] = []


def is_busy() -> bool:
    """Return whether a run is still going that should have ended."""
    return any(thread.is_alive() for thread in _abandoned)


@atexit.register
def _wait_for_abandoned() -> None:
    """Wait at the end of the process: a solver whose memory is freed while it runs would crash the process."""
    for thread in _abandoned:
        thread.join()
