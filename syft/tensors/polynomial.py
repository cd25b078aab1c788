"""PolynomialTensor: functions approximated by polynomials, on plain and on encrypted numbers.

Add a function, or samples of one, with intervals and a degree; then evaluate it. It is fitted when it is added, one
polynomial for each interval, and its error is measured. On encrypted numbers the polynomials are split into smaller
ones, whose coefficients are looked up in a table at private indices (see `syft.mpc.values.function_tables`).

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> p = sy.PolynomialTensor()
    >>> p.add_function("sigmoid", degree=10, intervals=[[-8, 0], [0, 8]], fit_type="interp", function=torch.sigmoid)
    PolynomialTensor(sigmoid: degree 10 on [-8, 8] in 2 pieces, off by 3.1e-05)
    >>> x = torch.tensor([0.0, 2.0])
    >>> p.get_val("sigmoid", x)
    tensor([0.5000, 0.8808])

As a link on a tensor, it evaluates the calls that it has a function for, and passes on all others:

    >>> y = p.on(torch.tensor([0.0, 2.0])).sigmoid()
    >>> y.child.child
    tensor([0.5000, 0.8808])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft._suggestions import did_you_mean
from syft.core.dispatch import forward, function_name
from syft.core.id_provider import ObjectId
from syft.core.providers import providers
from syft.core.tensor import AbstractTensor
from syft.exceptions import SyftError
from syft.tensors.fits import Fit, Function, Intervals, Numbers, Samples, check_degree, check_intervals, fit
from syft.tensors.precision import FixedPrecisionTensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syft.workers.base import BaseWorker

MAX_FUNCTIONS = 64


class PolynomialTensor(AbstractTensor):
    """A table of fitted functions, and a link that evaluates them on the tensor below.

    Args:
        owner: the worker it belongs to.
        id: its id.
        tags: its tags, which searches match.
        description: its description, which searches match.
        child: the tensor or link below it.
        functions: fits by name, as `get_class_attributes` returns them.
    """

    unregistered: ClassVar[str] = "forward"

    def __init__(
        self,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        child: object = None,
        functions: dict[str, tuple[Any, ...]] | None = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description, child=child)
        fits = {} if functions is None else functions
        if type(fits) is not dict or len(fits) > MAX_FUNCTIONS:
            raise TypeError(f"functions are a dict of at most {MAX_FUNCTIONS} fits")
        self.functions: dict[str, Fit] = {_named(name): Fit.from_plain(plain) for name, plain in fits.items()}

    def get_class_attributes(self) -> dict[str, Any]:
        """Return the attributes that results inherit."""
        return {"functions": {name: fitted.plain() for name, fitted in self.functions.items()}}

    def on(self, tensor: torch.Tensor, wrap: bool = True) -> Any:
        """Put a new link with these functions on a tensor; this object stays unchanged."""
        link = type(self)(owner=self._owner, **self.get_class_attributes())
        return AbstractTensor.on(link, tensor, wrap)

    # --- adding functions -----------------------------------------------------------------------------------------

    def add_function(
        self,
        name: str,
        degree: int = 10,
        intervals: Intervals = ((-8.0, 8.0),),
        fit_type: str = "interp",
        function: Function | Samples | None = None,
    ) -> PolynomialTensor:
        """Fit a function and store it under a name; returns this object.

        Args:
            name: its name; an existing function of this name is replaced.
            degree: of the polynomials.
            intervals: adjacent pairs of numbers; one polynomial for each. Outside of them the function has the values
                at their ends.
            fit_type: "interp" (agree at the Chebyshev points) or "taylor" (around the middle of each interval).
            function: a function of float64 tensors; or samples of one, (points, values), fitted by least squares. None
                uses torch's function of that name.
        """
        _named(name)
        if function is None:
            function = _torch_function(name)
        if name not in self.functions and len(self.functions) >= MAX_FUNCTIONS:
            raise SyftError(f"A PolynomialTensor has at most {MAX_FUNCTIONS} functions. Make another one.")
        self.functions[name] = fit(function, intervals, degree, fit_type)
        return self

    def fit_function(
        self, function: Function | Samples, interval: Intervals, degree: int = 10, fit_type: str = "interp"
    ) -> tuple[float, ...]:
        """Return the coefficients of a function on one interval, in half widths from its middle, from power 0."""
        if len(check_intervals(interval)) != 1:
            raise SyftError("fit_function() needs a single interval. Use add_function() for several.")
        return fit(function, interval, degree, fit_type).coefficients[0]

    def interpolate(
        self, name: str, places: Numbers, values: Numbers, degree: int = 10, intervals: Intervals | None = None
    ) -> PolynomialTensor:
        """Fit samples of a function and store it under a name; by default between the first and the last point."""
        points = torch.as_tensor(places).detach().double().reshape(-1)
        if intervals is None:
            if not points.numel() or not bool(torch.isfinite(points).all()):
                raise SyftError("Samples must be finite numbers at two points at least.")
            intervals = [[float(points.min()), float(points.max())]]
        return self.add_function(name, degree, intervals, "interp", (points, values))

    # --- values ---------------------------------------------------------------------------------------------------

    def fitted(self, name: str) -> Fit:
        """Return the fit of a function."""
        if name not in self.functions:
            names = ", ".join(map(repr, self.functions)) or "none"
            hint = did_you_mean(name, self.functions)
            raise SyftError(f"There is no function {str(name)[:40]!r}, only {names}.{hint} Use add_function() first.")
        return self.functions[name]

    def get_val(self, name: str, x: float | torch.Tensor | AbstractTensor) -> Any:
        """Return the values of a function: of a number, a plain tensor, or one of fixed precision, shared or not."""
        return _value(self.fitted(name), x)

    def error(self, name: str, x: torch.Tensor | AbstractTensor | None = None) -> float:
        """Return the measured maximum error of a function between its ends.

        Args:
            name: the function.
            x: an encrypted tensor; the error of its format is then added.
        """
        fitted = self.fitted(name)
        link = x.__dict__["child"] if isinstance(x, providers.wrapper) else x
        if not isinstance(link, FixedPrecisionTensor):
            return fitted.error
        return fitted.error + float(providers.evaluator.error(fitted, link))

    def taylor_exp(self, x: Any, degree: int = 10) -> Any:
        """Return 1 + x + x^2 / 2 + ... up to a degree: e^x near 0, with products only."""
        check_degree(degree)
        made = x * 0 + 1 / math.factorial(degree)
        for power in range(degree - 1, -1, -1):
            made = made * x + 1 / math.factorial(power)
        return made

    def __repr__(self) -> str:
        below = f">{self.child!r}" if "child" in self.__dict__ else ""
        return f"PolynomialTensor({'; '.join(_texts(self.functions))}){below}"

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Evaluate a call that there is a function for; pass on any other one."""
        name = function_name(function).rpartition(".")[2]
        link = args[0] if args else None
        if isinstance(link, cls) and name in link.functions and len(args) == 1 and not kwargs:
            return cls(**link.get_class_attributes()).on(link.get_val(name, link.child), wrap=False)
        return forward(cls, function, args, kwargs)


def _texts(functions: dict[str, Fit]) -> list[str]:
    """Return descriptions of fits."""
    texts = []
    for name, fitted in functions.items():
        start, stop = fitted.ends
        pieces = f" in {len(fitted.intervals)} pieces" if len(fitted.intervals) > 1 else ""
        texts.append(f"{name}: degree {fitted.degree} on [{start:g}, {stop:g}]{pieces}, off by {fitted.error:.2g}")
    return texts


def _named(name: object) -> str:
    if type(name) is not str or not name.isidentifier() or len(name) > 40:
        raise SyftError("The name of a function must be an identifier of at most 40 characters.")
    return name


def _torch_function(name: str) -> Callable[..., Any]:
    for module in (torch, torch.nn.functional):
        found = getattr(module, name, None)
        if callable(found):
            return found  # type: ignore[no-any-return]
    raise SyftError(f"torch has no function {name!r}. Pass one as `function`.")


# --- evaluation -------------------------------------------------------------------------------------------------


class _Evaluation(torch.autograd.Function):
    """A fitted function of an encrypted tensor; its derivative is evaluated the same way."""

    @staticmethod
    def forward(ctx: Any, x: Any, fitted: Fit) -> Any:
        ctx.fitted = fitted
        ctx.save_for_backward(x)
        return providers.evaluator.evaluate(fitted, x.__dict__["child"]).wrap()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * providers.evaluator.slope(ctx.fitted, x.__dict__["child"]).wrap(), None


def _value(fitted: Fit, x: object) -> Any:
    if isinstance(x, bool) or not isinstance(x, int | float | torch.Tensor | AbstractTensor):
        raise SyftError(f"get_val() needs a number or a tensor, got a {type(x).__name__}.")
    if isinstance(x, int | float):
        return float(fitted(torch.tensor(float(x), dtype=torch.float64)))
    if isinstance(x, FixedPrecisionTensor):
        return providers.evaluator.evaluate(fitted, x)
    if isinstance(x, providers.wrapper):
        return _of_chain(fitted, x)
    if isinstance(x, AbstractTensor):
        raise _not_encoded(x)
    if x.is_complex():
        raise SyftError("get_val() needs real numbers.")
    return fitted(x.double()).to(x.dtype if x.is_floating_point() else torch.get_default_dtype())


def _of_chain(fitted: Fit, x: Any) -> Any:
    link = x.__dict__["child"]
    if isinstance(link, PolynomialTensor):
        return type(link)(**link.get_class_attributes()).on(_value(fitted, link.child))
    if not isinstance(link, FixedPrecisionTensor):
        raise _not_encoded(link)
    return _Evaluation.apply(x, fitted)  # type: ignore[no-untyped-call]


def _not_encoded(link: object) -> SyftError:
    return SyftError(
        f"get_val() can't evaluate a {type(link).__name__}. "
        "Encode before sharing: x.fix_precision().share(...); or fetch it first: x.get()."
    )
