"""The paper's experiments, one file per table or figure, on the exact problem.

C. Qiu, Enhancing Scalability of Metric Differential Privacy via Secret Dataset Partitioning and Benders Decomposition,
IJCAI 2024.
"""

from papers.qiu2024.run import EXPERIMENTS, run_paper
from papers.qiu2024.scale import FULL, QUICK, Scale

__all__ = ["EXPERIMENTS", "FULL", "QUICK", "Scale", "run_paper"]
