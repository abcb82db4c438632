"""Kernels with all families of holding times, and kernels with those of the model alone."""

import numpy as np
import pytest

import ergode
from ergode.cli.warm_cases import _stages
from ergode.core import formulation
from ergode.epidemics.shared import ensemble, progression

CONTACTS = ergode.ContactNetwork.erdos_renyi(500, mean_degree=8, seed=1)
STAYS = [
    (ergode.Gamma(mean=5, sd=3), ergode.Weibull(mean=7, sd=2)),
    (ergode.LogNormal(mean=5, median=4), ergode.Empirical([3, 5, 9], [0, 0.5, 1])),
    (ergode.Deterministic(3), ergode.Exponential(mean=4)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "output", "stays"),
    [
        ("first-passage", "counts", STAYS[0]), ("first-passage", "line_list", STAYS[1]),
        ("sellke", "line_list", STAYS[2]),
    ],
)  # fmt: skip
def test_results_are_the_same_to_the_last_bit(monkeypatch, method, output, stays):
    def run(standing):
        monkeypatch.setattr(ensemble, "stands_in", lambda *_: standing)
        model = ergode.CompartmentModel.seir(
            transmission_rate=0.2, latent=stays[0], infectious=stays[1]
        )
        return ergode.epidemics.simulate(
            model, CONTACTS, initial={"I": 5}, times=range(61), replicates=4, seed=3,
            method=method, output=output, device="cpu",
        )  # fmt: skip

    every, own = run(True), run(False)
    for name, values in own.items():
        np.testing.assert_array_equal(every[name].values, values.values)
    assert output == "counts" or own.sizes["case"] > 20


class Fake:
    """A kernel of which it is known whether it is compiled and has been wanted."""

    def __init__(self, kept, wanted=False):
        self.kept, self.wanted = kept, wanted

    def key(self, target):
        return id(self)

    def is_kept(self, target):
        return self.kept

    def was_wanted(self, target):
        before, self.wanted = self.wanted, True
        return before


def test_which_kernel_runs(monkeypatch):
    monkeypatch.setattr(formulation, "_SPENT", {})
    stands_in = formulation.stands_in
    own, standing = Fake(False), Fake(False)
    assert not stands_in(own, standing, 1.0)  # the first model of a machine
    assert stands_in(own, standing, 1.0)
    assert stands_in(own, standing, 1.0)
    assert not stands_in(own, standing, 1.5)  # too long, with what it has run before
    assert not stands_in(Fake(False), standing, 3.5)
    assert not stands_in(Fake(True), standing, 0.1)
    assert stands_in(Fake(False), Fake(True), 0.1)


def test_a_model_with_all_families_has_no_other_kernel():
    assert progression.bindings_of(_stages("all holding times")) == progression.EVERY_KIND
