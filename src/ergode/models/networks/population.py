"""Populations: people of an age, in households, classes, workplaces and a community.

References
----------
Office for National Statistics, Census 2021, England and Wales: population by age, household size.
J. Mossong et al., "Social contacts and mixing patterns relevant to the spread of infectious
diseases" (POLYMOD), PLoS Med. 5, e74 (2008): 97,904 contacts of 7,290 people in a day, 13.4 each.
C. C. Kerr et al., "Covasim: an agent-based model of COVID-19 dynamics and interventions", PLoS
Comput. Biol. 17, e1009149 (2021): relative transmission by layer, 3, 0.6, 0.6 and 0.3 (there with
20 contacts in the community, where people here have 5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, kernels
from ergode.core.arguments import as_numbers, is_finite_number
from ergode.core.calls.launch import check_room
from ergode.core.errors import ModelError
from ergode.models.networks import checks, csr, households, random_degrees, random_pairs
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.layers import from_layers
from ergode.models.networks.mixing import arc_sums, group_edges, labels_of, means
from ergode.models.networks.survey import lowest_ages

if TYPE_CHECKING:
    import xarray

AGES = {
    0: 5.5, 5: 6, 10: 6, 15: 5.5, 20: 6, 25: 6.5, 30: 7, 35: 6.5, 40: 6.5, 45: 6.5, 50: 7, 55: 6.5,
    60: 6, 65: 5, 70: 5, 75: 3.5, 80: 2.5, 85: 1.5, 90: 1,
}  # fmt: skip
"""Per cent of people by lowest age of five years: near Census 2021, to about half a per cent.

The census has 17.4 % below 15 and 18.6 % of 65 and older.
"""

HOUSEHOLD_SIZES = {1: 30, 2: 34, 3: 16, 4: 13, 5: 5, 6: 2}
"""Per cent of households by size, 6 for six and more: near those of Census 2021.

The census has 30.2 % of one person and a mean of 2.4; the other shares are approximate.
"""

WEIGHTS = {"household": 3.0, "school": 0.6, "work": 0.6, "community": 0.3}
"""Factors of layers on the transmission rate: Kerr et al. 2021."""

_AGE_GROUPS = (0, 5, 18, 65)
_COMMUNITY_DEGREE = 5.0
_AGE_MOST = 150
_SIZE_MOST = 1000
_BYTES_PER_PERSON = 400


class Population(NamedTuple):
    """A network of people, and the contacts asked for beside those that came out.

    Attributes
    ----------
    network : ContactNetwork
    contacts : xarray.Dataset
        Mean contacts of a person of `group` with people of `contact_group`: ``asked``, of the
        community; ``reciprocal``, the nearest that is possible here; ``realized``, by `layer`; and
        ``people``, the number of people of each group.
    """

    network: ContactNetwork
    contacts: xarray.Dataset


def population(
    node_count: int,
    *,
    ages: Mapping[int, float] | None = None,
    household_sizes: Mapping[int, float] | None = None,
    school_ages: ArrayLike = (5, 18),
    class_size: float = 25,
    school_size: float = 500,
    working_ages: ArrayLike = (18, 65),
    employment: float = 0.75,
    workplace_size: float = 20,
    work_degree: int = 6,
    community_degree: float | None = None,
    mixing: ArrayLike | None = None,
    age_groups: ArrayLike | None = None,
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Population:
    """People of an age, in households, school classes, workplaces and a community.

    Each setting is a layer, so that it can have a calendar or be closed:

    household
        All members are in contact. `ergode.models.networks.households` says who lives with whom.
        Nobody younger than 18 lives without an adult. Pyramid and sizes come out as asked, up to
        rounding; the last household is as large as the people who are left.
    school
        Pupils of one age who live near each other (households are numbered as they lie) form a
        class, and all members are in contact. Classes of all ages form a school.
    work
        The employed are dealt to workplaces at random; sizes are geometric. In a workplace of more
        than `work_degree` + 1, each is in contact with the `work_degree` nearest on a ring.
    community
        Pairs drawn independently, with a probability by their age groups that makes the mean
        contacts those of `mixing`. What is asked for, c[i, j], need not be mutual. Here the
        contacts between two groups are the mean of both statements:
        ``(N[i] c[i, j] + N[j] c[j, i]) / 2``. Where that exceeds all pairs, all pairs are in
        contact.

    Parameters
    ----------
    node_count : int
        Number of people.
    ages : mapping of int to float, or array_like, optional
        Weight of each age group by its lowest age in years. A group ends where the next begins; the
        last is as wide as that before it. Ages in a group are equally likely. A list has the
        weights of the ages 0, 1, 2 ... Weights are shares of any sum. The default is near Census
        2021, England and Wales, to about half a per cent.
    household_sizes : mapping of int to float, or array_like, optional
        Weight of each size of a household; a list has those of the sizes 1, 2, 3 ... The default is
        near Census 2021, England and Wales, to about a per cent.
    school_ages, working_ages : array_like of int, shape [2]
        Lowest age, and the age at which it is over [years]. These ages must not overlap.
    class_size, school_size : float
        Pupils in a class and in a school, about.
    employment : float
        Fraction of people of working age who have a workplace; the default is about that of the
        United Kingdom.
    workplace_size : float
        Mean number of people at a workplace, at least 1; the default is an assumption.
    work_degree : int
        Most contacts at work, even; the default is an assumption.
    community_degree : float, optional
        Mean contacts in the community if there is no `mixing`: at random, whatever the ages. The
        default is 5: with the other defaults a person then has 13.4 contacts, as in POLYMOD.
    mixing : DataFrame, DataArray or array_like of float, shape [group_count, group_count], optional
        Element (i, j) is the mean number of contacts in the community of a person of age group i
        with people of age group j.
    age_groups : array_like of float, shape [group_count], optional
        Lowest age of each group [years]; the last has no end. The default are the ages in the
        labels of `mixing`, such as those of `ergode.read_contact_matrix`, else 0, 5, 18, 65.
    weights : mapping of str to float, optional
        Factors on the transmission rate by layer. The default is 3, 0.6, 0.6 and 0.3 for
        household, school, work and community (Kerr et al. 2021); a layer that is not named keeps
        its default.
    seed : int
        Names the population among all such populations.

    Returns
    -------
    Population
        ``network``, with the layers above and the attributes ``"age"`` (years), ``"household"``,
        ``"class"``, ``"school"`` and ``"workplace"`` (indices, -1 for none); and ``contacts``.

    Raises
    ------
    ModelError
        A table is empty, negative or not finite, a matrix has a wrong shape, ages are in no group,
        or there are more children than places beside an adult.

    References
    ----------
    The sources of the defaults are listed in the module `ergode.models.networks.population`.

    Examples
    --------
    >>> import ergode
    >>> network, contacts = ergode.ContactNetwork.population(2000, seed=1)
    >>> network.layers
    ('household', 'school', 'work', 'community')
    >>> contacts["realized"].sel(layer="school", group="5-17").sum().item() > 15
    True
    """
    count = checks.node_count_of(node_count)
    seed_word = checks.seed_word(seed)
    by_age = _by_age(AGES if ages is None else ages)
    by_size = _table(HOUSEHOLD_SIZES if household_sizes is None else household_sizes,
                     "household_sizes", 1, _SIZE_MOST)  # fmt: skip
    school, work = _span(school_ages, "school_ages"), _span(working_ages, "working_ages")
    if school[0] < work[1] and work[0] < school[1]:
        raise ModelError(f"school_ages {school} and working_ages {work} overlap")
    in_class = _least_one(class_size, "class_size")
    in_school = _least_one(school_size, "school_size")
    in_workplace = _least_one(workplace_size, "workplace_size")
    employed_share = checks.real_number(employment, "employment", 1)
    degree = checks.whole(work_degree, "work_degree", 0, _SIZE_MOST)
    if degree % 2:
        raise ModelError(f"work_degree is {degree}; expected an even number, half on each side")
    factors = WEIGHTS | _factors({} if weights is None else weights)
    if mixing is not None and age_groups is None:
        age_groups = lowest_ages(mixing)
    edges = _groups(_AGE_GROUPS if age_groups is None else age_groups, by_age)
    asked = _asked(mixing, community_degree, edges.size)
    contacts = float(np.max(asked.sum(1))) + by_size.size + in_class + degree
    per_person = min(contacts, float(count))
    check_room(
        int(count * (_BYTES_PER_PERSON + 50 * per_person)), f"a population of {count:,} people",
        "use fewer people or contacts",
    )  # fmt: skip

    home = households.make(count, by_age, by_size, seed_word)
    age = home.age
    everybody = np.arange(count, dtype=csr.index_dtype(count))
    pupils, classes, class_school = _classes(age, school, in_class, in_school)
    grown = np.flatnonzero((age >= work[0]) & (age < work[1])).astype(everybody.dtype)
    grown = random_degrees.shuffled(grown, seed_word)
    employed = grown[: round(employed_share * grown.size)]
    workplaces = _starts(households.geometric(employed.size, in_workplace))
    group = np.searchsorted(edges, age, side="right") - 1
    people = np.bincount(group, minlength=edges.size)
    if mixing is None:
        asked = np.tile(asked[0, 0] * people / count, (edges.size, 1))
    probabilities = _probabilities(asked, people)
    household_rows, household = within(count, everybody, home.starts)
    school_rows, in_which = within(count, pupils, classes)
    work_rows, workplace = within(count, employed, workplaces, degree)
    rows = {
        "household": household_rows,
        "school": school_rows,
        "work": work_rows,
        "community": random_pairs.block_rows(group, probabilities, seed_word),
    }
    layers = {name: ContactNetwork._trusted(count, one) for name, one in rows.items()}
    network = from_layers(layers, factors)._with(
        attributes={
            "age": age,
            "household": household,
            "class": in_which,
            "school": np.append(class_school, -1)[in_which].astype(np.int32),
            "workplace": workplace,
        }
    )
    return Population(network, _contacts(network, asked, probabilities, group, people, edges))


def _contacts(
    network: ContactNetwork,
    asked: np.ndarray,
    probabilities: np.ndarray,
    group: np.ndarray,
    people: np.ndarray,
    edges: np.ndarray,
) -> xarray.Dataset:
    import xarray

    labels = labels_of(edges)
    pairs = people[:, None] * (people - np.eye(people.size))
    sums = arc_sums(network, group, people.size)
    by_layer = [means(one, people, labels) for one in sums]
    realized = xarray.concat(by_layer, xarray.Variable("layer", list(network.layers)))
    of_one = np.ones(people.size, np.int64)
    return xarray.Dataset(
        {
            "asked": means(asked, of_one, labels),
            "reciprocal": means(probabilities * pairs, people, labels),
            "realized": realized,
            "people": ("group", people),
        }
    )


def _probabilities(asked: np.ndarray, people: np.ndarray) -> np.ndarray:
    """Probability of a contact by the groups of a pair."""
    contacts = people[:, None] * asked
    pairs = people[:, None] * (people - np.eye(people.size))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (contacts + contacts.T) / 2 / pairs
    return np.where(pairs > 0, np.minimum(found, 1.0), 0.0)


def _classes(
    age: np.ndarray, span: tuple[int, int], class_size: float, school_size: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pupils class by class, the starts of classes, and the school of each class."""
    pupils = np.flatnonzero((age >= span[0]) & (age < span[1]))
    pupils = pupils[np.argsort(age[pupils].astype(np.uint16), kind="stable")]
    by_age = np.bincount(age[pupils], minlength=1)
    by_age = by_age[by_age > 0]
    schools = max(1, round(pupils.size / school_size))
    sizes, of_school = [], []
    for here in by_age.tolist():
        classes = max(1, round(here / class_size))
        sizes.append(np.diff(np.arange(classes + 1) * here // classes))
        of_school.append(np.arange(classes) * schools // classes)
    none = np.empty(0, np.int64)
    return pupils, _starts(np.concatenate([none, *sizes])), np.concatenate([none, *of_school])


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def within(
    count: int, members: np.ndarray, starts: np.ndarray, most: int | None = None
) -> tuple[csr.Rows, np.ndarray]:
    """Contacts within groups, at most `most` for each member, and everybody's group.

    If `most` is None, all members are in contact, and those of a group ascend.
    """
    degree = count if most is None else most
    ids = csr.index_dtype(count)
    place = np.full(count, -1, np.int64)
    place[members] = np.arange(members.size)
    group = np.full(count, -1, np.int32)
    group[members] = np.repeat(np.arange(starts.size - 1, dtype=np.int32), np.diff(starts))
    others = np.append(np.diff(starts) - 1, 0)[group]
    offsets = _starts(np.where(others <= degree, others, degree))
    targets = np.empty(int(offsets[-1]), ids)
    run = devices.resolve("cpu").run
    run(_MEET, count, members.astype(ids), starts, degree, place, group, offsets, targets)
    if most is not None:
        csr.sort_rows(offsets, targets)
    return (offsets.astype(csr.index_dtype(targets.size)), targets, None), group


def _meet(node, members, starts, degree, place, group, offsets, targets):
    if group[node] >= 0:
        first = starts[group[node]]
        size = starts[group[node] + 1] - first
        here = place[node] - first
        fill = offsets[node]
        if size - 1 <= degree:
            for other in range(size):
                if other != here:
                    targets[fill] = members[first + other]
                    fill += 1
        else:
            for step in range(1, degree // 2 + 1):
                targets[fill] = members[first + (here + step) % size]
                targets[fill + 1] = members[first + (here + size - step) % size]
                fill += 2


_MEET = kernels.for_each(_meet)


def _table(values: Any, name: str, least: int, most: int) -> np.ndarray:
    """Weights by whole number, shape [largest + 1], from a mapping or the list from `least` on."""
    if not isinstance(values, Mapping):
        found = as_numbers(values)
        if found is None or found.ndim != 1:
            raise ModelError(f"{name} is {values!r:.60}; expected a mapping of {name} to weights")
        values = dict(enumerate(found.tolist(), least))
    table: dict[int, float] = {}
    for key, weight in values.items():
        # Keys are text in run files.
        text = isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 10
        number = int(key) if text else key
        number = checks.whole(number, f"a key of {name}", least, most)
        if number in table:
            raise ModelError(f"{name} has the key {number} twice, as a number and as text")
        if not is_finite_number(weight) or weight < 0:
            raise ModelError(f"{name}[{number}] is {weight!r:.60}; expected a number of 0 or more")
        table[number] = float(weight)
    if not 0 < sum(table.values()) < math.inf:
        raise ModelError(f"{name} has no weight; expected a positive finite sum")
    weights = np.zeros(max(table) + 1)
    weights[list(table)] = list(table.values())
    return weights


def _by_age(values: Any) -> np.ndarray:
    """Weight of each year of age."""
    weights = _table(values, "ages", 0, _AGE_MOST)
    if not isinstance(values, Mapping):
        return weights
    lows = np.array(sorted(map(int, values)))
    widths = np.diff(lows)
    widths = np.append(widths, widths[-1] if widths.size else 1)
    return np.append(np.zeros(lows[0]), np.repeat(weights[lows] / widths, widths))


def _span(values: Any, name: str) -> tuple[int, int]:
    found = as_numbers(values)
    right = found is not None and found.shape == (2,) and bool(np.isfinite(found).all())
    if found is None or not right or not 0 <= found[0] <= found[1] or (found % 1).any():
        raise ModelError(f"{name} is {values!r:.60}; expected two whole ages, the lower first")
    return int(found[0]), int(found[1])


def _least_one(value: Any, name: str) -> float:
    if not is_finite_number(value) or value < 1:
        raise ModelError(f"{name} is {value!r:.60}; expected a number of 1 or more")
    return float(value)


def _factors(weights: Any) -> dict[str, float]:
    if not isinstance(weights, Mapping) or not set(weights) <= set(WEIGHTS):
        raise ModelError(f"weights is {weights!r:.60}; expected factors by layer, {[*WEIGHTS]}")
    for name, factor in weights.items():
        if not is_finite_number(factor) or factor < 0:
            raise ModelError(f"weights['{name}'] is {factor!r:.60}; expected 0 or more")
    return {name: float(factor) for name, factor in weights.items()}


def _groups(values: Any, by_age: np.ndarray) -> np.ndarray:
    edges = group_edges(values, "age_groups")
    youngest = int(np.flatnonzero(by_age)[0])
    if youngest < edges[0]:
        raise ModelError(f"age_groups begin at {edges[0]:g}, but ages begin at {youngest}")
    return edges


def _asked(matrix: Any, degree: Any, groups: int) -> np.ndarray:
    """The matrix of contacts; without one, ``[[mean degree]]``."""
    if matrix is None:
        mean = _COMMUNITY_DEGREE if degree is None else degree
        if not is_finite_number(mean) or mean < 0:
            raise ModelError(f"community_degree is {mean!r:.60}; expected a number of 0 or more")
        return np.array([[float(mean)]])
    if degree is not None:
        raise ModelError("give either mixing or community_degree, not both")
    return checks.square_matrix("mixing", matrix, groups, "age_groups")
