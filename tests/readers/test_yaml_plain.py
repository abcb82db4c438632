"""The plain part of YAML, against ruamel.yaml: equal content and lines, or left to ruamel.yaml."""

import random

import pytest

from ergode.readers import yaml_lines
from ergode.readers.yaml_plain import read_plain

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


def full(text):
    reader = ruamel.YAML(typ="safe", pure=True)
    reader.Constructor = yaml_lines._constructor()
    return reader.load(text)


def plain(text):
    return read_plain(text, (yaml_lines._Mapping, yaml_lines._List))


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


def test_a_mechanism_is_plain():
    assert plain(MECHANISM) is not None
    assert difference(plain(MECHANISM), full(MECHANISM)) is None


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x", "a: !!str 1", "a: 1\na: 2", "a: 'it''s'", 'a: "x\\n"', "a: 2020-01-01",
        "a: 0x1f", "a: 1_000", "a: .5", "a: .inf", "a: >\n  folded", "--- \na: 1", "a: {<<: 1}",
        "a: b: c", "a: [1, 2", "a: ]", "\ta: 1", "- - 1", "? a\n: b", "a: {b}", "a: [b: 1]",
        "a: 12:30:45", "a: [1,,2]", "a: {b: 1, b: 2}", "a:\n b: 1\n  c: 2", "a: 'x' y", "a: @",
    ],
)  # fmt: skip
def test_other_yaml_is_left_to_others(text):
    found = plain(text)
    assert found is None or difference(found, full(text)) is None


def test_damaged_mechanisms():
    """Random damage: the plain reader agrees, or leaves the text to the other reader."""
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
        found = plain(text)
        if found is None:
            continue
        read += 1
        try:
            wanted = full(text)
        except Exception as error:
            raise AssertionError(f"{error}\n{text}") from None
        assert difference(found, wanted) is None, f"{difference(found, wanted)}\n{text}"
    assert read > 100
