"""A mechanism as a measurement of OpenDP, to be composed and accounted for there."""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from metricdp.budget.amounts import round_up
from metricdp.budget.store import is_number
from metricdp.errors import InputError, MissingExtraError
from metricdp.mechanism.plane import AT_PLACES, check_of_records

if TYPE_CHECKING:
    from metricdp.mechanism.mechanism import Mechanism


def make_measurement(mechanism: Mechanism) -> Any:
    """Return ``mechanism`` as a user-defined OpenDP measurement: from a record id to the id of a drawn output.

    What the privacy map means: the input distance is the length of the shortest path between two records in the
    mechanism's graph of neighbours, in the metric's unit (km for places), and the map gives ``epsilon * d_in``, rounded
    up. That is a bound on the max divergence between the reports of any two records that far apart, which the exact
    check has proved. It is not the epsilon of a change of one person in a data set: a budget of 1 here hides a
    record among those at path distance ``1 / epsilon``. Records that no path joins have no finite distance, and the map
    promises nothing for them; records without any neighbour are not members of the domain.

    Domain and metric carry the hash of the records, their pairs and distances, so that OpenDP refuses to compose
    mechanisms over different lists: the same two ids can be far apart in one and close together in another.

    OpenDP cannot check such a measurement, so its features ``contrib`` and ``honest-but-curious`` must be enabled
    (``opendp.prelude.enable_features``); this function does not do it for you. The draws come from the operating
    system's randomness, as in `Mechanism.perturb`.
    """
    check_of_records(mechanism, AT_PLACES)
    try:
        import opendp.prelude as dp  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("opendp", "opendp", "a measurement of OpenDP") from None
    promise = mechanism.guarantee
    known = frozenset(
        name for name, is_alone in zip(mechanism.records.ids, promise.is_isolated, strict=True) if not is_alone
    )
    if not known:
        raise InputError("no record of this mechanism has a neighbour, so nothing is protected: choose a larger eta")
    what = f"{mechanism.metric}, records {promise.records_hash}"
    return dp.m.make_user_measurement(
        input_domain=dp.user_domain(f"RecordIds({what})", member=lambda name: name in known, descriptor=known),
        input_metric=dp.user_distance(f"PathDistance({what})"),
        output_measure=dp.max_divergence(),
        function=lambda name: mechanism.perturb(str(name)),
        privacy_map=lambda d_in: privacy_map(mechanism, d_in),
    )


def privacy_map(mechanism: Mechanism, d_in: Any) -> float:
    """Return ``epsilon * d_in``, rounded up: a bound on the max divergence for records at path distance ``d_in``."""
    if not is_number(d_in) or not d_in >= 0:
        raise InputError(f"a distance must be a number, zero or more, got {d_in!r}")
    if d_in == math.inf:
        return math.inf
    exact = Fraction(d_in) if isinstance(d_in, numbers.Rational) else Fraction(float(d_in))
    return round_up(Fraction(mechanism.epsilon) * exact)
