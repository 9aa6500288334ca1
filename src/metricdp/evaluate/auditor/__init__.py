"""A black-box auditor: it samples a deployed pipeline on adversarial neighbours and reports which claims fail."""

from metricdp.evaluate.auditor.auditor import Alarm, Audit, Neighbours, audit_pipeline
from metricdp.evaluate.auditor.claims import point_claim, record_claim, word_claim
from metricdp.evaluate.auditor.neighbours import point_neighbours, record_neighbours, word_neighbours
from metricdp.evaluate.auditor.pipelines import command_pipeline, id_pipeline, point_pipeline

__all__ = [
    "Alarm",
    "Audit",
    "Neighbours",
    "audit_pipeline",
    "command_pipeline",
    "id_pipeline",
    "point_claim",
    "point_neighbours",
    "point_pipeline",
    "record_claim",
    "record_neighbours",
    "word_claim",
    "word_neighbours",
]
