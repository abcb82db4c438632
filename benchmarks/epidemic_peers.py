"""The epidemics of `epidemics.py` and `epidemic_leaps.py` in EoN, FastGEMF and NDlib."""

from __future__ import annotations

import random

import numpy as np


def eon_fast_nonmarkov_sir(contacts, seeds=100):
    """SIR with log-normal infectious times."""
    import EoN

    graph = contacts.to_networkx()
    nodes = list(graph)
    mu, sigma = np.log(5.0), np.sqrt(2 * np.log(7.5 / 5.0))
    return lambda: EoN.fast_nonMarkov_SIR(
        graph, trans_time_fxn=lambda *_: random.expovariate(0.25),
        rec_time_fxn=lambda _: random.lognormvariate(mu, sigma),
        initial_infecteds=random.sample(nodes, seeds), tmax=100,
    )  # fmt: skip


def eon_fast(kind, contacts, seeds=100, days=100):
    """Memoryless SIR or SIS."""
    import EoN

    simulate = {"SIR": EoN.fast_SIR, "SIS": EoN.fast_SIS}[kind]
    graph = contacts.to_networkx()
    nodes = list(graph)
    return lambda: simulate(
        graph, 0.25, 0.15, initial_infecteds=random.sample(nodes, seeds), tmax=days
    )


def eon_fast_simple_contagion(contacts, seeds=100):
    """Memoryless SEIR."""
    import EoN
    import networkx

    graph = contacts.to_networkx()
    nodes = list(graph)
    alone, along = networkx.DiGraph(), networkx.DiGraph()
    alone.add_edge("E", "I", rate=0.2)
    alone.add_edge("I", "R", rate=0.15)
    along.add_edge(("I", "S"), ("I", "E"), rate=0.25)

    def work():
        start = dict.fromkeys(nodes, "S") | dict.fromkeys(random.sample(nodes, seeds), "I")
        return EoN.fast_simple_contagion(
            graph, alone, along, start, return_statuses=("S", "E", "I", "R"), tmax=100
        )

    return work


def fastgemf(kind, contacts, seeds=100, days=100):
    """Memoryless SIR or SIS, one event after another."""
    import contextlib
    import io

    import fastgemf

    left = kind[-1]  # where the infectious recover to
    schema = (
        fastgemf.ModelSchema(kind)
        .define_compartment(sorted({*kind}, key=kind.index))
        .add_network_layer("layer")
        .add_node_transition(name="recovery", from_state="I", to_state=left, rate="gamma")
        .add_edge_interaction(
            name="infection", from_state="S", to_state="I", inducer="I", network_layer="layer",
            rate="beta",
        )
    )  # fmt: skip
    model = fastgemf.ModelConfiguration(schema).add_parameter(beta=0.25, gamma=0.15)
    model.get_networks(layer=contacts.to_scipy().tocsr())
    rng = np.random.default_rng(1)

    def work():
        state = np.zeros(contacts.node_count, int)
        state[rng.choice(contacts.node_count, seeds, replace=False)] = 1
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            fastgemf.Simulation(
                model, initial_condition={"exact": state}, stop_condition={"time": days}, nsim=1
            ).run()

    return work


def ndlib_steps(kind, contacts, seeds=100, steps=100):
    """Memoryless SIR or SIS in steps of length one."""
    import ndlib.models.epidemics as epidemics
    from ndlib.models import ModelConfig

    graph = contacts.to_networkx()
    nodes = list(graph)
    model = getattr(epidemics, f"{kind}Model")(graph)
    chosen = ModelConfig.Configuration()
    chosen.add_model_parameter("beta", 1 - np.exp(-0.25))
    chosen.add_model_parameter("gamma" if kind == "SIR" else "lambda", 1 - np.exp(-0.15))
    chosen.add_model_initial_configuration("Infected", random.sample(nodes, seeds))
    model.set_initial_status(chosen)

    def work():
        model.reset(random.sample(nodes, seeds))
        return model.iteration_bunch(steps, node_status=False)

    return work
