"""Vector fields from equations as text, or as SymPy expressions."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ergode.core.arguments import did_you_mean
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ModelError
from ergode.core.inputs import remembered
from ergode.core.parsing import parse
from ergode.models.fields.vector_field import VectorField
from ergode.models.sweep import is_number

_FUNCTIONS = (
    "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "sqrt", "floor",
)  # fmt: skip
_OF_SEVERAL = ("min", "max")
_OWN = ("abs", *_OF_SEVERAL)
_CONSTANTS = {"pi": math.pi}
# Names of constants in other tools; parameters only if they are listed.
AMBIGUOUS = {
    "I": "SymPy's imaginary unit", "E": "Euler's number in SymPy", "oo": "infinity in SymPy",
    "zoo": "infinity in SymPy", "inf": "infinity", "nan": "not a number",
}  # fmt: skip


@remembered
def field_from_equations(
    equations: Mapping[str, Any],
    parameters: Sequence[str] | None = None,
    diffusion: Mapping[str, Any] | None = None,
    correlation: Any = None,
    constants: Mapping[str, Any] | None = None,
    interpretation: Literal["ito", "stratonovich"] = "ito",
    mass: Any = None,
    time_unit: str | None = None,
) -> VectorField:
    """A vector field from the equation of every variable.

    Parameters
    ----------
    equations : mapping of str to str or sympy.Expr
        The derivative of each variable, in Python's arithmetic: names of variables and parameters,
        the time ``t``, ``pi``, and functions such as exp, log, sin, cos, tan, sqrt, tanh, abs, min
        and max. A delayed value is ``x(t - tau)``, with a parameter tau, or ``x(t - 1.5)``. The
        number is then a parameter that has its value without being given, and the name "1.5".
    parameters : sequence of str, optional
        Names of the parameters; by default all other names, in alphabetical order. A parameter
        called I, E, oo, zoo, inf or nan must be listed.
    diffusion : mapping of str to str or sympy.Expr, optional
        Noise amplitude of each variable; the default is zero (see `VectorField`).
    correlation : array_like, shape [variable_count, variable_count], optional
        Correlations of the Wiener processes (see `VectorField`).
    constants : mapping of str to Interpolant, optional
        Measured inputs and laws, which equations call by their names: ``dose(t)``.
    interpretation : {"ito", "stratonovich"}
        The sense of the noise (see `VectorField`).
    mass : array_like, optional
        Mass matrix, or its diagonal (see `VectorField`).
    time_unit : str, optional
        Such as ``"s"``, for labels.

    Returns
    -------
    VectorField

    Raises
    ------
    ModelError
        An equation is not arithmetic, or uses an unknown name; the message names the variable.

    Examples
    --------
    >>> import ergode
    >>> field = ergode.field_from_equations(
    ...     {"x": "growth * x * (1 - x(t - tau) / capacity)"}
    ... )
    >>> field.parameters
    ('capacity', 'growth', 'tau')
    >>> field.delays
    (('x', 'tau'),)
    """
    if not isinstance(equations, Mapping) or not equations:
        raise ModelError(f"equations is {equations!r}; expected an equation for each variable")
    variables = list(equations)
    noise = dict(diffusion or {})
    for name in noise:
        if name not in variables:
            raise ModelError(
                f"diffusion has '{name}', which has no equation{did_you_mean(name, variables)}"
            )
    trees = {name: _parsed(name, text) for name, text in equations.items()}
    noises = {name: _parsed(name, noise.get(name, "0.0")) for name in variables}
    delays: list[tuple[str, str]] = []
    names: set[str] = set()
    tables = tuple(constants or ())
    for name, tree in [*trees.items(), *noises.items()]:
        _gather(name, tree, variables, delays, names, tables)
    for name in sorted(names if parameters is None else ()):
        if name in AMBIGUOUS:
            raise ModelError(
                f"the equations use '{name}', which may mean {AMBIGUOUS[name]}; if it is a "
                "parameter, list it in parameters="
            )
    numbers = sorted(name for name in names if is_number(name))
    known = sorted(names - {*numbers}) if parameters is None else list(parameters)
    known += numbers
    for name in sorted(names):
        if name not in known:
            raise ModelError(
                f"the equations use '{name}', which is neither a variable nor among the "
                f"parameters: {', '.join(known) or 'none'}"
                f"{did_you_mean(name, [*variables, *known])}"
            )
    arguments = "t, y, yd, p" if delays else "t, y, p"
    if tables:
        arguments += ", c"

    def function(called: str, of: Mapping[str, ast.expr]) -> Any:
        place = _Place(variables, delays, known, tables)
        parts, values = _statements(list(of.values()), place)
        return function_from_text(
            f"def {called}({arguments}):\n{parts}    return ({values})\n", {"math": math}
        )

    return VectorField(
        function("field", trees),
        variables,
        known,
        delays,
        diffusion=function("noise", noises) if noise else None,
        correlation=correlation,
        constants=constants,
        interpretation=interpretation,
        mass=mass,
        time_unit=time_unit,
    )


def function_of_state(expressions: Sequence[Any], field: VectorField, what: str) -> Any:
    """A function ``f(y, t, p)`` from expressions in a field's variables and parameters.

    Parameters
    ----------
    expressions : sequence of str or sympy.Expr
        One for each component of the function.
    field : VectorField
    what : str
        Name of the argument, for messages.

    Raises a ModelError if an expression is not arithmetic, or uses a name that the field does not
    have.
    """
    trees = [_parsed(what, text) for text in expressions]
    delays: list[tuple[str, str]] = []
    names: set[str] = set()
    for tree in trees:
        _gather(what, tree, field.variables, delays, names)
    unknown = sorted(names - set(field.parameters))
    unknown += [f"{name}(t - {delay})" for name, delay in delays]
    if unknown:
        known = ", ".join([*field.variables, *field.parameters])
        raise ModelError(
            f"{what} uses '{unknown[0]}'; expected variables and parameters of the equations: "
            f"{known}"
        )
    place = _Place(field.variables, delays, field.parameters)
    parts, values = _statements(trees, place)
    return function_from_text(
        f"def of_state(y, t, p):\n{parts}    return ({values})\n", {"math": math}
    )


def _parsed(name: str, text: Any) -> ast.expr:
    try:
        return _bounded(name, parse(_text_of(name, text).strip(), mode="eval"))
    except ModelError:
        raise
    except (RecursionError, MemoryError):
        raise ModelError(
            f"the equation of '{name}' is nested too deeply; write it in parts"
        ) from None
    except (SyntaxError, ValueError):
        raise ModelError(
            f"the equation of '{name}' is {str(text)!r}; expected arithmetic"
        ) from None


def _bounded(name: str, tree: ast.Expression) -> ast.expr:
    """The expression with large integers and constant powers as floats, to bound memory."""
    for node in reversed(list(ast.walk(tree))):  # parts before the whole
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            if not abs(node.value) < 1e308:
                raise ModelError(f"the equation of '{name}' has a number that is too large")
            if abs(node.value) > _WHOLE:
                node.value = float(node.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            base, exponent = _constant(node.left), _constant(node.right)
            if base is None or exponent is None:
                continue
            try:
                value = base**exponent
            except ArithmeticError:
                value = math.inf
            if not isinstance(value, float) or not math.isfinite(value):
                raise ModelError(
                    f"the equation of '{name}' has {ast.unparse(node)!r}, not a finite number"
                )
            if abs(value) > _WHOLE:
                node.left, node.op, node.right = ast.Constant(value), ast.Mult(), ast.Constant(1.0)
    return tree.body


def _constant(tree: ast.expr) -> float | None:
    """The value of an expression that contains only numbers."""
    match tree:
        case ast.Constant(int() | float() as number):
            return float(number)
        case ast.Name(name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(ast.USub(), operand):
            value = _constant(operand)
            return None if value is None else -value
        case ast.UnaryOp(ast.UAdd(), operand):
            return _constant(operand)
        case ast.BinOp(left, sign, right) if type(sign) in _ARITHMETIC:
            values = _constant(left), _constant(right)
            if None in values:
                return None
            try:
                value = _ARITHMETIC[type(sign)](*values)
            except ArithmeticError:
                return None
            return value if isinstance(value, float) else None
    return None


_ARITHMETIC: dict[type[ast.operator], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
_WHOLE = 2**53  # integers up to here are exact as floats
_DEEPEST = 50  # largest nesting depth of one expression


def _statements(trees: Sequence[ast.expr], of: _Place) -> tuple[str, str]:
    """Assignments, and the remaining expressions, of trees of any depth.

    Subexpressions nested deeper than `_DEEPEST` levels become variables. Recursive code, such as
    Python's compiler, then does not exhaust the stack. The order of operations does not change.
    """
    lines: list[str] = []
    left = []
    prefix = "part"
    while any(name.startswith(prefix) for name in (*of.variables, *of.parameters)):
        prefix += "_"
    for tree in trees:
        root = ast.Expression(tree)
        levels: dict[int, int] = {}
        for node in reversed(list(ast.walk(root))):  # parts before the whole
            parts = list(ast.iter_child_nodes(node))
            level = 1 + max((levels[id(part)] for part in parts), default=0)
            if level > _DEEPEST and not isinstance(node, ast.Expression):
                for part in parts:
                    if isinstance(part, ast.BinOp | ast.UnaryOp | ast.Call | ast.IfExp):
                        name = f"{prefix}{len(lines)}"
                        new = ast.Name(name, ast.Load())
                        _replace(node, part, new)
                        lines.append(f"    {name} = {ast.unparse(of.visit(part))}\n")
                        levels[id(new)] = 1
                level = 2
            levels[id(node)] = level
        left.append(ast.unparse(of.visit(root.body)))
    return "".join(lines), "".join(f"{text}, " for text in left)


def _replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for field, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, field, new)
        elif isinstance(value, list):
            value[:] = [new if one is old else one for one in value]


def _text_of(name: str, value: Any) -> str:
    """Text of an equation; constants of a SymPy expression as numbers."""
    if not hasattr(value, "free_symbols"):
        return str(value)
    import sympy
    from sympy.printing.str import StrPrinter

    for constant in (sympy.I, sympy.oo, -sympy.oo, sympy.zoo, sympy.nan):
        if value.has(constant):
            raise ModelError(
                f"the equation of '{name}' is {str(value)!r}, which has {constant}; expected real "
                "numbers"
            )

    kinds = ("Exp1", "Pi", "EulerGamma", "GoldenRatio", "Catalan", "TribonacciConstant")
    numbers = {f"_print_{kind}": lambda _, number: repr(float(number)) for kind in kinds}
    printer = type("Printer", (StrPrinter,), numbers)
    return str(printer().doprint(value))


def _gather(
    name: str, tree: ast.expr, variables: Sequence[str], delays: list[tuple[str, str]],
    names: set[str], tables: Sequence[str] = (),
) -> None:  # fmt: skip
    """Collect delays and names of parameters; refuse everything but arithmetic."""
    allowed = (
        ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, *_ARITHMETIC, ast.UAdd, ast.USub,
        ast.Not, ast.expr_context, ast.IfExp, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE,
        ast.Gt, ast.GtE, ast.BoolOp, ast.boolop,
    )  # fmt: skip
    functions = set()
    for part in ast.walk(tree):
        if not isinstance(part, allowed) or (
            isinstance(part, ast.Constant) and not isinstance(part.value, int | float)
        ):
            found = _SIGNS.get(type(part)) or _written(part)
            raise ModelError(f"the equation of '{name}' has {found}; expected arithmetic")
        if isinstance(part, ast.Call):
            functions.add(part.func)
            called = part.func.id if isinstance(part.func, ast.Name) else ast.unparse(part.func)
            if called in variables:
                pair = called, _delay_of(name, part)
                names.add(pair[1])
                if pair not in delays:
                    delays.append(pair)
            elif called not in (*_FUNCTIONS, *_OWN, *tables):
                raise ModelError(
                    f"the equation of '{name}' calls '{called}'; expected one of "
                    f"{', '.join((*tables, *_FUNCTIONS, *_OWN))}, or a variable at t minus a delay"
                )
            elif called not in tables and (len(part.args) == 1) is (called in _OF_SEVERAL):
                wanted = "several numbers" if called in _OF_SEVERAL else "one number"
                raise ModelError(
                    f"the equation of '{name}' has {ast.unparse(part)}; {called} is of {wanted}"
                )
    for part in ast.walk(tree):
        known = (*variables, "t", *_CONSTANTS)
        if isinstance(part, ast.Name) and part not in functions and part.id not in known:
            names.add(part.id)


# Operators that are not arithmetic on real numbers.
_SIGNS: dict[type[ast.AST], str] = {
    ast.BitXor: "^ (a power is **)", ast.BitAnd: "&", ast.BitOr: "|", ast.LShift: "<<",
    ast.RShift: ">>", ast.MatMult: "@", ast.Invert: "~", ast.In: "in", ast.NotIn: "not in",
    ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip


def _written(part: ast.AST) -> str:
    try:
        return repr(ast.unparse(part))
    except RecursionError:
        return f"a {type(part).__name__}"


def _delay_of(name: str, call: ast.Call) -> str:
    value = call.args[0] if len(call.args) == 1 else None
    if (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Sub)
        and isinstance(value.left, ast.Name)
        and value.left.id == "t"
    ):
        length = _constant(value.right)
        if length is not None:
            return repr(length)
        if isinstance(value.right, ast.Name):
            return value.right.id
    if (  # the form that SymPy writes
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Add)
        and isinstance(value.left, ast.UnaryOp)
        and isinstance(value.left.op, ast.USub)
        and isinstance(value.left.operand, ast.Name)
        and ast.unparse(value.right) == "t"
    ):
        return value.left.operand.id
    raise ModelError(
        f"the equation of '{name}' has '{ast.unparse(call)}'; expected a delayed value such as "
        f"'{ast.unparse(call.func)}(t - tau)', with a parameter or a number tau"
    )


class _Place(ast.NodeTransformer):
    """Replaces names by indices."""

    def __init__(
        self, variables: Sequence[str], delays: Sequence[tuple[str, str]],
        parameters: Sequence[str], tables: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.variables, self.delays, self.parameters = variables, delays, parameters
        self.tables = tables

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.variables:
            return _item("y", self.variables.index(node.id))
        if node.id in self.parameters:
            return _item("p", self.parameters.index(node.id))
        if node.id in _CONSTANTS:
            return ast.Constant(_CONSTANTS[node.id])
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Name)
        if node.func.id in self.variables:
            return _item("yd", self.delays.index((node.func.id, _delay_of("", node))))
        name = node.func.id
        function: ast.expr = ast.Name(name, ast.Load())
        if name in self.tables:
            function = ast.Attribute(ast.Name("c", ast.Load()), name, ast.Load())
        elif name in _FUNCTIONS:
            function = ast.Attribute(ast.Name("math", ast.Load()), name, ast.Load())
        return ast.Call(function, [self.visit(argument) for argument in node.args], [])


def _item(name: str, index: int) -> ast.expr:
    return ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(index), ast.Load())
