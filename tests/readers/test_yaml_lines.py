"""YAML with lines, against ruamel.yaml, which is written for YAML 1.2."""

import random

import pytest

import ergode
from ergode.readers import yaml_lines

yaml = pytest.importorskip("yaml")
ruamel = pytest.importorskip("ruamel.yaml")

MECHANISM = """\
description: |-
  A gas: with colons, # signs and

    an indented line.
generator: ck2yaml
input-files: [h2.inp, 'tran .dat', "x: y"]
cantera-version: 2.6.0
date: Mon, 27 Jan 2022 14:54:36 -0500

units: {length: cm, quantity: mol, activation-energy: cal/mol}   # of the file

phases:
- name: gas
  elements: [O, H,
    N, Ar]      # two lines
  species: [NO, 'no', NH(S), 2-C4H9, C6H13-1,
    HE]
  state: {T: 300.0, P: 1 atm}

species:
- name: NO
  composition: {N: 1, O: 1.0}
  thermo:
    model: NASA7
    temperature-ranges: [200.0, 1000.0, 6.0e+03]
    data:
    - [2.5, -1E-3, +4.5e-06, 0., -7, 1.e2,
      3.0]
    - [2.5, 0, 0, 0, 0, 0, 0]
    note: 9/1/12
  note: = N2H2
  transport:
    model: gas
    dipole: null
    empty:
- name: "no"
  composition: {}
  note: a text that goes on
    in the next line, 5
reactions:
- equation: NO + O <=> NO + O + (+M)  # Reaction 1
  duplicate: true
  rate-constant: {A: 1.0e+13 cm^3/mol/s, b: -0.5, Ea: 1}
  rate-constants:
  - {P: 0.01 atm, A: 3e5}
  - P: 1
    A: 2
- equation: [a, [b, {c: d}], []]
"""


class Constructor(ruamel.SafeConstructor):
    """Gives the line where it begins to each mapping and list."""

    def mapping(self, node):
        found = yaml_lines._Mapping()
        found.line = node.start_mark.line + 1
        yield found
        found.update(self.construct_mapping(node))

    def sequence(self, node):
        found = yaml_lines._List()
        found.line = node.start_mark.line + 1
        yield found
        found.extend(self.construct_sequence(node))


Constructor.add_constructor("tag:yaml.org,2002:map", Constructor.mapping)
Constructor.add_constructor("tag:yaml.org,2002:seq", Constructor.sequence)


def of_ruamel(text):
    reader = ruamel.YAML(typ="safe", pure=True)
    reader.Constructor = Constructor
    return reader.load(text)


def ours(text):
    return yaml_lines._Content(yaml).of(text)


def difference(a, b):
    if type(a) is not type(b):
        return f"{a!r} {b!r}"
    if isinstance(a, dict | list):
        if a.line != b.line or len(a) != len(b):
            return f"line {a.line} {b.line}: {a!r:.99} {b!r:.99}"
        pairs = zip(a.items(), b.items(), strict=True) if isinstance(a, dict) else ()
        for (k, x), (m, y) in pairs:
            if k != m or type(k) is not type(m):
                return f"key {k!r} {m!r}"
            if said := difference(x, y):
                return said
        if isinstance(a, list):
            return next(filter(None, map(difference, a, b)), None)
        return None
    return None if a == b or (a != a and b != b) else f"{a!r} {b!r}"


def test_a_mechanism_is_equal():
    assert difference(ours(MECHANISM), of_ruamel(MECHANISM)) is None


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {b: 1}\nc: [*x, *x]", "a: !!str 1", "a: 'it''s'", 'a: "x\\n"', "a: 0x1f", "a: 1_000",
        "a: .5", "a: -.inf", "a: .nan", "a: >\n  folded", "--- \na: 1", "a: &x {b: 1, d: 3}\nc: "
        "{<<: *x, b: 2}", "- - 1", "? a\n: b", "a: {b}", "a: 12:30:45", "a: 010", "a: 1e5", "a: +3",
        "a: NO", "a: yes", "a: !!float 1.5", "a: 0o17", "a: .", "a: 1.2.3", "a: ~", "",
    ],
)  # fmt: skip
def test_yaml_of_all_kinds_is_equal(text):
    assert difference(ours(text), of_ruamel(text)) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2", "duplicate"), ("a: b: c", ""), ("a: [1, 2", ""), ("a: ]", ""),
        ("a: *b", "b"), ("a: {b: 1, b: 2}", "duplicate"),
        ("a:\n b: 1\n  c: 2", ""), ("a: 'x' y", ""),
        ("a: @", ""),
        ("[a]: 1", "a key is a list"), ("a: !!python/name:os.system x", "tag"), ("{<<: 1}", "merg"),
        ("a: 1\n---\nb: 2", "single document"), ("a: !!int x", "tag"), ("[" * 2000, "nesting"),
        ("a: 1" + "0" * 5000, "digits"),
    ],
)  # fmt: skip
def test_what_is_not_yaml_is_refused(tmp_path, text, why):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ergode.ReadError, match=f"bad.yaml.*: not YAML: .*{why}"):
        yaml_lines.load(path)


def test_damaged_mechanisms():
    """Random damage: what both read is equal."""
    random.seed(20)
    read = 0
    for _ in range(400):
        part = MECHANISM.split("\n\n")
        text = part[random.choice([1, 2, 3, 4])] if random.random() < 0.8 else MECHANISM
        for _ in range(random.choice([1, 1, 2])):
            at = random.randrange(len(text))
            put = random.choice(
                ["", " ", "\n", ":", ": ", "#", " #", "-", "- ", ",", "[", "]", "{", "}", "'", '"',
                 "1", "e", "?", "x", "\n  ", "|", "~", "=", ".", "&", "<", "N", "_"]
            )  # fmt: skip
            text = text[:at] + put + text[at + random.choice([0, 1]) :]
        try:
            found, wanted = ours(text), of_ruamel(text)
        except (yaml.YAMLError, ruamel.error.YAMLError, ValueError, TypeError):
            continue
        read += 1
        assert difference(found, wanted) is None, f"{difference(found, wanted)}\n{text}"
    assert read > 100
