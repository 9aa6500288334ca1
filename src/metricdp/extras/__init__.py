"""Mechanisms for other libraries: a scikit-learn transformer and an OpenDP measurement, imported when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metricdp.extras.estimator import MetricPrivacy
    from metricdp.extras.measurement import make_measurement

__all__ = ["MetricPrivacy", "make_measurement"]


def __getattr__(name: str) -> Any:
    # scikit-learn takes two seconds to import, and OpenDP need not be there
    if name == "MetricPrivacy":
        from metricdp.extras.estimator import MetricPrivacy  # noqa: PLC0415

        return MetricPrivacy
    if name == "make_measurement":
        from metricdp.extras.measurement import make_measurement  # noqa: PLC0415

        return make_measurement
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
