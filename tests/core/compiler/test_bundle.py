"""What a bundle contains, means and refuses. Bundles are run as plain Python: nothing compiles."""

import importlib.util
import itertools
import math
import re
import sys
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pytest

from ergode.core import kernels
from ergode.core.compiler import language
from ergode.core.compiler.bundle import bundle, formula_text
from ergode.core.compiler.language import ByPrecision, ByTarget, no_unroll, real
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ModelError


def plain(source):
    """The names of a generated module, its functions left uncompiled."""
    text = re.sub(
        r"from ergode\.core\.devices\.(cpu|cuda) import .*",
        "device_function = kernel = lambda f: f\nfma = lambda a, b, c: a * b + c",
        source.text,
    )
    names = {}
    exec(compile(text, "generated", "exec"), names)
    return names


def call(body, *arguments, **options):
    """Bundle one function and call it."""
    source = bundle([body], target="cpu", **options)
    return plain(source)[source.entries[0]](*arguments)


def digest(body, **options):
    return bundle([body], target="cpu", **options).digest


@pytest.fixture
def module(tmp_path):
    """Make modules from text; those of one name replace one another."""
    made, number = set(), itertools.count()

    def make(text, name="made_for_a_test"):
        path = tmp_path / f"{name}_{next(number)}.py"
        path.write_text(text, encoding="utf-8")
        specification = importlib.util.spec_from_file_location(name, path)
        result = importlib.util.module_from_spec(specification)
        sys.modules[name] = result
        made.add(name)
        specification.loader.exec_module(result)
        return result

    yield make
    for name in made:
        del sys.modules[name]


# ---- what is reached

SCALE = 3.0
FLAG = True


def scaled(x):
    """Docstrings and annotations are left behind."""
    return x * SCALE


def twice_scaled(x: float) -> float:
    y: float = scaled(scaled(x))
    return y


def test_callees_and_constants_come_along():
    assert call(twice_scaled, 2.0) == 18.0
    text = bundle([twice_scaled], target="cpu").text
    assert text.count("def scaled(") == 1
    assert text.count("SCALE = ") == 1
    assert "Docstrings" not in text
    assert "float" not in text.split("def twice_scaled")[1]


def closure_over(rate, function):
    def body(x):
        return function(x) * rate

    return body


def test_closures_bring_their_values():
    def shifted(x):
        return x + 1.0

    assert call(closure_over(0.5, shifted), 3.0) == 2.0
    # Two closures of one definition are two functions.
    one, other = closure_over(2.0, shifted), closure_over(5.0, scaled)

    def both(x):
        return one(x) + 100.0 * other(x)

    assert call(both, 1.0) == 4.0 + 1500.0


def test_bindings_replace_a_name_wherever_it_occurs(module):
    assert call(twice_scaled, 2.0, bindings={"SCALE": 10.0}) == 200.0
    assert call(twice_scaled, 2.0, bindings={"scaled": math_free}) == 2.0
    constants = module("RATE = 2.0\n", "constants_for_a_test")
    user = module(
        "import constants_for_a_test\n\ndef f(x):\n    return x * constants_for_a_test.RATE\n"
    )
    assert call(user.f, 1.0) == constants.RATE
    assert call(user.f, 1.0, bindings={"RATE": 7.0}) == 7.0


def math_free(x):
    return x


def local_of_the_bound_name(x):
    SCALE = x + 1.0
    return SCALE


def test_bindings_leave_local_variables_alone():
    assert call(local_of_the_bound_name, 1.0, bindings={"SCALE": 50.0}) == 2.0


def test_members_of_modules_however_deep(module):
    module("def f(x):\n    return x + 1.0\n\nOFFSET = 10.0\n", "inner_for_a_test")
    module("import inner_for_a_test as inner\n", "outer_for_a_test")
    user = module(
        "import outer_for_a_test as outer\n\ndef g(x):\n"
        "    return outer.inner.f(x) + outer.inner.OFFSET\n"
    )
    assert call(user.g, 1.0) == 12.0
    missing = module("import math\nimport os\n\ndef g(x):\n    return os.no_such(x)\n")
    with pytest.raises(ModelError, match="module 'os' has no 'no_such'"):
        call(missing.g, 1.0)


def uses_numpy_and_math(x):
    return np.uint32(x) + np.uint32(math.floor(math.pi))


def test_numpy_and_math_go_by_their_own_names(module):
    assert call(uses_numpy_and_math, 2) == 5
    # One alias may mean different modules in different files, and functions need no module.
    first = module("import math as m\nfrom math import sqrt\n\ndef f(x):\n    return sqrt(m.e)\n")
    second = module(
        "import numpy as m\nfrom made_for_a_test import f\nfrom numpy import hypot\n\n"
        "def g(x):\n    return f(x) + m.int64(1) + hypot(x, m.float64(4.0))\n",
        "second_for_a_test",
    )
    assert call(second.g, 3.0) == first.f(3.0) + 1 + 5.0


# ---- constants


class Level(IntEnum):
    HIGH = 7


class Point(NamedTuple):
    x: float
    y: float


CONSTANTS = {
    "integer": 3,
    "large": 2**63,
    "negative": -4,
    "flag": True,
    "word": "text",
    "number": 0.1,
    "infinite": -math.inf,
    "level": Level.HIGH,
    "single": np.float32(0.1),
    "double": np.float64(0.1),
    "double_infinite": np.float64(np.inf),
    "unsigned": np.uint64(2**64 - 1),
    "switch": np.bool_(True),
    "nested": (1, (2.5, np.float64(0.1)), ()),
    "one": (4.5,),
    "point": Point(1.0, 2.0),
}


def free_constant(x):
    return VALUE  # noqa: F821  (bound by the tests)


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_keep_their_value_and_type(name):
    value = CONSTANTS[name]
    found = call(free_constant, 0, bindings={"VALUE": value}, precision="float64")
    assert found == value
    if not isinstance(value, Level | float):
        assert type(found) is type(value)


@pytest.mark.parametrize("nan", [math.nan, np.float64("nan"), np.float32("nan")])
def test_a_constant_may_be_nan(nan):
    assert np.isnan(call(free_constant, 0, bindings={"VALUE": nan}))


def uses_fields(x):
    return VALUE.x + 10.0 * VALUE.y + Point(x, x).y  # noqa: F821


def test_named_tuples_keep_their_fields():
    assert call(uses_fields, 100.0, bindings={"VALUE": Point(1.0, 2.0)}) == 121.0
    assert "Point  # x, y" in bundle([uses_fields], target="cpu", bindings={"VALUE": 0}).text


def test_named_tuples_of_one_name_are_told_apart(module):
    pair = "from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    {}: float\n"
    module(pair.format("a"), "pair_a_for_a_test")
    module(pair.format("b"), "pair_b_for_a_test")
    user = module(
        "import pair_a_for_a_test as first, pair_b_for_a_test as second\n\n"
        "def f(x):\n    return first.Pair(x).a + second.Pair(x).b\n"
    )
    assert call(user.f, 2.0) == 4.0


def test_a_named_tuple_that_cannot_be_imported_is_refused():
    class Hidden(NamedTuple):
        x: float

    with pytest.raises(ModelError, match=r"Hidden' must be defined at the top of a module"):
        call(free_constant, 0, bindings={"VALUE": Hidden})


# ---- names that meet


def test_names_of_different_modules_do_not_collide(module):
    text = "RATE = {}\n\ndef helper(x):\n    return x * RATE\n\ndef {}(x):\n    return helper(x)\n"
    module(text.format(2.0, "f"), "first_for_a_test")
    module(text.format(3.0, "g"), "second_for_a_test")
    user = module(
        "from first_for_a_test import f\nfrom second_for_a_test import g\nRATE = 5.0\n\n"
        "def both(x):\n    return f(x) + 10.0 * g(x) + 100.0 * RATE\n"
    )
    assert call(user.both, 1.0) == 2.0 + 30.0 + 500.0


def test_equal_constants_of_one_name_are_written_once(module):
    module("RATE = 2.0\n\ndef f(x):\n    return x * RATE\n", "first_for_a_test")
    user = module(
        "from first_for_a_test import f\nRATE = 2.0\n\ndef g(x):\n    return f(x) * RATE\n"
    )
    assert bundle([user.g], target="cpu").text.count("= real(2.0)") == 1
    assert call(user.g, 1.0) == 4.0


def test_local_variables_do_not_hide_what_they_are_called_like(module):
    module("def draw(x):\n    return x + 1.0\n\nRATE = 2.0\n", "tools_for_a_test")
    user = module(
        "import tools_for_a_test as tools\nfrom tools_for_a_test import draw as take, RATE as r\n"
        "import numpy as np\n\n"
        "def f(x, real, numpy):\n"
        "    draw = tools.draw(x)\n"
        "    RATE = tools.RATE * 10.0\n"
        "    return take(draw) + RATE + r + real + numpy + np.float64(0.5)\n"
    )
    for precision in ("float32", "float64"):
        assert call(user.f, 1.0, 1000.0, 4000.0, precision=precision) == 5025.5


def test_user_functions_may_be_called_like_the_words_of_a_kernel(module):
    user = module(
        "from ergode.core.compiler.language import fma as word\n\n"
        "def fma(x):\n    return x + 1.0\n\ndef real(x):\n    return x * 2.0\n\n"
        "def max(x):\n    return x - 1.0\n\n"
        "def f(x):\n    return word(fma(x), real(x), max(x))\n"
    )
    assert call(user.f, 3.0) == 4.0 * 6.0 + 2.0


def test_a_loop_body_may_use_the_names_of_the_loop(module):
    user = module("def run_0(k, start, stop, index, out):\n    out[k] += start + stop + index\n")
    source = bundle([user.run_0], target="cpu", loop=True)
    out = np.zeros(5)
    plain(source)[source.entries[0]](1, 4, 10, 20, 30, out)
    assert out.tolist() == [0, 60, 60, 60, 0]


def comprehension(n):
    return sum([k * SCALE for k in range(n)])


def test_variables_of_comprehensions_are_local():
    assert call(comprehension, 4) == 18.0
    assert call(comprehension, 4, bindings={"k": 100}) == 18.0


def test_defaults_are_the_values_that_they_had():
    width = 2.0

    def area(x, height=width, *, depth=SCALE):
        return x * height * depth

    def body(x):
        return area(x) + area(x, 10.0)

    assert call(body, 1.0) == 6.0 + 30.0
    assert call(body, 1.0, bindings={"SCALE": 100.0}) == 36.0


# ---- precision

A_THIRD = 1.0 / 3.0
PAIR = (A_THIRD, np.float64(A_THIRD), 3)


def in_float32(x):
    return type(x)(3.0)


def in_float64(x):
    return -x


by_precision = ByPrecision(float32=in_float32, float64=in_float64)


def chooses(x):
    return by_precision(x)


def test_by_precision_takes_the_one_for_the_precision():
    assert call(chooses, np.float64(1.0), precision="float32") == 3.0
    assert call(chooses, np.float64(1.0), precision="float64") == -1.0
    assert "in_float32" not in bundle([chooses], target="cpu", precision="float64").text


by_target = ByTarget(cpu=in_float64, cuda=in_float32)


def chooses_by_target(x):
    return by_target(x)


def test_by_target_takes_the_one_for_the_target():
    assert call(chooses_by_target, np.float64(1.0)) == -1.0
    assert "type(x)(3.0)" in bundle([chooses_by_target], target="cuda").text
    with pytest.raises(TypeError, match="chosen by the target"):
        by_target(1.0)


def strides(first, stop, step):
    total = 0
    for i in no_unroll(range(first, stop, step)):
        for j in no_unroll(range(i, stop)):
            if j == 7:
                continue
            total += 10 * i + j
            if j > 20:
                break
    for k in range(0, 10, 2):
        total += k
    return total


def test_a_rolled_loop_on_cuda_is_not_counted():
    text = bundle([strides], target="cuda").text
    assert text.count("while ") == 2
    assert text.count("range(") == 1
    found = {"kernel": lambda f: f, "opaque_int": lambda x: x, "numpy": np}
    exec(text[text.index("@kernel") :], found)
    for arguments in ((0, 30, 3), (5, 5, 1), (9, 3, 2), (1, 8, 100)):
        assert found["strides"](*arguments) == strides(*arguments)
        assert call(strides, *arguments) == strides(*arguments)
    assert "while " not in bundle([strides], target="cpu").text


def not_a_range(x):
    for _ in no_unroll([1, 2]):
        x += 1
    return x


def every(start, stop, size):
    return range(start + size, stop, size)


def over_what_another_returns(count):
    total = 0
    for i in no_unroll(every(1, count, 3)):
        total += i
    return total


def plainly_over_what_another_returns(count):
    total = 0
    for i in every(1, count, 3):
        total += i
    return total


def test_a_loop_goes_over_the_range_that_a_function_of_one_line_returns():
    for function in (over_what_another_returns, plainly_over_what_another_returns):
        on_cpu = bundle([function], target="cpu").text
        assert "in range(1 + 3, count, 3)" in on_cpu and "every" not in on_cpu
        assert call(function, 20) == sum(range(4, 20, 3))
    on_cuda = bundle([over_what_another_returns], target="cuda").text
    assert "opaque_int(numpy.int64(1 + 3)), count, 3" in on_cuda and "every" not in on_cuda
    on_cuda = bundle([plainly_over_what_another_returns], target="cuda").text
    assert "in range(1 + 3, count, 3)" in on_cuda and "every" not in on_cuda


def test_the_text_of_a_formula_follows_what_its_names_stand_for():
    text = "def slope(t, y, p):\n    return (rate * p[0],)\n"
    function = function_from_text(text, {"rate": 2.0})
    first = formula_text(function)
    assert formula_text(function) is first
    function.__globals__["rate"] = 3.0
    assert "3.0" in formula_text(function) and "2.0" in first


def test_what_is_rolled_is_a_range():
    with pytest.raises(ModelError, match="no_unroll takes a range"):
        bundle([not_a_range], target="cuda")


def literals(x):
    return (
        0.1, -0.1, A_THIRD, PAIR[0], PAIR[1], math.pi, np.pi, real(x), 2, True,
        np.float64(0.1), np.float64(-0.1), np.float64(2.0**-53), np.float64(A_THIRD),
        np.float64(math.pi), np.float32(0.1),
    )  # fmt: skip


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_float_literals_have_the_working_precision(precision):
    found = call(literals, 0.1, precision=precision)
    working = getattr(np, precision)
    exact = (0.1, -0.1, A_THIRD, A_THIRD, None, math.pi, math.pi, 0.1)
    for value, expected in zip(found, exact, strict=False):
        if expected is not None:
            assert value == working(expected)
    assert found[8:10] == (2, True)
    assert type(found[8]) is int
    # Where the user chose a type, the literal is not rounded first.
    assert found[4] == A_THIRD
    assert found[10:15] == (0.1, -0.1, 2.0**-53, A_THIRD, math.pi)
    assert type(found[10]) is np.float64
    assert found[15] == np.float32(0.1)


def explicit_of_an_expression(x):
    return np.float64(x * 0.1 * A_THIRD)


def test_an_explicit_type_is_of_the_result_not_of_what_it_is_made_of():
    found = call(explicit_of_an_expression, np.float32(1.0), precision="float32")
    assert found == np.float32(0.1) * np.float32(A_THIRD)
    assert type(found) is np.float64


def everything(index, x, out):
    y = x[index]
    out[index] = y * 0.1 + math.pi * PAIR[0] + np.float32(0.7) * SCALE * (twice_scaled(y) - A_THIRD)


def test_numba_computes_in_the_working_precision():
    x = np.random.default_rng(1).random(1000, np.float32)
    out = np.zeros_like(x)
    kernels.for_each(everything, precision="float32").compiled("cpu")(0, x.size, x, out)
    f = np.float32
    expected = x * f(0.1) + f(math.pi) * f(A_THIRD) + f(0.7) * f(3) * (x * f(3) * f(3) - f(A_THIRD))
    # In double precision, rounded at the end, most of these would differ in the last bit.
    assert np.array_equal(out, expected)


# ---- several entries


def entry_of(x):
    return scaled(x) + 1.0


def entry_that_calls(x):
    return entry_of(x) * 10.0


def test_entries_share_what_they_have_in_common():
    source = bundle([twice_scaled, entry_of], target="cpu")
    assert source.entries == ("twice_scaled", "entry_of")
    assert source.text.count("def scaled(") == 1
    assert source.text.count("@kernel") == 2
    names = plain(source)
    assert [names[name](1.0) for name in source.entries] == [9.0, 4.0]


def test_an_entry_may_call_another():
    for bodies in ([entry_that_calls, entry_of], [entry_of, entry_that_calls]):
        source = bundle(bodies, target="cpu")
        assert source.text.count("@kernel") == 2
        assert plain(source)[source.entries[bodies.index(entry_that_calls)]](1.0) == 40.0


# ---- errors


def countdown(x):
    return countdown(x - 1) if x > 0 else x


def ping(x):
    return pong(x)


def pong(x):
    return ping(x)


def uses_undefined(x):
    return x + no_such_name  # noqa: F821


def uses_array(x):
    return TABLE[x]


TABLE = np.zeros(3)


def with_default(x, table=TABLE):
    return x


async def later(x):
    return x


def test_recursion_is_an_error():
    for function in (countdown, ping):
        with pytest.raises(ModelError, match=f"'{function.__name__}' calls itself; use a loop"):
            call(function, 1)


def test_what_cannot_be_compiled_is_named():
    cases = [
        (uses_undefined, "function 'uses_undefined' uses 'no_such_name', which is not defined"),
        (uses_array, "'uses_array' uses 'TABLE', a ndarray; .* pass arrays as arguments"),
        (with_default, "'with_default' has a default argument that is a ndarray"),
        (later, "cannot be read; define it with `def`"),
        (math.sin, "expected a plain Python function, found <built-in function sin>"),
    ]
    for function, message in cases:
        with pytest.raises(ModelError, match=message):
            call(function, 1)
    for value in (None, [1.0], {1: 2}, 1j, (1.0, None), object(), np.datetime64("2020-01-01")):
        with pytest.raises(ModelError, match=f"uses 'VALUE', an? {type(value).__name__}"):
            call(free_constant, 0, bindings={"VALUE": value})


def test_a_variable_of_the_enclosing_function_must_have_a_value():
    def body(x):
        return x + offset

    with pytest.raises(ModelError, match="uses 'offset', which is not defined"):
        call(body, 1.0)
    offset = 1.0
    assert call(body, 1.0) == 1.0 + offset


def test_words_mean_nothing_outside_a_kernel():
    with pytest.raises(TypeError, match="'fma' has a meaning only inside a compiled kernel"):
        language.fma(1.0, 2.0, 3.0)
    with pytest.raises(TypeError, match=r"'cuda.atomic.min' has a meaning only"):
        language.cuda.atomic.min(1)
    with pytest.raises(TypeError, match="'in_float64' is chosen by the precision"):
        by_precision(1.0)


# ---- identity

PIECE = """
from made_callee_for_a_test import callee, UNUSED
RATE = {rate}
OTHER = {other}

def f(x):
    return callee(x) * RATE
"""
CALLEE = "UNUSED = {unused}\n\ndef callee(x):\n    return x + {shift}\n"


def test_the_digest_changes_with_what_is_compiled_and_nothing_else(module):
    def made(rate=1.0, other=1.0, unused=1.0, shift=1.0, comment="", **options):
        module(CALLEE.format(unused=unused, shift=shift) + comment, "made_callee_for_a_test")
        return digest(module(PIECE.format(rate=rate, other=other) + comment).f, **options)

    reference = made()
    same = [
        made(), made(other=2.0), made(unused=2.0), made(comment="\n# a comment\n"),
        made(bindings={"NOT_USED": 3.0}), made(bindings={"RATE": 1.0}),
    ]  # fmt: skip
    assert set(same) == {reference}
    different = [
        made(rate=2.0), made(rate=1), made(shift=2.0), made(bindings={"RATE": 5.0}),
        made(bindings={"callee": math_free}), made(precision="float32"), made(rate="float('nan')"),
        made(rate="__import__('numpy').float64(1.0)"), made(loop=True),
    ]  # fmt: skip
    assert len({reference, *different}) == 1 + len(different)
    cuda = bundle([math_free], target="cuda")
    assert cuda.digest != digest(math_free)
    assert bundle([math_free], target="cuda", registers=32).digest != cuda.digest


def test_the_digest_depends_on_the_compilers(monkeypatch):
    before = digest(math_free)
    monkeypatch.setattr("ergode.core.compiler.source.version", lambda package: "0.0.1")
    assert digest(math_free) != before
