"""Parts of the Jacobian that couple all nuclei: columns times rows beside its sparse part.

Screening and weak rates (see `screening`) depend on the sums E = sum of Z_i Y_i and Q = sum of
Z_i^2 Y_i, which couple all nuclei. Their part of J, df/dE Z^T + df/dQ (Z^2)^T, has rank two. Only
the matrix without that part, W_0, is factorised:

    W x = b:    x = W_0^-1 b + w c,    w = W_0^-1 (df/dE, df/dQ),    (I - v w) c = v W_0^-1 b

where v has the rows Z and Z^2 (M. A. Woodbury, 1950). At constant pressure the density of nuclei
adds df/d ln rho times the row d ln rho / dY_i, which is a sum of 1 and Z_i. The matrix with that
part takes the place of W_0 in the formula above.
"""

from __future__ import annotations

from ergode.core.compiler.language import no_unroll
from ergode.core.group import barrier, share
from ergode.kinetics.implicit.energy import matter
from ergode.kinetics.kernel_options import HEATING, MOLECULES
from ergode.kinetics.physics.equation_of_state import response_at_pressure
from ergode.kinetics.physics.screening import LEAST, charges
from ergode.kinetics.tables import PRESSURE

# --- device functions -----------------------------------------------------------------------------


def column_at(column):
    """Place of the columns -3 (density), -2 and -1 (electrons)."""
    return 2 if column == -3 else column + 2


def dilution_of(system, workspace, y, hot, dense):
    """d ln rho per mole of nuclei and of electrons at constant pressure [g/mol]."""
    group = workspace.group
    if HEATING != PRESSURE or MOLECULES:
        return 0.0, 0.0
    nuclei, electrons = matter(system.thermo, y, group)
    found = response_at_pressure(system.thermo.electrons, hot, dense, nuclei, electrons)
    barrier(group)
    return found[4], found[5]


def add_dilution(system, workspace, vectors, dilution):
    """Correct the solution for the density of nuclei, a rank-one part; ends in a barrier."""
    group = workspace.group
    x, count = vectors.trial, system.absolute.size
    column = vectors.columns[2 * count : 3 * count]
    nuclei, electrons = matter(system.thermo, x, group)
    barrier(group)
    own_nuclei, own_electrons = matter(system.thermo, column, group)
    more = dilution[0] * nuclei + dilution[1] * electrons
    more /= 1.0 - (dilution[0] * own_nuclei + dilution[1] * own_electrons)
    for i in no_unroll(share(group, 0, count)):
        x[i] += more * column[i]
    barrier(group)


def add_electrons(system, workspace, vectors, electrons, squares):
    """Correct the solution for the dependence of coefficients on electrons (see the module)."""
    group = workspace.group
    charge, columns, x = system.thermo.charge, vectors.columns, vectors.trial
    count = system.absolute.size
    electrons, squares = max(electrons, LEAST), max(squares, LEAST)
    a, b = charges(charge, x, group)
    aa, ba = charges(charge, columns[0:count], group)
    ab, bb = charges(charge, columns[count : 2 * count], group)
    a, aa, ab = a / electrons, 1.0 - aa / electrons, -ab / electrons
    b, ba, bb = b / squares, -ba / squares, 1.0 - bb / squares
    determinant = aa * bb - ab * ba
    by_electrons = (a * bb - b * ab) / determinant
    by_squares = (b * aa - a * ba) / determinant
    for i in no_unroll(share(group, 0, count)):
        x[i] += by_electrons * columns[i] + by_squares * columns[count + i]
