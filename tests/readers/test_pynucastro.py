"""Networks of pynucastro, against its own rates of change at random states."""

import warnings
from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ergode

pytestmark = pytest.mark.slow
pynucastro = pytest.importorskip("pynucastro")
common = pytest.importorskip("pynucastro.networks.common_networks")
from pynucastro.rates import (  # noqa: E402
    DerivedRate,
    ModifiedRate,
    make_ap_pg_rates,
    make_CO_approx_rates,
    make_double_neutron_rates,
)
from pynucastro.rates.rate import ThermoState  # noqa: E402


@cache
def reaclib():
    """The library, which takes seconds to read."""
    return pynucastro.ReacLibLibrary()


def library_of(*names):
    return reaclib().linking_nuclei(list(names), print_warning=False)


def derived():
    """Reverse rates with partition functions, of fits, tables and modified rates."""
    some = library_of("p", "n", "he4", "c12", "o16", "fe52", "co55", "ni56", "mn51", "cr48")
    forward = [r for r in some.get_rates() if not r.derived_from_inverse]
    reverse = [DerivedRate(r, use_pf=True) for r in forward if not r.weak and r.Q > 0]
    bare = [DerivedRate(r, use_pf=False) for r in forward if not r.weak and r.Q > 0][:2]
    kept = {tuple(map(str, (*r.reactants, "->", *r.products))) for r in reverse}
    more = [r for r in bare if tuple(map(str, (*r.reactants, "->", *r.products))) not in kept]
    return pynucastro.RateCollection(rates=[*forward, *reverse, *more])


def tabulated():
    """STARLIB, a rate of a paper, and reverse rates of both."""
    names = ["p", "he4", "c12", "n13", "n14", "o15", "o16", "f17", "ne20"]
    library = pynucastro.StarLibLibrary().linking_nuclei(names, print_warning=False)
    return pynucastro.RateCollection(libraries=[library])


def weak():
    """Electron captures and beta decays on tables, beside rates of REACLIB."""
    names = ["p", "n", "he4", "ne20", "f20", "o20", "na23", "ne23", "mg24", "na24"]
    library = library_of(*names)
    tables = pynucastro.TabularLibrary().linking_nuclei(names, print_warning=False)
    every = library + tables
    every.eliminate_duplicates()
    network = pynucastro.RateCollection(libraries=[every])
    assert len(network.tabular_rates) >= 6
    return network


def consistent():
    """Approximations whose parts are derived by detailed balance."""
    library = library_of("p", "he4", "c12", "o16", "ne20", "na23", "mg24", "al27", "si28")
    rates = [
        *make_ap_pg_rates(library, "mg24", "si28", use_detailed_balance=True),
        *make_CO_approx_rates(library, "C", use_detailed_balance=True),
        library.get_rate_by_name("c12(a,g)o16"),
    ]
    return pynucastro.RateCollection(rates=rates)


def captures():
    """Double neutron capture through a nucleus that is left out."""
    library = library_of("n", "p", "he4", "cr48", "fe52", "fe53", "fe54", "co55", "ni56")
    left_out = pynucastro.Nucleus("fe53")
    rates = [r for r in library.get_rates() if left_out not in r.reactants + r.products]
    return pynucastro.RateCollection(
        rates=[*rates, *make_double_neutron_rates(library, "fe52", "fe54")]
    )


NETWORKS = {
    "aprox13": common.aprox13, "mesa": common.mesa_basic, "cno": common.cno, "derived": derived,
    "tabulated": tabulated, "weak": weak, "consistent": consistent, "captures": captures,
}  # fmt: skip


@pytest.fixture(scope="module", params=NETWORKS)
def pair(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = NETWORKS[request.param]()
    return peer, ergode.from_pynucastro(peer)


def states(peer, count, low=7.5, seed=1):
    """Random temperatures, densities and compositions."""
    rng = np.random.default_rng(seed)
    hot, dense = 10 ** rng.uniform(low, 9.6, count), 10 ** rng.uniform(7.2, 9.5, count)
    names = [nucleus.raw for nucleus in peer.unique_nuclei]
    return hot, dense, names, rng.dirichlet(np.ones(len(names)), count)


def state_of(peer, hot, dense, x):
    composition = pynucastro.Composition(peer.unique_nuclei)
    for nucleus, fraction in zip(peer.unique_nuclei, x, strict=True):
        composition[nucleus] = fraction
    return ThermoState(rho=dense, T=hot, comp=composition)


def exact_changes(peer, hot, dense, names, x, screen=None):
    """dY/dt of every nucleus by pynucastro."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        changes = peer.evaluate_ydots(state_of(peer, hot, dense, x), screen_func=screen)
    exact = {nucleus.raw: value for nucleus, value in changes.items()}
    return np.array([exact[name] for name in names])


def sizes(peer, hot, dense, names, x, screen):
    """The sum of the sizes of the parts of every dY/dt."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rates = peer.evaluate_rates(state_of(peer, hot, dense, x), screen_func=screen)
    most = {name: 0.0 for name in names}
    for rate, value in rates.items():
        for nucleus in {*rate.reactants, *rate.products}:
            most[nucleus.raw] += abs(value)
    return np.array([most[name] for name in names])


@pytest.mark.parametrize("screening", [None, "chugunov"])
def test_changes_are_those_of_pynucastro(pair, screening):
    peer, network = pair
    hot, dense, names, x = states(peer, 3)
    screen = pynucastro.screening.chugunov_2009 if screening else None
    found = ergode.kinetics.reaction_rates(
        network, temperature=hot, density=dense, initial=dict(zip(names, x.T, strict=True)),
        screening=screening,
    )["rate"].values @ network.stoichiometry.toarray().T  # fmt: skip
    order = [network.index[name] for name in names]
    for k in range(hot.size):
        exact = exact_changes(peer, hot[k], dense[k], names, x[k], screen)
        most = sizes(peer, hot[k], dense[k], names, x[k], screen)
        np.testing.assert_array_less(
            np.abs(found[k, order] - exact), (1e-5 if screening else 1e-10) * most + 1e-200
        )


def test_a_burn_is_that_of_scipy():
    """aprox13 at a given temperature, by pynucastro's rates of change and Radau."""
    peer = common.aprox13()
    network = ergode.from_pynucastro(peer)
    assert len(network.species) == 13
    names = [nucleus.raw for nucleus in peer.unique_nuclei]
    mass = np.array([nucleus.A for nucleus in peer.unique_nuclei], float)
    hot, dense, end = 2.5e9, 1e6, 1e-4
    begin = np.array([{"he4": 0.2, "c12": 0.5, "o16": 0.3}.get(name, 0.0) for name in names])

    def change(_, y):
        return exact_changes(peer, hot, dense, names, y * mass)

    exact = solve_ivp(change, (0, end), begin / mass, method="Radau", rtol=1e-8, atol=1e-13)
    found = ergode.kinetics.integrate(
        network, times=[0, end], temperature=hot, density=dense, rtol=1e-8, atol=1e-12,
        initial=dict(zip(names, begin, strict=True)), device="cpu",
    )["mass_fraction"].sel(species=names)[0, -1]  # fmt: skip
    np.testing.assert_allclose(found, exact.y[:, -1] * mass, rtol=1e-5, atol=1e-9)
    assert found.sel(species="ne20") > 1e-3
    cells = ergode.kinetics.burn(
        network, np.full(2, hot), np.full(2, dense), np.tile(begin, (2, 1)), end, rtol=1e-8,
        atol=1e-12, device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(cells.mass_fraction[0], found, rtol=1e-7, atol=1e-10)


def test_what_is_refused():
    library = library_of("n", "p", "he4", "fe52", "fe53", "fe54")
    pair = make_double_neutron_rates(library, "fe52", "fe54", use_detailed_balance=True)
    with pytest.raises(ergode.ReadError, match="of the kind 'nn_g', and a part of it has a table"):
        ergode.from_pynucastro(pynucastro.RateCollection(rates=list(pair)))
    with pytest.raises(ergode.ReadError, match="network is list; expected a RateCollection"):
        ergode.from_pynucastro(list(pair))
    burning = library_of("he4", "c12", "o16").get_rate_by_name("c12(a,g)o16")
    other = ModifiedRate(
        burning, new_reactants=[pynucastro.Nucleus("o16"), pynucastro.Nucleus("he4")],
        new_products=[pynucastro.Nucleus("ne20")],
    )  # fmt: skip
    with pytest.raises(ergode.ReadError, match=r"is screened as c12 \+ he4, and its reactants"):
        ergode.from_pynucastro(pynucastro.RateCollection(rates=[other]))


def test_neutrons_are_captured_two_by_two():
    """The coefficient depends on the neutrons, and is about halved in the run."""
    peer = captures()
    network = ergode.from_pynucastro(peer)
    names = [nucleus.raw for nucleus in peer.unique_nuclei]
    mass = np.array([nucleus.A for nucleus in peer.unique_nuclei], float)
    begin = np.array([{"fe52": 0.9, "n": 0.1}.get(name, 0.0) for name in names])
    hot, dense, end = 2e9, 1e6, 1e-12

    def change(_, y):
        return exact_changes(peer, hot, dense, names, y * mass)

    exact = solve_ivp(change, (0, end), begin / mass, method="Radau", rtol=1e-8, atol=1e-13)
    found = ergode.kinetics.integrate(
        network, times=[0, end], temperature=hot, density=dense, rtol=1e-8, atol=1e-12,
        initial=dict(zip(names, begin, strict=True)), device="cpu",
    )["mass_fraction"].sel(species=names)[0, -1]  # fmt: skip
    np.testing.assert_allclose(found, exact.y[:, -1] * mass, rtol=1e-5, atol=1e-9)
    assert 0.4 < found.sel(species="fe54").item() < 0.45
