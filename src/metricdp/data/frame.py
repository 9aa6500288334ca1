"""DataFrames out: pandas is imported only when somebody asks for one."""

from __future__ import annotations

from typing import Any

from metricdp.errors import MissingExtraError


def data_frame(data: Any, **options: Any) -> Any:
    """Return a pandas DataFrame of ``data``; an error that names the extra if pandas is not installed."""
    try:
        import pandas as pd  # noqa: PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError("pandas", "geo", "making a DataFrame") from None
    return pd.DataFrame(data, **options)
