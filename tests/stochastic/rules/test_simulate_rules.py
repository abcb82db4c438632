"""simulate_rules: the law of the generated network, of chains without an end, and of pairs drawn
one by one; and what it refuses."""

import numpy as np
import pytest
import xarray
from scipy import stats
from scipy.sparse import diags
from scipy.sparse.linalg import expm_multiply

import ergode
from ergode import ModelError, PlanError, ReadError
from ergode.core.status import Status

MODEL = """begin parameters
k 2
c 0.3
n 3
end parameters
begin molecule types
{types}
end molecule types
begin seed species
{seeds}
end seed species
begin reaction rules
{rules}
end reaction rules
begin observables
{observables}
end observables
begin functions
{functions}
end functions
"""
TYPES = "A(b,b,b,s~U~P)\nB(a)\nD(x,x)\nE(p,q~0~1~2)"
OBSERVABLES = """Molecules free A(b)
Molecules twice A(b!+,b!+)
Molecules active A(s~P)
Molecules bound B(a!+)
Species with_A A()
Species with_D D()
Molecules ends D(x)
Molecules in_one D.D
Species large D()>=3
Molecules pairs D(x!1).D(x!1)
Molecules two_or_B D()==2, B()
Molecules E1 E(q~1)
Molecules rings D(x!1,x!2).D(x!1,x!2)"""
BIND = "A(b) + B(a) <-> A(b!1).B(a!1) c, k\n"
CHAIN = "D(x) + D(x) <-> D(x!1).D(x!1) 0.2*k, k\n"
SEEDS = "A(b,b,b,s~U) n\nB(a) 4\n"
DIMER = "A(b!1,b,b,s~P).B(a!1) 1\n"

# Rules, seeds, functions, and the largest species.
CASES = {
    "states that depend on bonds": (
        BIND + "A(b,s~U) -> A(b,s~P) k\nA(s~P) -> A(s~U) c", SEEDS + DIMER, "", None),
    "chains, and rings that a bond inside closes": (
        CHAIN + "D(x).D(x) -> D(x!1).D(x!1) c\nD(x!1).D(x!1) -> D(x).D(x) c", "D(x,x) 5", "", 5),
    "a ring of two that opens at either bond": (
        "D(x!1,x!2).D(x!1,x!2) <-> D(x!1,x).D(x!1,x) k, k\nD(x) + D(x) <-> D(x!1).D(x!1) c, c",
        "D(x,x) 4", "", 4),
    "a species that goes with all of it, a molecule that goes alone": (
        BIND + "A(s~U) -> 0 0.2\nA(s~P) -> 0 0.2 DeleteMolecules\nA(s~U) -> A(s~P) c\n"
        "B(a!+) -> 0 0.1 DeleteMolecules\n"
        "A(b!1).B(a!1) + E(p) -> A(b) + B(a) 0.3 DeleteMolecules", SEEDS + "E(p,q~0) 3", "", None),
    "synthesis": (
        "0 -> B(a) k\n0 -> D(x!1,x).D(x!1,x) c\nD() -> 0 k\nB(a) -> 0 c\nA() -> A() + B(a) c\n"
        "A(b) + B(a) -> A(b!1).B(a!1) 0.1", "A(b,b,b,s~U) 2", "", None),
    "species that count once": (
        BIND + "B() + D() -> B() + D() + E(p,q~1) c\nE() -> 0 k\n" + CHAIN,
        SEEDS + "D(x,x) 3", "", 6),
    "two equal reactants that go": ("D(x) + D(x) -> 0 0.05\n" + CHAIN, "D(x,x) 5", "", 5),
    "three equal reactants": (
        "D() + D() + D() -> D() + D() + D() + E(p,q~0) 0.05\nE(q~0) -> E(q~1) k\nE(q~1) -> 0 k\n"
        "D(x) -> E(p,q~1) 0.1 DeleteMolecules\n" + CHAIN, "D(x,x) 4", "", 4),
    "a catalyst that may be bound to what it changes": (
        "E(q~0) + A(s~U) -> E(q~0) + A(s~P) c\nE() + A(s~P) -> E() + A(s~U) c\n"
        "A(b) + E(p) <-> A(b!1).E(p!1) c, k", "A(b,b,b,s~U) 2\nE(p,q~0) 3", "", None),
    "conditions of reactants": (
        BIND + "A(s~U) -> A(s~P) k exclude_reactants(1,B)\n"
        "A(s~P) -> A(s~U) k include_reactants(1,B)", SEEDS, "", None),
    "conditions of products": (
        "A(b) + B(a) -> A(b!1).B(a!1) c exclude_products(1,A(b!+,b!+,b!+))\n"
        "A(b!1).B(a!1) -> A(b) + B(a) k include_products(1,A(b!+))", SEEDS + "B(a) 3", "", None),
    "parts of a species that no bond of the pattern joins": (
        BIND + "A(b) + E(p) <-> A(b!1).E(p!1) c, k\nE(q~0).B -> E(q~1).B k\nE(q~1) -> E(q~0) c\n"
        "E(q~0).E(q~1) -> E(q~2).E(q~1) k\nE(q~2) -> E(q~0) c",
        "A(b,b,b,s~U) 2\nB(a) 3\nE(p,q~0) 3", "", None),
    "rates that follow observables and the time": (
        "A(b) + B(a) <-> A(b!1).B(a!1) f(), g()\n0 -> B(a) h()\nB(a) -> 0 c", SEEDS,
        "f() 0.3/(1+bound)\ng() k/(1+free)\nh() if(time>0.5,4,1)*(1+active)", None),
    "equal reactants, one of which changes": (
        "A(s~U) + A(s~U) -> A(s~P) + A(s~U) c\nA(s~U) + A(s~U) -> A(s~P) + A(s~P) c\n"
        "A(s~P) -> A(s~U) k\nA(b!1).B(a!1) + A(b) -> A(b) + A(b!1).B(a!1) c\n" + BIND,
        SEEDS, "", None),
    "rates that depend on a molecule": (
        "A%x(s~U) -> A%x(s~P) f(x)\nA(s~P) -> A(s~U) c\nA%x(b!1).B(a!1) -> A%x(b) + B(a) g(x)\n"
        "A(b) + B(a) -> A(b!1).B(a!1) c\nB%y(a) + A(b!+) -> A(b!+) 0.02*(1+h(y))",
        SEEDS + DIMER, "f(x) k*(1+twice(x))/(1+free(x))\ng(z) 0.5*k/(1+twice(z)*active)\n"
        "h(a) 2-two_or_B(a)", None),
    "rates that depend on a species": (
        "%x:A(s~U) -> %x:A(s~P) f(x)\nA(s~P) -> A(s~U) c\n0 -> B(a) h()\n"
        "%y:B(a!1).A(b!1) -> B(a) + A(b) c*(1+with_A(y)+bound(y))\n%x:B(a) -> 0 0.3*two_or_B(x)\n"
        "A(b) + B(a) -> A(b!1).B(a!1) c\nA(b!1).A(b!1) -> A(b) + A(b) c",
        SEEDS + DIMER, "f(x) 0.5*k*(1+bound(x))/(1+active(x))\nh() if(time>0.5,2,0.5)", None),
    "rates that depend on chains": (
        "%x:D(x) + D(x) -> %x:D(x!1).D(x!1) 0.2*k*ends(x)/(1+large(x))\n0 -> D(x,x) 0.3\n"
        "%x:D(x!1).D(x!1) -> D(x) + D(x) c*pairs(x)*(1+in_one(x))\n"
        "D%y(x!+) -> 0 0.05*(1+pairs(y)) DeleteMolecules\nD%x() -> 0 0.02*ends(x)",
        "D(x,x) 3", "", 7),
    "branches of one molecule": (
        "A(b) + A(b) <-> A(b!1).A(b!1) c, k\nA(b).A(b) -> A(b!1).A(b!1) c\n"
        "A(s~U).A(s~U) -> A(s~P).A(s~U) c\nA(s~P) -> A(s~U) c", "A(b,b,b,s~U) n", "", 3),
}  # fmt: skip
TIMES = [0, 0.3, 1.0, 2.0]


def random_rules(number):
    """A few rules at random: bonds, states, swaps, births and deaths, with random contexts."""
    rng = np.random.default_rng(number)

    def state():
        return rng.choice(["", ",s~U", ",s~P", ",b", ",b!+"])

    one, two = state(), state()
    rules = [
        f"A(b{one}) + B(a) -> A(b!1{one}).B(a!1) c",
        f"A(b!1{two}).B(a!1) -> A(b{two}) + B(a) k",
        "A(b,s~U) -> A(b,s~P) c",
        "A(s~P) -> A(s~U) k",
        rng.choice(["A(b) + A(b!1).B(a!1) -> A(b!1).B(a!1) + A(b) c", "A(s~P).B -> A(s~U).B k",
                    "A(s~P) + A(s~U) -> A(s~U) + A(s~P) c"]),
        rng.choice(["B(a) -> 0 c", "A(s~P) -> 0 c",
                    "A(b!1).B(a!1) -> A(b) c DeleteMolecules", "B() -> 0 c"]),
    ]  # fmt: skip
    return "\n".join(rules), "A(b,b,b,s~U) 3\nB(a) 3\n" + DIMER, "", None


CASES |= {f"at random, {number}": random_rules(number) for number in range(6)}


@pytest.fixture
def write(tmp_path):
    def put(rules, seeds=SEEDS, functions="", observables=OBSERVABLES, types=TYPES):
        path = tmp_path / "model.bngl"
        path.write_text(
            MODEL.format(
                types=types, seeds=seeds, rules=rules, observables=observables, functions=functions
            )
        )
        return path

    return put


def run(model, **options):
    given = {"times": TIMES, "replicates": 5, "seed": 1, "device": "cpu"} | options
    return ergode.stochastic.simulate_rules(model, **given)


def distances(found, expected):
    """Differences of two samples [replicate, ...] in deviations: of means, of second moments."""
    result = []
    for power in (1, 2):
        a, b = found**power, expected**power
        spread = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        different = a.mean(axis=0) - b.mean(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.abs(different) / spread
        result.append(np.where(different == 0, 0.0, z))
    return np.array(result)


# Two moments of 13 observables at three times in 25 models, together at 1e-6.
FAR = stats.norm.isf(1e-6 / (2 * 2 * 16 * 3 * 25) / 2)


@pytest.mark.parametrize("name", CASES)
def test_the_law_is_that_of_the_generated_network(write, name):
    rules, seeds, functions, largest = CASES[name]
    path = write(rules, seeds, functions)
    network = ergode.read_bionetgen(path, max_molecules=largest)
    expected = ergode.stochastic.simulate(
        network, times=TIMES, replicates=3000, seed=1, device="cpu",
        method="rejection-bounds" if functions else "warp-direct",
    )  # fmt: skip
    found = run(ergode.read_rules(path), replicates=3000, seed=2)
    assert np.isin(found["status"], [Status.DONE, Status.EXTINCT]).all()
    assert found["firing_count"].sum() > 3000
    names = [one for one in expected["rule"].values if not one.startswith("_")]
    assert list(found["rule"].values) == names
    values = expected["value"].sel(rule=names).values
    assert distances(found["value"].values, values).max() < FAR


def test_bonds_that_break_and_leave_the_products_joined(write):
    """Without `strict` a rule is that rule and the one whose products are one species."""
    rules = "D(x) + D(x) -> D(x!1).D(x!1) c\nD(x).D(x) -> D(x!1).D(x!1) k\n"
    rules += "D(x!1).D(x!1) -> D(x) + D(x) k"
    found = run(ergode.read_rules(write(rules, "D(x,x) 4")), replicates=3000, strict=False)
    both = write(rules + "\nD(x!1).D(x!1) -> D(x).D(x) k", "D(x,x) 4")
    network = ergode.read_bionetgen(both, max_molecules=4)
    expected = ergode.stochastic.simulate(
        network, times=TIMES, replicates=3000, seed=3, device="cpu", method="warp-direct"
    )
    values = expected["value"].sel(rule=found["rule"].values).values
    assert distances(found["value"].values, values).max() < FAR
    # Its rings stay: once closed, no bond of theirs divides them.
    strict = run(ergode.read_rules(write(rules, "D(x,x) 4")), replicates=3000)
    rings = [one["value"].sel(rule="rings").values[:, -1] for one in (strict, found)]
    assert rings[0].mean() > rings[1].mean() + 0.2


def test_chains_without_an_end(write):
    """Chains that do not close are a birth and death process: of n chains, n (n - 1) 2 k join."""
    count, k, c = 60, 2.0, 0.3
    path = write("D(x) + D(x) <-> D(x!1).D(x!1) k, c", f"D(x,x) {count}", "",
                 "Species chains D()\nMolecules ends D(x)\nSpecies alone D(x,x)")  # fmt: skip
    found = run(ergode.read_rules(path), times=[0, 0.01, 0.05, 3.0], replicates=2000)
    n = np.arange(count + 1)
    down, up = 2 * k * n * (n - 1), c * (count - n)
    matrix = diags([-(down + up), down[1:], up[:-1]], [0, 1, -1])
    start = np.zeros(count + 1)
    start[count] = 1.0
    values = found["value"].values
    np.testing.assert_array_equal(values[:, :, 1], 2 * values[:, :, 0])
    for i, t in enumerate(found["time"].values[1:], 1):
        p = expm_multiply(matrix * t, start)
        mean, square = p @ n, p @ n**2
        spread = np.sqrt(np.array([square - mean**2, p @ n**4.0 - square**2]) / 2000)
        moments = np.array([values[:, i, 0].mean(), (values[:, i, 0] ** 2).mean()])
        assert (np.abs(moments - [mean, square]) < 5.4 * spread).all()


def of_ligands(ligands, receptors, rates, times, rng):
    """Trivalent ligands and bivalent receptors, drawn event by event: bonds, and largest complex.

    A plain list of bonds; the complexes are found anew after every event.
    """
    join, cross, leave = rates
    sites = [None] * (3 * ligands + 2 * receptors)

    def owner(s):
        return s // 3 if s < 3 * ligands else ligands + (s - 3 * ligands) // 2

    t, rows = 0.0, []
    while True:
        label = list(range(ligands + receptors))
        for s, other in enumerate(sites):
            if other is not None and label[owner(s)] != label[owner(other)]:
                old, new = label[owner(s)], label[owner(other)]
                label = [new if one == old else one for one in label]
        events, weights = [], []
        for s in range(3 * ligands):
            if sites[s] is not None:
                events.append((s, None))
                weights.append(leave)
                continue
            mine = sites[3 * (s // 3) : 3 * (s // 3) + 3]
            rate = join if mine == [None] * 3 else cross
            for r in range(3 * ligands, len(sites)):
                if sites[r] is None and label[owner(r)] != label[owner(s)]:
                    events.append((s, r))
                    weights.append(rate)
        t += rng.exponential() / sum(weights)
        largest = max(label.count(one) for one in set(label))
        while len(rows) < len(times) and times[len(rows)] < t:
            rows.append([sum(one is not None for one in sites[: 3 * ligands]), len(set(label)),
                         largest > 6])  # fmt: skip
        if len(rows) == len(times):
            return rows
        s, r = events[rng.choice(len(events), p=np.array(weights) / sum(weights))]
        if r is None:
            sites[sites[s]] = None
            sites[s] = None
        else:
            sites[s], sites[r] = r, s


def test_ligands_that_join_receptors_without_an_end(write):
    path = write(
        "R(l) + L(r,r,r) <-> R(l!1).L(r!1,r,r) 0.05, 0.4\n"
        "R(l) + L(r,r,r!+) <-> R(l!1).L(r!1,r,r!+) 0.2, 0.4\n"
        "R(l) + L(r,r!+,r!+) <-> R(l!1).L(r!1,r!+,r!+) 0.2, 0.4",
        "R(l,l) 9\nL(r,r,r) 6", "",
        "Molecules bonds L(r!1).R(l!1)\nSpecies complexes R(), L()\nSpecies both R().L()\n"
        "Species some R()>3",
        "R(l,l)\nL(r,r,r)",
    )  # fmt: skip
    times, rng = [0.5, 2.0], np.random.default_rng(3)
    expected = np.array([of_ligands(6, 9, (0.05, 0.2, 0.4), times, rng) for _ in range(300)])
    found = run(ergode.read_rules(path), times=[0, *times], replicates=3000)["value"].values[:, 1:]
    # Complexes that have a receptor, and those that have a ligand; both count in one that has both.
    complexes = found[:, :, 1] - found[:, :, 2]
    both = np.stack([found[:, :, 0], complexes], axis=2)
    assert distances(both, expected[:, :, :2].astype(float)).max() < 5.2


def test_parts_threads_and_times_do_not_change_a_realization(write, tmp_path):
    path = write("0 -> B(a) k\nB(a) -> 0 c\n" + BIND + CHAIN, "A(b,b,b,s~U) n\nD(x,x) 40")
    model = ergode.read_rules(path)
    sweep = {"parameters": {"n": [2, 5], "k": [1.0, 3.0]}, "max_molecules": 1000}
    whole = run(model, **sweep)
    assert whole["value"].dims == ("point", "replicate", "time", "rule")
    free = whole["value"].sel(rule="free").values[:, :, 0]
    assert (free == [[6] * 5, [15] * 5]).all()
    parts = [run(model, replicates=one, **sweep) for one in (range(2), range(2, 5))]
    xarray.testing.assert_equal(ergode.concat(parts), whole)
    xarray.testing.assert_equal(run(model, device="cpu:1", **sweep), whole)
    stored = run(model, store=tmp_path / "run.zarr", chunk=2, **sweep)
    xarray.testing.assert_equal(stored, whole)
    many = run(model, **(sweep | {"times": np.linspace(0, 2, 21)}))
    np.testing.assert_array_equal(many["value"].values[:, :, [0, 3, 10, 20]], whole["value"])
    alone = run(model, parameters={"n": 5, "k": 3.0}, max_molecules=1000)
    np.testing.assert_array_equal(alone["value"], whole["value"][1])
    final = run(model, output="final", **sweep)
    np.testing.assert_array_equal(final["value"], whole["value"][:, :, -1])
    summed = run(model, output="statistics", **sweep)
    np.testing.assert_allclose(summed["value_mean"], whole["value"].mean("replicate"))
    np.testing.assert_allclose(summed["value_variance"], whole["value"].var("replicate", ddof=1))


def test_how_realizations_end(write):
    born = ergode.read_rules(write("0 -> B(a) 100", "D(x,x) 1"))
    with pytest.warns(ergode.FailureWarning):
        found = run(born, max_molecules=20)
    assert (found["status"] == Status.OVERFLOW).all()
    assert (found["value"].sel(rule="two_or_B")[:, 0] == 0).all()
    assert np.isnan(found["value"][:, -1]).all()
    with pytest.warns(ergode.FailureWarning):
        assert (run(born, max_firings=7)["firing_count"] == 7).all()
    gone = run(ergode.read_rules(write("B(a) -> 0 50", SEEDS)))
    assert (gone["status"] == Status.EXTINCT).all() and (gone["firing_count"] == 4).all()
    # Two ends of one chain, which may not join: all choices are rejected.
    stuck = ergode.read_rules(write("D(x) + D(x) -> D(x!1).D(x!1) 1000", "D(x,x) 1"))
    assert (run(stuck)["firing_count"] == 0).all()
    with pytest.warns(ergode.FailureWarning):
        assert (run(stuck, max_firings=50)["status"] == Status.TOO_MANY_STEPS).all()
    negative = ergode.read_rules(write("B(a) -> 0 f()", SEEDS, "f() 1-free"))
    with pytest.warns(ergode.FailureWarning):
        assert (run(negative)["status"] == Status.NEGATIVE_RATE).all()
    # Of one molecule alone, and of one without a value.
    for rate, status in (("1-free(x)", Status.NEGATIVE_RATE), ("1/active(x)", Status.NOT_FINITE)):
        alone = ergode.read_rules(write("A%x(s~U) -> B(a) f(x)", SEEDS, f"f(x) {rate}"))
        with pytest.warns(ergode.FailureWarning):
            assert (run(alone)["status"] == status).all()


@pytest.mark.parametrize(
    ("rules", "options", "error", "message"),
    [
        ("$", {}, ReadError, "line 14: a species of a fixed amount"),
        ("B(a) -> 0 Sat(k,c)", {}, ReadError, "line 18: the rate law 'Sat' is of amounts"),
        ("%x:B(a) + D%y(x) -> D%y(x) f(x)*f(y)", {}, PlanError, "depends on two reactants"),
        ("E(q~0).B%x() -> E(q~1).B f(x)", {}, PlanError, "a molecule which no bond of the pattern"),
        ("B(a) -> 0 kk", {}, ReadError, "line 18: 'kk' is no parameter, observable or function"),
        ("B(a)@C -> 0 k", {}, ReadError, "line 18: 'C' is no compartment"),
        ("B(a) -> 0 f()", {}, PlanError, "the observable 'large', which is of species"),
        ("B(a) -> 0 sin(time)", {}, PlanError, "a rate depends on the time"),
        ("A.B.D -> 0 k", {}, PlanError, "rule _R1 has a pattern of 3 molecules or groups"),
        ("B(a!1).D(x!1,x) -> B(a!1!2).D(x!1,x!2) k", {}, PlanError, "has two bonds"),
        ("B(a) -> 0 k", {"device": "cuda"}, PlanError, "on the CPU only"),
        ("B(a) -> 0 k", {"output": "events"}, PlanError, "'events'"),
        ("B(a) -> 0 k", {"times": [0]}, ModelError, "one time"),
        ("B(a) -> 0 k", {"parameters": {"q": 1.0}}, ModelError, "'q' is neither a parameter"),
        ("B(a) -> 0 k", {"parameters": {"n": 1.5}}, ModelError, "'n' = 1.5 molecules; expected a"),
        ("B(a) -> 0 k", {"parameters": {"k": -1.0}}, ModelError, "'R1' is -1; expected 0 or more"),
        ("B(a) -> 0 k", {"parameters": {"n": 1e12}}, PlanError, "do not fit"),
        ("B(a) -> 0 k", {"max_molecules": -1}, PlanError, "max_molecules"),
        ("B(a) -> 0 k", {"output": "statistics", "chunk": 2}, PlanError, "depends on the parts"),
    ],
)
def test_what_is_refused(write, rules, options, error, message):
    fixed, local = rules == "$", "%" in rules
    path = write(
        "B(a) -> 0 k" if fixed else rules, "B(a) 1\n$B(a) 2" if fixed else SEEDS,
        "f(x) large(x)" if local else "f() large",
    )  # fmt: skip
    with pytest.raises(error, match=message):
        run(ergode.read_rules(path), **options)


def test_models_that_are_no_rules(write):
    with pytest.raises(ModelError, match="expected a RuleModel"):
        run(ergode.ReactionNetwork({"A": 1}, []))
    with pytest.raises(PlanError, match="has no observables"):
        run(ergode.read_rules(write("B(a) -> 0 k", observables="")))
