"""What a result says of the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux keeps the peak there")
def test_the_peak_is_not_that_of_the_process_that_started_it():
    own = np.ones(100_000_000)  # 800 MB, touched
    code = "from metricdp.solve.result import peak_megabytes; print(peak_megabytes())"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 20.0 < float(seen.stdout) < own.nbytes / 1e6


def test_the_peak_grows_with_what_is_held():
    code = (
        "import numpy as np; from metricdp.solve.result import peak_megabytes as peak; "
        "before = peak(); own = np.ones(50_000_000); del own; print(peak() - before)"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 300.0 < float(seen.stdout) < 800.0
