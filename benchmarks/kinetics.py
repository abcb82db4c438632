"""Networks a second, against SciPy, Cantera and the reference figures of the explicit methods.

``--data FOLDER`` says where the 150-nuclide network is: CUDAnet_150.inp and rateLibrary_150.data.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from harness import Rows, arguments, medians
from scipy.integrate import solve_ivp

import ergode
from ergode.core import devices
from ergode.kinetics import runs
from ergode.kinetics.conditions import zones_of
from ergode.kinetics.lower import lower

TYPE_IA = {"temperature": 7e9, "density": 1e8, "initial": {"12C": 0.49992, "16O": 0.5}}
CASES = ("type-ia implicit", "type-ia explicit", "wave", "ignition")


def data_folder():
    """Where the 150-nuclide network is, or None."""
    if "--data" in sys.argv:
        place = sys.argv.index("--data")
        folder = Path(sys.argv[place + 1])
        del sys.argv[place : place + 2]
        return folder
    folder = Path(__file__).resolve().parents[2] / "shared" / "data" / "kinetics"
    return folder if folder.is_dir() else None


def burner(network, count, device, method, rtol=1e-3):
    """A function that burns `count` equal zones, everything checked and laid out before."""
    mechanism = lower(network)
    zones = zones_of(
        network, mechanism, temperature=np.full(count, 7e9), density=1e8, pressure=None,
        initial=TYPE_IA["initial"], heating=None,
    )  # fmt: skip
    grid = np.array([0.0, 1e-9])
    options = runs.Options(method, rtol, None, True, 10**6)

    def work():
        outcome = runs.Outcome.empty(zones, grid)
        runs.run_zones(mechanism, zones, grid, options, device, outcome, lambda _: None)
        return outcome

    return work


def implicit(options, rows, network, device):
    """One network on one core, and SciPy's BDF with the same right-hand side and Jacobian."""
    ours = burner(network, 1, device, "rodas4")
    if options.no_peers:
        (seconds,) = medians([ours], cpu=True)
        rows.add("type-ia implicit", "seconds a network", seconds, "s")
        return
    change, jacobian, start = right_hand_side(network)

    def peer():
        solve_ivp(change, (0, 1e-9), start, method="BDF", jac=jacobian, rtol=1e-3, atol=1e-8 / 12)

    seconds, theirs = medians([ours, peer], cpu=True)
    rows.add(
        "type-ia implicit", "seconds a network", seconds, "s", peer="scipy BDF", peer_value=theirs
    )


def right_hand_side(network):
    """dY/dt and its Jacobian in NumPy, from the same tables."""
    mechanism = lower(network)
    structure = mechanism.structure
    t9 = 7.0
    powers = np.array([1, 1 / t9, t9 ** (-1 / 3), t9 ** (1 / 3), t9, t9 ** (5 / 3), np.log(t9)])
    rates = mechanism.rates
    terms = rates.prefactor * np.exp(powers @ rates.parameters)
    slots = np.add.reduceat(terms, rates.slot_start[:-1].astype(int))
    slots *= 1e8 ** (rates.order.astype(float) - 1)
    flows, complexes = structure.net_flows, structure.complexes
    values = np.add.reduceat(
        flows.weight * slots[flows.source], flows.source_start[:-1].astype(int)
    )
    count = structure.species_count
    rows = np.repeat(np.arange(count), np.diff(flows.start.astype(int)))
    matrix = np.zeros((count, complexes.first.size))
    matrix[rows, flows.complex] = values

    def change(_, y):
        y = np.append(y, 1.0)
        return matrix @ (y[complexes.first] * y[complexes.second] * y[complexes.third])

    def jacobian(_, y):
        y = np.append(y, 1.0)
        found = np.zeros((complexes.first.size, count + 1))
        each = np.arange(complexes.first.size)
        a, b, c = (y[slot] for slot in complexes)
        np.add.at(found, (each, complexes.first), b * c)
        np.add.at(found, (each, complexes.second), a * c)
        np.add.at(found, (each, complexes.third), a * b)
        return matrix @ found[:, :count]

    start = np.zeros(count)
    start[mechanism.names.index("12C")] = 0.49992 / 12
    start[mechanism.names.index("16O")] = 0.5 / 16
    return change, jacobian, start


def wave(options, rows, network, device):
    """Time against the number of networks."""
    for method in ("rodas4", "asymptotic"):
        most = 64 if device.is_cuda is False else (100_000 if method == "rodas4" else 2_000)
        if options.quick:
            most = min(most, 8 if method == "rodas4" else 2)
        count = 1
        while count <= most:
            (seconds,) = medians([burner(network, count, device, method)], 3 if count > 99 else 5)
            rows.add(
                f"wave {method} {count}", "networks a second", count / seconds, "1/s",
                smaller_is_better=False,
            )  # fmt: skip
            count *= 8 if count < most / 8 else max(2, most // count)


def ignition(options, rows, device):
    """Delays of 64 reactors, and the same of Cantera driven step by step."""
    try:
        import cantera as ct
    except ImportError:
        print("cantera is not installed (pip install cantera): no mechanisms to read")
        return
    cases = {
        "h2o2": ("H2", {"O2": 1.0, "AR": 3.76}, np.linspace(1000, 1200, 8)),
        "gri30": ("CH4", {"O2": 1.0, "N2": 3.76}, np.linspace(1400, 1700, 8)),
    }
    for name, (fuel, oxidizer, hot) in cases.items():
        network = ergode.read_cantera(Path(ct.__file__).parent / "data" / f"{name}.yaml")

        def ours(network=network, fuel=fuel, oxidizer=oxidizer, hot=hot):
            return ergode.kinetics.ignition_delay(
                network, temperature=hot, pressure=[1e6, 1e7], fuel=fuel, oxidizer=oxidizer,
                equivalence_ratio=[0.5, 0.75, 1.0, 1.5], duration=0.1, rtol=1e-4, device=device,
            )  # fmt: skip

        def peer(name=name, fuel=fuel, oxidizer=oxidizer, hot=hot):
            gas = ct.Solution(f"{name}.yaml")
            gas.set_equivalence_ratio(1.0, fuel, oxidizer)
            gas.TP = hot[4], 1e5
            reactor = ct.IdealGasReactor(gas)
            network = ct.ReactorNet([reactor])
            network.rtol = 1e-6
            while network.time < 0.1:
                network.step()

        seconds, theirs = medians([ours, peer], 3 if options.quick else 5)
        rows.add(
            f"ignition {name}", "seconds a reactor", seconds / 64, "s", peer="Cantera",
            peer_value=theirs,
        )  # fmt: skip


def main():
    folder = data_folder()
    options = arguments("kinetics", list(CASES))
    device = devices.resolve("cuda" if options.device == "cuda" else "cpu:1")
    rows = Rows("kinetics", options.device)
    if folder is None:
        print("the 150-nuclide network is not here (--data FOLDER)")
    else:
        network = ergode.read_fern(folder / "CUDAnet_150.inp", folder / "rateLibrary_150.data")
        if "type-ia implicit" in options.case:
            implicit(options, rows, network, device)
        if "type-ia explicit" in options.case:
            (seconds,) = medians([burner(network, 1, device, "asymptotic")])
            rows.add("type-ia explicit", "seconds a network", seconds, "s")
        if "wave" in options.case:
            wave(options, rows, network, device)
    if "ignition" in options.case and not options.no_peers:
        ignition(options, rows, device)
    rows.write(options.json)


if __name__ == "__main__":
    main()
