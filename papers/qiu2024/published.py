"""The figures that the paper reports: mean and 1.96 standard deviations over 10 instances, None where it has none."""

from __future__ import annotations

DATASETS = ("road", "grid", "text", "synthetic")
METHODS = ("k-m-dv", "k-m-rec", "k-m-adj", "bsc")

Figure = tuple[float, float]
Cells = dict[str, dict[str, Figure | None]]


def _cells(*rows: tuple[Figure | None, ...]) -> Cells:
    return {dataset: dict(zip(METHODS, row, strict=True)) for dataset, row in zip(DATASETS, rows, strict=True)}


# Table 1: internal records per block
SUBPROBLEM_MEAN = _cells(
    ((9.5, 1.2), (10.1, 0.8), (17.7, 1.3), (15.4, 0.8)),
    ((4.7, 3.0), (3.7, 6.9), (14.9, 1.7), (3.0, 4.7)),
    ((12.6, 2.6), (4.9, 6.9), (44.7, 13.4), (33.0, 16.3)),
    ((9.6, 1.9), (10.2, 1.9), (8.5, 1.2), (8.4, 5.2)),
)
SUBPROBLEM_MAX = _cells(
    ((18.6, 8.9), (16.1, 10.1), (34.6, 12.5), (32.1, 15.3)),
    ((11.3, 5.5), (10.2, 7.6), (28.3, 11.0), (17.2, 10.3)),
    ((31.8, 6.4), (42.7, 16.4), (103.2, 30.4), (62.4, 38.4)),
    ((17.9, 2.9), (19.8, 5.1), (90.0, 24.6), (90.2, 56.6)),
)
# Table 2: records per component of the master
MASTER_MEAN = _cells(
    ((11.3, 6.0), (37.9, 24.7), (40.4, 34.3), (64.7, 14.5)),
    ((3.6, 2.9), (8.8, 4.3), (9.0, 60.9), (18.6, 3.3)),
    ((8.0, 4.4), (9.7, 9.2), (8.8, 84.2), (11.4, 16.2)),
    ((10.9, 4.3), (12.4, 8.7), (17.9, 9.0), (18.3, 9.2)),
)
MASTER_MAX = _cells(
    ((42.5, 46.8), (98.75, 44.4), (117.8, 59.2), (121.1, 79.1)),
    ((22.1, 3.4), (10.3, 5.1), (99.5, 95.1), (27.1, 4.2)),
    ((36.0, 15.4), (53.2, 25.4), (112.7, 85.4), (79.2, 34.2)),
    ((35.9, 45.5), (46.3, 48.5), (41.3, 32.4), (63.6, 41.0)),
)
# Table 3: seconds to a gap of 0.01; None: "max iter. ex."
SECONDS = _cells(
    ((290.7, 33.5), (1066.9, 154.4), None, None),
    ((161.4, 14.3), (159.8, 4.8), None, (238.2, 6.0)),
    ((27.2, 0.3), (925.0, 79.0), (58.7, 9.7), (1218.6, 78.3)),
    ((185.1, 23.9), (162.7, 12.0), None, (434.1, 21.1)),
)
# Table 4: iterations to a gap of 0.01; None: "at least 500"
ITERATIONS = _cells(
    ((128.0, 10.0), (180.0, 17.0), None, None),
    ((143.0, 4.0), (130.0, 6.0), None, (185.0, 7.0)),
    ((41.0, 6.0), (204.0, 19.0), (42.0, 5.0), (154.0, 14.0)),
    ((142.0, 11.0), (144.0, 15.0), None, (237.0, 19.0)),
)
CLASSIC_MAX_ITERATIONS = 10_000  # both classic LP solvers exceeded it on every dataset
BENDERS_MAX_ITERATIONS = 500

# by how many percent the expected loss is below the exponential mechanism's, mean over epsilon from 2 to 10
REDUCTION = {"road": 47.19, "grid": 46.99, "text": 22.49, "synthetic": 24.05}
# correlation of a subproblem's iterations to feasibility with its size
SIZE_CORRELATION = {"road": 0.712, "grid": 0.6264, "text": 0.1302, "synthetic": 0.6072}
# mean seconds of one solve with k-m-DV
MASTER_SECONDS, SUBPROBLEM_SECONDS = 1.505, 1.194
# seconds for 1,000 records: "about 30 minutes", "below 6 minutes"
SECONDS_AT_1000 = {"road": 1800.0, "grid": 360.0, "text": 360.0, "synthetic": 360.0}
MOST_ITERATIONS = 650

# The works in the paper's first figure. The figure's bars are not in its text: it says "up to 100 records" of most of
# them and "around 300" of two; None where it gives no number.
MOST_RELATED, RELATED_BY_COLUMNS, PAPER_RECORDS = 100, 300, 1_000
RELATED: dict[str, int | None] = {
    "CCS 2012 (Shokri)": MOST_RELATED,
    "CCS 2014 (Fawaz)": MOST_RELATED,
    "ICDM 2016 (Wang)": MOST_RELATED,
    "WWW 2017 (Wang)": MOST_RELATED,
    "NDSS 2017 (Yu)": MOST_RELATED,
    "ICDCS 2019 (Qiu)": MOST_RELATED,
    "CIKM 2020 (Qiu)": RELATED_BY_COLUMNS,
    "TMC 2022 (Qiu)": RELATED_BY_COLUMNS,
    "SIGSPATIAL 2022 (Qiu)": MOST_RELATED,
    "UAI 2022 (Imola)": None,
    "EDBT 2023 (Pappachan)": MOST_RELATED,
}
