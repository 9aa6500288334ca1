"""The paper's experiments, one file per table or figure, on the exact problem.

C. Qiu, Enhancing Scalability of Metric Differential Privacy via Secret Dataset Partitioning and Benders Decomposition,
IJCAI 2024.
"""

from metricdp.paper.run import EXPERIMENTS, run_paper
from metricdp.paper.scale import FULL, QUICK, Scale

__all__ = ["EXPERIMENTS", "FULL", "QUICK", "Scale", "run_paper"]
