"""The table of schemes, and what the docstring of `propagate` says of them."""

import re
import typing

from ergode.density import propagate
from ergode.density.methods import METHODS
from ergode.density.propagate import Scheme


def test_the_docstring_lists_the_schemes_of_the_table():
    text = re.sub(r"\s+", " ", propagate.__doc__)
    names = ", ".join(f'"{name}"' for name in METHODS)
    assert f"scheme : {{{names}}}" in text
    for name, method in METHODS.items():
        assert f'``"{name}"``: {method.summary}.' in text
    assert typing.get_args(Scheme) == tuple(METHODS)
