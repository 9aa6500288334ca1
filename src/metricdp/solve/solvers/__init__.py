"""All solvers. Each registers itself when it is imported: a new one is one file and one line here."""

from metricdp.solve.solvers import auto as auto
from metricdp.solve.solvers import benders as benders
from metricdp.solve.solvers import columns as columns
from metricdp.solve.solvers import direct as direct
from metricdp.solve.solvers import firstorder as firstorder
from metricdp.solve.solvers import interior as interior
from metricdp.solve.solvers import local as local
