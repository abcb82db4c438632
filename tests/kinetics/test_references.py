"""Answers that are known: exact ones, and those of the field's test sets."""

import math

import numpy as np
import pytest
from type_ia import TYPE_IA

import ergode
from ergode.kinetics import integrate


def network(initial, *reactions):
    return ergode.ReactionNetwork(
        initial, [ergode.Reaction(text, rate_constant=k) for text, k in reactions]
    )


ROBERTSON = network(
    {"A": 1, "B": 0, "C": 0},
    ("A -> B", 0.04), ("2 B -> B + C", 3e7), ("B + C -> A + C", 1e4),
)  # fmt: skip

HIRES = network(
    {f"y{i}": 0.0 for i in range(1, 9)},
    ("y1 -> y2", 1.71), ("y2 -> y1", 0.43), ("y2 -> y4", 8.32), ("y3 -> y1", 8.32),
    ("y3 -> y4", 1.71), ("0 -> y1", 0.0007), ("y4 -> y3", 0.43), ("y4 -> y6", 0.69),
    ("y5 -> y3", 0.035), ("y5 -> y6", 1.71), ("y6 -> y5", 0.43), ("y6 + y8 -> y7", 280.0),
    ("y7 -> y8 + y5", 0.43), ("y7 -> y8 + y6", 0.69), ("y7 -> y8", 0.69),
)  # fmt: skip

POLLU = network(
    {f"y{i}": 0.0 for i in range(1, 21)},
    ("y1 -> y2 + y3", 0.35), ("y2 + y4 -> y1", 26.6), ("y5 + y2 -> y1 + y6", 1.23e4),
    ("y7 -> 2 y5 + y8", 8.6e-4), ("y7 -> y8", 8.2e-4), ("y7 + y6 -> y5 + y8", 1.5e4),
    ("y9 -> y10 + y5 + y8", 1.3e-4), ("y9 + y6 -> y11", 2.4e4),
    ("y11 + y2 -> y1 + y10 + y12", 1.65e4), ("y11 + y1 -> y13", 9e3), ("y13 -> y11 + y1", 0.022),
    ("y10 + y2 -> y14 + y1", 1.2e4), ("y14 -> y7 + y5", 1.88), ("y1 + y6 -> y15", 1.63e4),
    ("y3 -> y4", 4.8e6), ("y4 -> y16", 3.5e-4), ("y4 -> y3", 0.0175), ("y16 -> 2 y6", 1e8),
    ("y16 -> y3", 4.44e11), ("y17 + y6 -> y18 + y5", 1.24e3), ("y19 -> y2", 2.1),
    ("y19 -> y1 + y3", 5.78), ("y1 + y4 -> y19", 0.0474), ("y19 + y1 -> y20", 1.78e3),
    ("y20 -> y19 + y1", 3.12),
)  # fmt: skip

E5 = network(
    {"a": 1.76e-3, "b": 0, "c": 0, "d": 0},
    ("a -> b + c", 7.89e-10), ("a + c -> d", 1.1e7), ("b + c -> 0", 1.13e9), ("d -> c", 1.13e3),
)  # fmt: skip


OREGONATOR = network(
    {"x": 1, "y": 2, "z": 3},
    ("y -> x + y", 77.27), ("x -> 2 x", 77.27), ("2 x -> x", 77.27 * 8.375e-6),
    ("x + y -> y", 77.27), ("z -> y + z", 1 / 77.27), ("y -> 0", 1 / 77.27),
    ("x + y -> x", 1 / 77.27), ("x -> x + z", 0.161), ("z -> 0", 0.161),
)  # fmt: skip

BRUSSELATOR = network(
    {"x": 1.5, "y": 3.0},
    ("0 -> x", 1.0), ("2 x + y -> 3 x", 1.0), ("x -> y", 3.0), ("x -> 0", 1.0),
)  # fmt: skip


def final(net, stop, initial, **options):
    result = integrate(net, times=[0, stop], initial=initial, device="cpu", **options)
    assert result["status"].item() == 0
    return result["concentration"].values[0, -1]


@pytest.mark.parametrize("method", ["rodas4", "rosenbrock23", "bdf"])
def test_robertson(method):
    found = final(ROBERTSON, 40.0, {"A": 1.0}, rtol=1e-7, atol=1e-12, method=method)
    np.testing.assert_allclose(found, [0.715827069, 9.18553476e-6, 0.284163746], rtol=2e-6)


def test_robertson_for_a_long_time_keeps_its_sum():
    found = final(ROBERTSON, 1e11, {"A": 1.0}, rtol=1e-6)
    np.testing.assert_allclose(found[0], 2.0833e-8, rtol=1e-3)
    assert abs(found.sum() - 1.0) < 1e-12
    assert (found >= 0).all()


def test_bateman_chain():
    rates = {"A": 3.0, "B": 0.5, "C": 0.02, "D": 1.0}
    names = list(rates)
    chain = network(
        {"A": 1, "B": 0, "C": 0, "D": 0, "E": 0},
        *((f"{a} -> {b}", rates[a]) for a, b in zip(names, [*names[1:], "E"], strict=True)),
    )
    times = np.array([0.0, 0.1, 1.0, 10.0, 100.0])
    result = integrate(chain, times=times, initial={"A": 1.0}, rtol=1e-9, atol=1e-14, device="cpu")[
        "concentration"
    ].values[0]
    k = list(rates.values())
    for n in range(4):
        exact = math.prod(k[:n]) * sum(
            np.exp(-k[i] * times) / math.prod(k[j] - k[i] for j in range(n + 1) if j != i)
            for i in range(n + 1)
        )
        np.testing.assert_allclose(result[:, n], exact, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("method", "order"), [("rodas4", 4), ("rosenbrock23", 2)])
def test_order_of_the_step(method, order):
    """The error follows the tolerance of steps, whose errors are of this order."""
    errors, steps = [], []
    exact = final(ROBERTSON, 1.0, {"A": 1.0, "B": 1e-5}, rtol=1e-11, atol=1e-15)
    for rtol in (1e-5, 1e-7, 1e-9):
        result = integrate(
            ROBERTSON, times=[0, 1], initial={"A": 1.0, "B": 1e-5}, rtol=rtol, atol=1e-4 * rtol,
            method=method, device="cpu",
        )  # fmt: skip
        errors.append(np.abs(result["concentration"].values[0, -1] - exact).max())
        steps.append(result["step_count"].item())
    slope = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope > order - 0.5


def test_type_ia_zone_step_for_step(fern, reference):
    result = integrate(
        fern, times=[0, 1e-9], method="asymptotic", reference_control=True, device="cpu", **TYPE_IA
    )
    assert result["step_count"].item() == pytest.approx(32_181, rel=1e-3)
    found = result["mass_fraction"].values[0, -1]
    assert np.abs(found - reference).sum() < 1e-4
    large = reference > 1e-9
    np.testing.assert_allclose(found[large], reference[large], rtol=1e-3)


def test_type_ia_zone_without_the_reference_control(fern, reference):
    result = integrate(fern, times=[0, 1e-9], method="asymptotic", device="cpu", **TYPE_IA)
    assert result["step_count"].item() == pytest.approx(31_917, rel=1e-3)
    np.testing.assert_allclose(result["mass_fraction"].values[0, -1], reference, atol=1e-3)


def test_type_ia_zone_implicit(fern, tight):
    result = integrate(fern, times=[0, 1e-9], rtol=1e-3, device="cpu", **TYPE_IA)
    found = result["mass_fraction"].values[0, -1]
    assert np.abs(found - tight).sum() < 1e-4
    assert result["step_count"].item() < 60
    assert abs(found.sum() - 0.99992) < 1e-12


def test_many_times_cost_few_steps(fern, tight):
    """The solution between steps is as good as at their ends."""
    times = np.concatenate([[0.0], np.geomspace(1e-14, 1e-9, 41)])
    options = {"device": "cpu", **TYPE_IA}
    result = integrate(fern, times=times, rtol=1e-4, **options)
    fine = integrate(fern, times=times, rtol=1e-7, atol=1e-10, **options)
    apart = np.abs(result["mass_fraction"] - fine["mass_fraction"]).sum("species")
    assert float(apart.max()) < 3e-4
    assert result["step_count"].item() < 80


def test_hires():
    found = final(HIRES, 321.8122, {"y1": 1.0, "y8": 0.0057}, rtol=1e-8, atol=1e-13)
    exact = [
        7.37131257e-4, 1.44248573e-4, 5.88872974e-5, 1.17565134e-3, 2.3863562e-3, 6.23896825e-3,
        2.8499984e-3, 2.8500016e-3,
    ]  # fmt: skip
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_pollution():
    initial = {"y2": 0.2, "y4": 0.04, "y7": 0.1, "y8": 0.3, "y9": 0.01, "y17": 0.007}
    found = final(POLLU, 60.0, initial, rtol=1e-8, atol=1e-22)
    exact = [
        5.646255480022769e-2, 1.342484130422339e-1, 4.139734331099427e-9, 5.523140207484359e-3,
        2.018977262302196e-7, 1.464541863493966e-7, 7.784249118997964e-2, 3.245075353396018e-1,
        7.494013383880406e-3, 1.622293157301561e-8, 1.135863833257075e-8, 2.230505975721359e-3,
        2.087162882798630e-4, 1.396921016840158e-5, 8.964884856898295e-3, 4.352846369330103e-18,
        6.899219696263405e-3, 1.007803037365946e-4, 1.772146513969984e-6, 5.682943292316392e-5,
    ]  # fmt: skip
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_e5_as_published():
    """E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", test problem E5."""
    found = final(E5, 1e3, {"a": 1.76e-3}, rtol=1e-8, atol=1e-24)
    exact = [
        1.618076919919600e-3, 1.382236955418478e-10, 8.251573436034144e-12, 1.299721221058136e-10,
    ]  # fmt: skip
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_oregonator():
    """The limit cycle of Belousov and Zhabotinsky: R. J. Field, R. M. Noyes (1974)."""
    found = final(OREGONATOR, 360.0, {"x": 1.0, "y": 2.0, "z": 3.0}, rtol=1e-8, atol=1e-10)
    exact = [1.000814870318523, 1228.178521549917, 132.0554942846706]
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_brusselator():
    """E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", II.4."""
    found = final(BRUSSELATOR, 20.0, {"x": 1.5, "y": 3.0}, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found, [0.4986370712683478, 4.596780349452011], rtol=1e-6)


def test_e5():
    """Amounts that differ by fourteen orders, against SciPy."""
    from scipy.integrate import solve_ivp

    def change(t, y):
        a, b, c, d = y
        one, two, three, four = 7.89e-10 * a, 1.1e7 * a * c, 1.13e9 * b * c, 1.13e3 * d
        return [-one - two, one - three, one - two - three + four, two - four]

    found = final(E5, 1e5, {"a": 1.76e-3}, rtol=1e-7, atol=1e-24)
    exact = solve_ivp(
        change, (0, 1e5), [1.76e-3, 0, 0, 0], method="Radau", rtol=1e-10, atol=1e-26
    ).y[:, -1]
    np.testing.assert_allclose(found, exact, rtol=1e-5)
