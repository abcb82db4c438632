"""A scenario in dates is that in days since its origin, bit for bit."""

import datetime

import numpy as np
import pandas as pd
import pytest
import xarray
from one_kernel import IDLE, NEVER_CHANGES, with_layers

import ergode
from ergode.models.epidemic.dates import dates_since

MODEL = ergode.CompartmentModel.seir(
    transmission_rate=0.25,
    latent=ergode.LogNormal(mean=5, median=4),
    infectious=ergode.LogNormal(mean=7.5, median=5),
)
# Without memory it shares the kernel of the test of scenarios.
MEMORYLESS = ergode.CompartmentModel.seir(
    transmission_rate=0.25, latent=ergode.Exponential(mean=5), infectious=ergode.Exponential(mean=7)
)
CONTACTS = ergode.ContactNetwork.erdos_renyi(300, mean_degree=8, seed=1)
DAY = datetime.timedelta(days=1)
MOMENT = [ergode.LayerClosure(start=ergode.Trigger("S", 10**6)), ergode.LayerClosure(start=5.0)]
LAYERS = with_layers(*CONTACTS.edges(), 300, half=np.arange(300) % 2)


def simulate(**options):
    options = {"times": range(41), "replicates": 3, "seed": 7} | options
    return ergode.epidemics.simulate(MODEL, CONTACTS, initial={"I": 6}, device="cpu", **options)


def with_measures(contacts=LAYERS, interventions=(), layer_factors=NEVER_CHANGES, **options):
    options = {"times": range(41), "replicates": 3, "seed": 7} | options
    return ergode.epidemics.simulate(
        MEMORYLESS, contacts, initial={"I": 6}, device="cpu", strata="half",
        interventions=[*interventions, *IDLE], layer_factors=layer_factors, **options,
    )  # fmt: skip


def forms_of(moment):
    """The same date in every form that a user may write."""
    return (
        moment.isoformat(), moment.isoformat(" "), moment, np.datetime64(moment),
        pd.Timestamp(moment),
    )  # fmt: skip


@pytest.mark.parametrize("case", range(6))
def test_dates_are_days_since_the_origin(case):
    rng = np.random.default_rng(case)
    zero = datetime.datetime(1890 + 30 * case, 1 + case, 28, 6 * (case % 2))

    def date_of(days):
        return forms_of(zero + days * DAY)[int(rng.integers(5))]

    start, begin, stop = (float(t) for t in np.sort(rng.integers(0, 160, 3)) / 4)
    imported = (rng.integers(0, 160, 4) / 4).tolist()
    changes = np.unique(rng.integers(-40, 160, 5)) / 4
    factors = rng.random(changes.size).tolist()

    def scenario(at, table):
        return {
            "interventions": [
                ergode.LayerClosure(reduction=0.5, start=at(start), duration=9.5),
                ergode.Vaccination(fraction=0.3, start=at(begin)),
            ],
            "importations": [
                ergode.Importation("I", times=[at(t) for t in imported]),
                ergode.Importation("I", rate=0.4, start=at(begin), stop=at(stop)),
            ],
            "layer_factors": table,
        }

    series = pd.Series(factors, [pd.Timestamp(zero + t * DAY) for t in changes])
    table = (
        series, xarray.DataArray(series.to_numpy(), {"time": series.index}, ["time"]),
        ergode.Calendar([zero + t * DAY for t in changes], factors),
    )[case % 3]  # fmt: skip
    plain = with_measures(**scenario(float, ergode.Calendar(changes, factors)))
    dated = with_measures(origin=date_of(0), **scenario(date_of, table))
    for name in plain.data_vars:
        np.testing.assert_array_equal(plain[name], dated[name])
    stamps = pd.to_datetime(dated["date"].values)
    assert [one.to_pydatetime() for one in stamps] == [zero + t * DAY for t in range(41)]


def test_times_may_be_dates():
    plain = simulate(times=[0.0, 0.5, 10, 40])
    for origin in (None, "2024-02-28"):
        times = ["2024-02-28", "2024-02-28T12:00", "2024-03-09", "2024-04-08"]
        dated = simulate(times=times, origin=origin)
        np.testing.assert_array_equal(plain["count"], dated["count"])
        assert dated["time"].values.tolist() == [0.0, 0.5, 10, 40]
        assert dated.attrs["origin"] == "2024-02-28"
    later = simulate(times=times, origin="2024-02-27")
    assert later["time"].values.tolist() == [1.0, 1.5, 11, 41]


def test_a_table_has_a_column_for_each_layer():
    both = {
        name: ergode.ContactNetwork.erdos_renyi(300, mean_degree=4, seed=k)
        for k, name in enumerate(("home", "school"))
    }
    layers = ergode.ContactNetwork.from_layers(both).with_attributes(**LAYERS.attributes)
    columns = {"home": [1.0, 0.5], "school": [0.2, 0.9]}
    table = pd.DataFrame(columns, pd.to_datetime(["2026-03-05", "2026-03-20"]))
    calendars = {name: ergode.Calendar([4, 19], values) for name, values in columns.items()}
    dated = with_measures(layers, layer_factors=table, origin="2026-03-01")
    plain = with_measures(layers, layer_factors=calendars)
    np.testing.assert_array_equal(plain["count"], dated["count"])


def test_results_have_dates(tmp_path):
    counts = simulate(origin="2026-03-01")
    peaks = ergode.epidemics.summary(counts)
    np.testing.assert_array_equal(
        peaks["peak_date"], dates_since(np.datetime64("2026-03-01", "us"), peaks["peak_time"])
    )
    middles = ergode.epidemics.incidence(counts)["date"]
    assert str(middles.values[0])[:16] == "2026-03-01T12:00"
    ergode.save(counts, tmp_path / "counts.nc")
    back = ergode.open_dataset(tmp_path / "counts.nc")
    np.testing.assert_array_equal(back["date"], counts["date"])
    statistics = simulate(origin="2026-03-01", output="statistics")
    np.testing.assert_array_equal(statistics["date"], counts["date"])


def test_line_lists_have_dates():
    cases = simulate(origin="2026-03-01", output="line_list")
    table = ergode.epidemics.case_table(cases)
    for column in ("infected_at", "entered_I"):
        known = table[column].notna()
        days = (table[f"{column}_date"] - pd.Timestamp("2026-03-01")) / pd.Timedelta(days=1)
        np.testing.assert_allclose(days[known], table[column][known], atol=1e-10)
        assert table[f"{column}_date"][~known].isna().all()
    numbers = ergode.epidemics.reproduction_number(cases)
    assert str(numbers["date"].values[1])[:16] == "2026-03-02T12:00"


def test_dates_beyond_those_of_pandas():
    counts = simulate(origin="1348-06-01")
    assert str(counts["date"].values[-1])[:10] == "1348-07-11"


def closure(**options):
    return {"interventions": [ergode.LayerClosure(reduction=0.5, **options)]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"origin": "yesterday"}, r"origin is 'yesterday'; expected a date"),
        ({"origin": 3}, r"origin is 3; expected a date"),
        ({"origin": "2026-02-30"}, r"origin is '2026-02-30'; there is no such date"),
        ({"origin": "NaT"}, r"origin is 'NaT'; expected a date"),
        ({"origin": np.datetime64("NaT")}, r"origin: a date is missing"),
        (
            {"origin": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)},
            r"has a time zone; expected a date without one",
        ),
        ({"times": ["2026-03-02", "2026-03-01"]}, r"times must ascend"),
        ({"times": ["2026-03-01"], "origin": "2026-03-02"}, r"before the origin 2026-03-02"),
        (lambda: closure(start="2026-03-16"), r"start is a date; give the date of time zero"),
        (
            lambda: closure(start="2026-02-16") | {"origin": "2026-03-01"},
            r"start is 2026-02-16, before the origin 2026-03-01",
        ),
        (lambda: closure(start="soon"), r"start is 'soon'; expected a number, or a date"),
        (
            lambda: {"layer_factors": ergode.Calendar(["2026-03-16"], [0.5])},
            r"changes is a date; give the date of time zero",
        ),
        (
            lambda: {"layer_factors": ergode.Calendar(["2026-03-16"], [0.5], period=7)},
            r"changes are dates; expected no period",
        ),
        (
            lambda: {"layer_factors": pd.Series([1.0, np.nan])},
            r"expected finite numbers, zero or more",
        ),
        (
            lambda: {
                "importations": ergode.Importation(
                    "I", rate=1, start="2026-03-02", stop="2026-03-01"
                )
            },
            r"it stops at 2026-03-01, before it starts at 2026-03-02",
        ),
    ],
)  # fmt: skip
def test_bad_dates_are_one_line(options, message):
    with pytest.raises(ergode.ModelError, match=message) as raised:
        simulate(**(options() if callable(options) else options))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "measure",
    [
        {"importations": ergode.Importation("I", times=["2025-03-05", "2025-03-09"])},
        {"importations": ergode.Importation("I", rate=1.0, start="2027-03-05")},
        {"interventions": [ergode.LayerClosure(reduction=0.5, start="2027-03-05")]},
    ],
)
def test_a_wrong_year_is_said(measure):
    with pytest.warns(ergode.AccuracyWarning, match="does nothing: the run is from 60 to 100"):
        with_measures(**measure, times=[60, 100], origin="2025-03-01")


@pytest.mark.slow
def test_meetings_have_dates():
    """They are those in days since the origin of the run, and give results dates."""
    rng = np.random.default_rng(1)
    source, target = rng.integers(0, 40, (2, 400))
    begin = rng.uniform(0, 20, 400).round(3)
    zero = np.datetime64("2026-03-01T00:00:00.000000")
    moments = zero + (begin * 86_400e6).astype("timedelta64[us]")
    dated = ergode.TemporalContacts.from_meetings(
        source, target, moments, moments + np.timedelta64(6, "h"), node_count=40
    )
    plain = ergode.TemporalContacts.from_meetings(
        source, target, dated.begin.min() * 0 + begin, begin + 0.25, node_count=40
    )
    options = {
        "initial": {"I": 5}, "replicates": 3, "seed": 7, "device": "cpu", "precision": "float64",
        "interventions": MOMENT,
    }  # fmt: skip
    stay = ergode.Deterministic(5.0)  # so that it shares the kernel of the test of moments
    model = ergode.CompartmentModel.seir(transmission_rate=1.0, latent=stay, infectious=stay)
    one = ergode.epidemics.simulate(model, plain, times=range(31), **options)
    for given in (
        {"times": range(31)},
        {"times": pd.date_range("2026-03-01", periods=31)},
        {"times": range(31), "origin": "2026-03-01"},
    ):
        other = ergode.epidemics.simulate(model, dated, **given, **options)
        np.testing.assert_array_equal(one["count"], other["count"])
        assert other["date"].values[0] == zero
