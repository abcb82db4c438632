"""The differential equations of a reaction network, as a vector field."""

from __future__ import annotations

import ast
from typing import Any

from ergode.core.errors import ModelError
from ergode.core.inputs import remembered
from ergode.core.inputs.entries import MADE_BY
from ergode.models.expressions import TIME, Expression
from ergode.models.fields.equations import field_from_equations
from ergode.models.fields.vector_field import VectorField
from ergode.models.reactions.mass_action import law_of
from ergode.models.reactions.network import ReactionNetwork


@remembered
def field_from_network(network: ReactionNetwork) -> VectorField:
    """The macroscopic equations of a network: rates of change of real amounts.

    Variables are the species, in the sense of their `quantity` (amount or concentration), then
    parameters with a rate rule. The parameters are those of the network that are numbers, and the
    sizes of its compartments; rules and other parameters are written out. The rate of two equal
    molecules is that of n^2.

    Parameters
    ----------
    network : ReactionNetwork
        Without events and delays; sizes of compartments do not change.

    Returns
    -------
    VectorField
        For `ergode.trajectories`: ensembles, stiff methods, sensitivities, fits, GPUs.

    Raises
    ------
    ModelError
        The network has an event, a delay, a compartment whose size changes, or a formula that a
        field cannot have; the message names it.

    Examples
    --------
    >>> import ergode
    >>> binding = ergode.Reaction("A + B -> C", rate_constant="k")
    >>> network = ergode.ReactionNetwork({"A": 2, "B": 1, "C": 0}, [binding], {"k": 0.5})
    >>> field = ergode.field_from_network(network)
    >>> found = ergode.trajectories.integrate(
    ...     field, times=[0, 1, 2], initial={"A": 2.0, "B": 1.0, "C": 0.0}, parameters={"k": 0.5}
    ... )
    >>> found["state"].sel(variable="C").values.round(4).tolist()
    [0.0, 0.5647, 0.7746]
    """
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {network!r}; expected a ReactionNetwork")
    for event in network.events:
        raise ModelError(f"the event '{event.name or event.trigger.text}' has no place in a field")
    for k in network.reactions.delays:
        raise ModelError(f"reaction '{network.reactions.name_of(k)}' has a delay")
    sizes = {one.name for one in network.compartments}
    for name in sorted(sizes & network.rate_rules.keys()):
        raise ModelError(f"the size of the compartment '{name}' changes")
    species = {one.name: one for one in network.species}
    for name in species:
        if not name.isidentifier():
            raise ModelError(
                f"species '{name}' cannot be a variable of a field; rename it with letters, digits "
                "and underscores"
            )
    laws = [_written_out(law_of(one, species, continuous=species), network)
            for one in network.reactions]  # fmt: skip
    changes = network.stoichiometry.tocsr()
    equations = {}
    for i, (name, one) in enumerate(species.items()):
        row = changes[i]
        terms = [
            f"({float(n)!r}) * ({laws[k]})" for k, n in zip(row.indices, row.data, strict=True)
        ]
        text = " + ".join(terms) or "0.0"
        if one.quantity == "concentration" and one.compartment is not None:
            text = f"({text}) / ({_written_out(Expression(one.compartment), network)})"
        if name in network.rate_rules:
            text += f" + ({_written_out(network.rate_rules[name], network)})"
        equations[name] = text
    for name, rule in network.rate_rules.items():
        if name not in species:
            equations[name] = _written_out(rule, network)
    numbers = [
        name
        for name, value in _values(network).items()
        if name not in equations and not isinstance(value, Expression)
    ]
    return field_from_equations(equations, numbers)


def network_of(field: VectorField) -> ReactionNetwork | None:
    """The network whose equations a field has; None of other fields."""
    made, given = vars(field).get(MADE_BY, ("", {}))
    return given.get("network") if made.endswith(":field_from_network") else None


def _values(network: ReactionNetwork) -> dict[str, Any]:
    """Parameters and sizes of compartments: numbers, or formulas of others."""
    return dict(network.parameters) | {one.name: one.size for one in network.compartments}


def _written_out(formula: Expression, network: ReactionNetwork) -> str:
    """A formula in the names and the functions of a field: without rules, at a time `t`."""
    known: dict[str, Any] = {**network.rules, **_values(network)}
    while True:
        inner = {
            name: known[name]
            for name in formula.names
            if isinstance(known.get(name), Expression) and name not in network.rate_rules
        }
        if not inner:
            break
        formula = formula.substitute(inner)
    if "t" in formula.names:
        raise ModelError("a quantity is called 't', which is the time of a field")
    tree = _Words().visit(formula.substitute({TIME: Expression("t")}).tree)
    return ast.unparse(tree)


class _Words(ast.NodeTransformer):
    """Functions of formulas that a field calls otherwise."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node = ast.Call(node.func, [self.visit(one) for one in node.args], [])
        assert isinstance(node.func, ast.Name)
        match node.func.id:
            case "log10":
                return ast.BinOp(
                    _call("log", node.args), ast.Div(), _call("log", [ast.Constant(10.0)])
                )
            case "ceil":
                minus = ast.UnaryOp(ast.USub(), node.args[0])
                return ast.UnaryOp(ast.USub(), _call("floor", [minus]))
        return node


def _call(name: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), arguments, [])
