"""The tables that a row of a launch reads."""

from ergode.epidemics.seeding import seeding_of_row
from ergode.epidemics.shared.births import births_of_row
from ergode.epidemics.shared.importation import importations_of_row
from ergode.epidemics.shared.progression import stages_of_row
from ergode.epidemics.shared.sweep import SWEPT
from ergode.epidemics.shared.tables import EpidemicTables
from ergode.epidemics.shared.transmission import infections_of_row


def tables_of_row(tables, rows, row):
    """`EpidemicTables` of the point of a row, from the tables of all points."""
    if SWEPT:
        return EpidemicTables(
            tables.meetings, stages_of_row(tables.stages, rows, row),
            infections_of_row(tables.infections, rows, row), tables.calendars,
            tables.interventions, seeding_of_row(tables.seeding, rows, row),
            importations_of_row(tables.importations, rows, row), tables.stratum,
            tables.stratum_count, tables.base, tables.times, tables.per_step, tables.end,
            tables.moments, births_of_row(tables.births, rows, row),
        )  # fmt: skip
    return tables
