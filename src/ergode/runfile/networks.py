"""Tables of a run file that describe contact networks."""

from __future__ import annotations

from typing import Any

from ergode.models.networks.computed import ComputedNetwork
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.population import Population
from ergode.readers.edges import read_contacts
from ergode.runfile.tables import Table

GENERATORS = {
    name.replace("_", "-"): name
    for name in (
        "erdos_renyi",
        "barabasi_albert",
        "configuration_model",
        "watts_strogatz",
        "random_regular",
        "stochastic_block_model",
        "spatial",
        "population",
    )
}

COMPUTED = {"computed-random-regular": "random_regular", "computed-groups": "groups"}


# Whatever is given: the generator says what its tables hold.
def as_given(table: Table, key: str) -> Any:
    """The value of a key, unread."""
    return table.values[key]


_TABLES = {"Mapping": as_given}


def contact_network(table: Table, also: tuple[str, ...] = ()) -> ContactNetwork | ComputedNetwork:
    """The network of a table: a file, a generator, or layers of these."""
    sources = [key for key in ("file", "generator", "layers") if key in table]
    if len(sources) != 1:
        found = " and ".join(f"'{key}'" for key in sources) or "none of them"
        raise table.error(
            f"{table.place} needs one of the keys 'file', 'generator' and 'layers'; found {found}"
        )
    if "layers" in table:
        return _layered(table)
    if "file" in table:
        if isinstance(columns := table.values.get("columns"), list):
            # TOML has no null: an empty name stands for a column to ignore.
            table.values["columns"] = [name or None for name in columns]
        read = table.call(read_contacts, table.path("file"), also=["file", *also])
    else:
        name = table.choice("generator", GENERATORS | COMPUTED)
        if name in COMPUTED:
            make = getattr(ComputedNetwork, COMPUTED[name])
        else:
            make = getattr(ContactNetwork, GENERATORS[name])
        read = table.call(make, also=["generator", *also], special=_TABLES)
        if isinstance(read, Population):
            read = read.network
    assert isinstance(read, ContactNetwork | ComputedNetwork)
    return read


def _layered(table: Table) -> ContactNetwork | ComputedNetwork:
    table.only(["layers"])
    layers = table.table("layers")
    networks: dict[str, Any] = {}
    factors = {}
    for name in layers.values:
        layer = layers.table(name)
        if "layers" in layer:
            raise layer.error(f"{layer.place} has layers; a layer cannot have layers itself")
        networks[name] = contact_network(layer, also=("factor",))
        factors[name] = layer.number("factor", 1.0)
    kind: Any = ContactNetwork
    if any(isinstance(one, ComputedNetwork) for one in networks.values()):
        kind = ComputedNetwork
    with table.explaining():
        return kind.from_layers(networks, factors)
