"""What tests of readers share: propensities straight from the definition, and SBML in few words."""

import math

from ergode.models.expressions import TIME, Expression
from ergode.models.reactions.reaction import Law


def propensities(network, amounts, time=0.0, parameters=None):
    """Propensity of every reaction from amounts by species, by the definition of its law."""
    words = network.evaluate_parameters(parameters)
    sizes = {place.name: words[place.name] for place in network.compartments}
    words[TIME] = time
    for member in network.species:
        size = sizes.get(member.compartment, 1.0) if member.quantity == "concentration" else 1.0
        words[member.name] = amounts[member.name] / size
    for name in network.rule_order:
        words[name] = network.rules[name].evaluate(words)
    result = []
    for reaction in network.reactions:
        value = reaction.value
        rate = value.evaluate(words) if isinstance(value, Expression) else value
        if reaction.law != Law.RATE:
            for name, count in reaction.reactants.items():
                rate *= math.prod(amounts[name] - j for j in range(int(count)))
                if reaction.law == Law.STOCHASTIC:
                    rate /= math.factorial(int(count))
        if reaction.law == Law.DETERMINISTIC:
            names = reaction.reactants or reaction.products
            (place,) = {network.species[network.index[name]].compartment for name in names}
            rate *= sizes.get(place, 1.0) ** (1 - sum(reaction.reactants.values()))
        result.append(rate)
    return result


def sbml(body, *, level=3, version=1, attributes=""):
    """A document with some lists in its model; MathML is written as ``{{formula}}``."""
    core = f"level{level}/version{version}/core" if level == 3 else f"level{level}/version{version}"
    if (level, version) in ((1, 2), (2, 1)):
        core = f"level{level}"
    return (
        f'<sbml xmlns="http://www.sbml.org/sbml/{core}" level="{level}" version="{version}">\n'
        f'<model id="m" {attributes}>\n{_with_math(body)}\n</model>\n</sbml>'
    )


def _with_math(text):
    import libsbml

    while "{{" in text:
        before, _, rest = text.partition("{{")
        formula, _, after = rest.partition("}}")
        tree = libsbml.parseL3Formula(formula)
        assert tree is not None, libsbml.getLastParseL3Error()
        math = libsbml.writeMathMLToString(tree).partition("?>")[2]
        text = before + math + after
    return text
