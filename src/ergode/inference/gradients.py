"""Functions with gradients for JAX and PyTensor; neither is imported until it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from ergode.core.errors import PlanError

_WITH = {"pytensor": "pymc"}


class WithGradient(Protocol):
    """A function of rows theta[n, d], and its derivatives."""

    parameters: tuple[str, ...]

    def __call__(self, theta: Any) -> np.ndarray: ...

    def value_and_gradient(self, theta: Any) -> tuple[np.ndarray, np.ndarray]: ...


def as_jax(function: WithGradient) -> Callable[..., Any]:
    """The function of one row for JAX, whose batches are one call; a PlanError without JAX."""
    jax: Any = _imported("jax")

    def shaped(theta: Any) -> tuple[np.ndarray, np.dtype[Any]]:
        rows = np.asarray(theta)
        return rows.reshape(-1, rows.shape[-1]), rows.dtype

    def value_on_host(theta: Any) -> np.ndarray:
        rows, kind = shaped(theta)
        return np.asarray(function(rows)).reshape(theta.shape[:-1]).astype(kind)

    def both_on_host(theta: Any) -> tuple[np.ndarray, np.ndarray]:
        rows, kind = shaped(theta)
        value, gradient = function.value_and_gradient(rows)
        value, gradient = value.astype(kind), gradient.astype(kind)
        return value.reshape(theta.shape[:-1]), gradient.reshape(theta.shape)

    def called(host: Callable[..., Any], theta: Any, has_gradient: bool) -> Any:
        number = jax.ShapeDtypeStruct(theta.shape[:-1], theta.dtype)
        like = (number, jax.ShapeDtypeStruct(theta.shape, theta.dtype)) if has_gradient else number
        return jax.pure_callback(host, like, theta, vmap_method="broadcast_all")

    def checked(theta: Any) -> Any:
        theta = jax.numpy.asarray(theta, jax.numpy.result_type(float))
        if theta.ndim != 1 or theta.shape[0] != len(function.parameters):
            raise PlanError(
                f"theta has the shape {theta.shape}; expected ({len(function.parameters)},): "
                "use jax.vmap for several rows"
            )
        return theta

    value = jax.custom_vjp(lambda theta: called(value_on_host, theta, False))
    value.defvjp(
        lambda theta: called(both_on_host, theta, True),
        lambda gradient, cotangent: (cotangent * gradient,),
    )
    return lambda theta: value(checked(theta))


def as_pytensor(function: WithGradient) -> Callable[..., Any]:
    """The function of one row as an operation; a PlanError without PyTensor."""
    tensor: Any = _imported("pytensor.tensor")
    graph: Any = _imported("pytensor.graph")

    class LogLikelihood(graph.Op):  # type: ignore[misc]
        """The value and the gradient of one row: they are asked for one after the other."""

        def make_node(self, theta: Any) -> Any:
            theta = tensor.as_tensor_variable(theta).astype("float64")
            return graph.Apply(self, [theta], [tensor.dscalar(), tensor.dvector()])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            value, gradient = function.value_and_gradient(inputs[0])
            outputs[0][0], outputs[1][0] = np.asarray(value), gradient

        def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
            return [cotangents[0] * self(inputs[0])[1]]

        def grad(self, inputs: Any, cotangents: Any) -> list[Any]:
            return self.pullback(inputs, None, cotangents)

    operation = LogLikelihood()
    return lambda theta: operation(theta)[0]


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise PlanError(
            f"{package} is not installed: pip install {_WITH.get(package, package)}"
        ) from None
