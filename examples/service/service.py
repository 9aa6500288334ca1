"""A trusted edge: a service that perturbs people's places and charges each report to a ledger first.

``METRICDP_FILE=city.mdp METRICDP_LEDGER=budget.db METRICDP_KEY=budget.key uvicorn service:app --no-access-log``

The place comes in the body of a POST, never in the address, which servers and proxies write to their logs. Nothing here
logs, stores or repeats it: errors name no value. Whoever runs this process sees the true places; see docs/deploy.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

import metricdp as mdp

MECHANISM = mdp.load(os.environ["METRICDP_FILE"])
LIMIT_KM = float(os.environ.get("METRICDP_SNAP_LIMIT", "0.5"))
MECHANISM.guarantee.for_points(LIMIT_KM).check()  # whatever the points are: do not start without the promise
LEDGER = mdp.Ledger(os.environ["METRICDP_LEDGER"], key=Path(os.environ["METRICDP_KEY"]), must_exist=True)

app = FastAPI(title="Perturbed places", docs_url=None, redoc_url=None, openapi_url=None)


class Place(BaseModel):
    """Where a person is."""

    latitude: float = Field(ge=-90, le=90, allow_inf_nan=False)
    longitude: float = Field(ge=-180, le=180, allow_inf_nan=False)


@app.exception_handler(RequestValidationError)
def refuse_body(_: Request, __: RequestValidationError) -> JSONResponse:
    """Refuse a body without repeating it: the default answer shows what was sent."""
    return JSONResponse({"error": "send a JSON object with latitude and longitude, and your name in X-Person"}, 422)


@app.exception_handler(Exception)
def hide_failure(_: Request, __: Exception) -> JSONResponse:
    """Answer a failure without its message."""
    return JSONResponse({"error": "the service failed; nothing was reported"}, 500)


@app.post("/report")
def report(place: Place, x_person: Annotated[str, Header(min_length=1, max_length=200)]) -> JSONResponse:
    """Charge the person, then report. The charge is on the disk before anything is drawn."""
    try:
        points = [[place.latitude, place.longitude]]
        drawn = LEDGER.perturb_points(MECHANISM, x_person, points, limit=LIMIT_KM)
    except mdp.BudgetExceededError:
        return JSONResponse({"error": "the budget does not suffice"}, 429)
    except mdp.InputError:
        return JSONResponse({"error": "the place is outside the area, or the name cannot be used"}, 400)
    except Exception:  # noqa: BLE001  (servers write tracebacks to their logs)
        return JSONResponse({"error": "the service failed; nothing was reported"}, 500)
    (k,) = drawn.outputs.tolist()
    latitude, longitude = MECHANISM.outputs.coordinates[k].tolist()
    return JSONResponse({"id": drawn.ids[0], "latitude": latitude, "longitude": longitude})


@app.get("/budget")
def budget(x_person: Annotated[str, Header(min_length=1, max_length=200)]) -> dict[str, Any]:
    """Say what a person has spent, and what is left."""
    return {"spent": LEDGER.spent(x_person), "remaining": LEDGER.remaining(x_person)}


@app.get("/promise")
def promise() -> dict[str, Any]:
    """Say what is promised."""
    return {
        "records": MECHANISM.guarantee.sentence,
        "points": MECHANISM.guarantee.for_points(LIMIT_KM).sentence,
        "epsilon": MECHANISM.epsilon,
    }
