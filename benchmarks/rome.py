"""Where the data of all of Rome is: the one place that knows."""

from __future__ import annotations

import os
from pathlib import Path

# METRICDP_ROME names the folder; otherwise it is looked for in a folder shared beside the repository
FOLDER = Path(os.environ.get("METRICDP_ROME", Path(__file__).resolve().parents[2] / "shared" / "data" / "rome"))
