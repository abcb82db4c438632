"""Arguments arrive in workers as they were sent, and stores know calls by their digests."""

import numpy as np
import xarray

import ergode
from ergode.core.calls.job import Whole
from ergode.core.calls.tasks import Plan, _plan_of
from ergode.core.digests import digest_of

SHIFT = 0.25


def scaled(x):
    return SHIFT * x


def travelling():
    """Arguments of every kind, made anew in each call."""
    people = ergode.ContactNetwork.erdos_renyi(9, mean_degree=2, seed=1)
    aged = people.with_attributes(age=np.array([1, 2, 3] * 3))
    stay = ergode.ByAttribute(
        "age", [ergode.Exponential(mean=2.0), ergode.LogNormal(mean=5, median=4)], groups=[0, 3]
    )
    return {
        "by attribute": ergode.CompartmentModel.sir(transmission_rate=0.3, infectious=stay),
        "network": aged,
        "computed": ergode.ComputedNetwork.random_regular(10, 4, seed=1),
        "temporal": ergode.TemporalContacts.from_meetings([0, 1], [1, 2], [0.0, 1.0], [0.5, 2.0]),
        "seeds": {"I": ergode.Seeds(3, weight="age", age=0.5)},
        "interventions": [
            ergode.Vaccination(start=1.0, fraction=0.5), ergode.Isolation("I", start=2.0)
        ],
        "calendar": ergode.Calendar([1.0, 2.0], [0.5, 1.0]),
        "reactions": ergode.ReactionNetwork(
            {"A": 40}, [ergode.Reaction("A -> 0", rate_constant="k")], parameters={"k": 0.5}
        ),
        "field": ergode.VectorField(
            lambda t, y, p: (-p[0] * scaled(y[0]),), variables=["x"], parameters=["rate"]
        ),
        "delayed": ergode.VectorField(
            lambda t, y, yd, p: (-yd[0],), variables=["x"], parameters=["tau"],
            delays=[("x", "tau")],
        ),
        "array": ergode.VectorField(
            component=lambda i, t, y, p: -p[0] * y[i], variables=("x", 3), parameters=["rate"],
            diffusion=0.3,
        ),
        "events": [ergode.trajectories.ZeroCrossing(lambda t, y, p: y[0] - 0.5)],
        "history": ergode.trajectories.History(lambda t: (t + SHIFT,)),
        "matter": ergode.kinetics.EquationOfState(
            lambda T, rho, nuclei, electrons: 1.5 * T, lambda T, rho, nuclei, electrons: SHIFT * T
        ),
        "conditions": ergode.kinetics.Trajectory([0, 1], [1e9, 2e9]),
        "function": lambda rate: scaled(rate),
        "grid": ergode.grid(a=[1.0, 2.0], b=3.0),
        "table": xarray.DataArray([1.0, 2.0], dims="time", coords={"time": [0, 1]}),
    }  # fmt: skip


def test_every_argument_travels(monkeypatch):
    """What arrives in a worker has the digest of what was sent, and no two have one digest."""
    digests = {name: digest_of(value) for name, value in travelling().items()}
    assert len(set(digests.values())) == len(digests)
    assert digests == {name: digest_of(value) for name, value in travelling().items()}
    plan = Plan("ergode.epidemics:simulate", travelling(), Whole(), "1")
    arrived = _plan_of(plan.payload).arguments
    assert {name: digest_of(value) for name, value in arrived.items()} == digests
    monkeypatch.setitem(globals(), "SHIFT", 0.5)
    changed = {name for name, value in travelling().items() if digest_of(value) != digests[name]}
    assert changed == {"field", "history", "matter", "function"}


def test_a_name_inside_and_outside_of_a_comprehension(monkeypatch):
    def position(y, t, p):
        return (sum([2.0 * SHIFT for SHIFT in (0.1, 0.2)]) + SHIFT,)

    before = digest_of(position)
    monkeypatch.setitem(globals(), "SHIFT", 0.5)
    assert digest_of(position) != before


def test_names_of_parameters_and_locals_are_not_those_outside(monkeypatch):
    """As in a notebook, where ``y`` or ``t`` is whatever was computed last."""

    def position(y, t, p):
        half = 0.5 * y[0]
        return (half + SHIFT,)

    before = digest_of(position)
    for name in ("y", "t", "p", "half"):
        monkeypatch.setitem(globals(), name, np.zeros(3))
    assert digest_of(position) == before
    monkeypatch.setitem(globals(), "SHIFT", 0.5)
    assert digest_of(position) != before
