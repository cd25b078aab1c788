"""Plan: a recorded function, with the tensors it needs, that any worker runs with one message."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from syft.config import current
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels, set_id
from syft.core.object import AbstractObject
from syft.core.object_storage import ObjectStorage
from syft.core.trees import iter_tensors
from syft.exceptions import MalformedPlanError, PlanBuildError, PlanMismatchError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.plan import optimizers as plan_optimizers
from syft.messaging.plan.arguments import match
from syft.messaging.plan.checks import check
from syft.messaging.plan.copies import copy_built, copy_unbuilt
from syft.messaging.plan.display.code import code_of
from syft.messaging.plan.display.summary import Summary, html_of, text_of
from syft.messaging.plan.executor import Compiled, on_links
from syft.messaging.plan.operations import program_of
from syft.messaging.plan.plan_base import PlanBase
from syft.messaging.plan.program import Argument, Program, from_rows, too_many_operations
from syft.messaging.plan.record.autograd import with_gradients
from syft.messaging.plan.record.build import record
from syft.messaging.plan.record.module_binding import ModuleBinding, used_by
from syft.messaging.plan.state import CAPTURED, State
from syft.messaging.plan.translation import store as stored_translations
from syft.messaging.plan.translation.torchscript import is_tracing, not_tracing, run_while_tracing
from syft.tensors.placeholder import PlaceHolder
from syft.tensors.placeholder import tag_sort as tag_sort

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

Shapes = Sequence[Sequence[int] | torch.Tensor]
_Tensor = torch.Tensor
_is_tensor: Callable[[Any], bool] = torch.is_tensor


class _Forward:
    """The function of a plan; None if the plan came from elsewhere. Subclasses define a method instead."""

    def __get__(self, plan: Plan | None, kind: type) -> Any:
        return self if plan is None else plan.forward_func

    def __set__(self, plan: Plan, function: Callable[..., Any] | None) -> None:
        plan.forward_func = function
        plan._discard_program()


class Plan(PlanBase):
    """A sequence of torch operations, recorded from a function, with its state.

    Make one with `@sy.func2plan(...)`, by subclassing it and writing `forward`, or around a module with
    `sy.Plan(forward_func=module)`. All arguments are optional.

    Args:
        name: the name of the plan.
        state: its tensors.
        include_state: pass the state to the function as its last argument.
        is_built: whether operations are passed.
        operations: the operations, for a plan that is built.
        placeholders: the placeholders of these operations by id; tags mark inputs and outputs.
        forward_func: the function, or a module.
        state_tensors: tensors to make a state of.
        id: its id.
        owner: the worker it belongs to.
        tags: its tags, which searches match.
        description: its description, which searches match.
    """

    pointer_kind = "plan"
    _takes_tensors: int

    def __init__(
        self,
        name: str | None = None,
        state: State | None = None,
        include_state: bool = False,
        is_built: bool = False,
        operations: list[Operation] | None = None,
        placeholders: dict[ObjectId, PlaceHolder] | None = None,
        forward_func: Callable[..., Any] | None = None,
        state_tensors: Iterable[Any] | None = None,
        id: ObjectId | None = None,
        owner: BaseWorker | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
    ) -> None:
        # First, because __setattr__ reads it.
        self.__dict__["state"] = state if state is not None else State(owner=owner)
        AbstractObject.__init__(self, id=id, owner=owner, tags=tags, description=description)
        ObjectStorage.__init__(self, name)
        kind: type[object] = type(forward_func if isinstance(forward_func, torch.nn.Module) else self)
        self.name = name or getattr(forward_func, "__name__", None) or kind.__name__
        self.__dict__["__qualname__"] = self.__name__
        self.include_state = include_state
        self.forward_func = forward_func  # a module in here becomes state
        self.optimizers = []
        self.pointers = {}
        self._sent_to = {}
        self._lines = []
        self._binding = ModuleBinding()
        self._program = None
        self._compiled: Compiled | None = None
        self._translations = stored_translations.Translations()
        self._input_specs = ()
        self._placeholders = dict(placeholders or {})
        for tensor in state_tensors or ():
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"The state of a plan is a list of tensors, got a {type(tensor).__name__} in it.")
            self.state.add(tensor)
            self._register(tensor)
        if operations is not None or is_built:
            self._install(program_of(operations or [], self._placeholders, self.state))

    forward: Any = _Forward()

    # --- building -------------------------------------------------------------------------------------------

    @property
    def operations(self) -> list[Operation]:
        """The recorded operations."""
        return list(self._program.operations) if self._program is not None else []

    @property
    def readable_plan(self) -> list[Operation]:
        """The recorded operations (print(plan.code) shows them as text)."""
        return self.operations

    @property
    def code(self) -> str:
        """The recorded operations as Python-like text."""
        return code_of(self)

    def build(self, *args: object, **kwargs: object) -> Plan:
        """Record the function with example arguments; changes that it makes are undone.

        Args:
            *args: examples, of the kinds and numbers of dimensions that the plan will be called with.
            **kwargs: examples by name. With `trace_autograd=True` every argument of floats gets a gradient from
                `backward()`, not only tensors that require one.
        """
        function = self._function()
        if kwargs.pop("trace_autograd", False):
            function = with_gradients(function)
        self._declare_again()
        last = (self.state,) if self.include_state else ()
        declared = [p for p in self.state.state_placeholders if CAPTURED not in p.tags]
        found = record(function, declared, args, kwargs, last)
        for (
            optimizer
        ) in found.optimizers:  # refuses an optimizer that can't be serialized now, not when the plan is sent
            plan_optimizers.to_row(optimizer, [p.child for p in found.program.state])
        self.optimizers, self._lines = found.optimizers, found.lines  # nothing below fails
        self.state.state_placeholders = list(found.program.state)
        self._bind(self._modules(function))
        self._install(found.program)
        self.__dict__["_input_specs"] = found.specs
        return self

    def _modules(self, function: Callable[..., Any]) -> list[torch.nn.Module]:
        own = [value for value in self.__dict__.values() if isinstance(value, torch.nn.Module)]
        return own + [module for _, module in used_by(function, torch.nn.Module)]

    def _function(self) -> Callable[..., Any]:
        """Return the callable to record, with the signature of the user's function."""
        if isinstance(self.forward_func, torch.nn.Module) and not self._overrides_forward():
            module = self.forward_func
            return functools.wraps(module.forward)(lambda *args, **kwargs: module(*args, **kwargs))
        function: Callable[..., Any] | None = self.forward
        if function is None:
            raise PlanBuildError(
                f"The plan {self.name!r}, which has no function,", hint="Override forward(), or pass forward_func."
            )
        return function

    def _overrides_forward(self) -> bool:
        return type(self).forward is not Plan.forward

    def _install(self, program: Program) -> None:
        self._discard_program()
        self._program = program
        self._placeholders = {placeholder.id: placeholder for placeholder in program.placeholders()}

    @staticmethod
    def _create_placeholders(args_shape: Any) -> list[Any]:
        """Make an example for each shape; -1 stands for any size. A tensor is its own example.

        Raises:
            ValueError: a size is negative, and not -1.
        """
        return [shape if isinstance(shape, _Tensor) else torch.zeros(_sizes(shape)) for shape in args_shape]

    @property
    def __name__(self) -> str:
        """The name as an identifier, which torch.jit.trace and functools.wraps read."""
        return re.sub(r"\W|^(?=\d)", "_", self.name, flags=re.ASCII) or "plan"

    # --- running --------------------------------------------------------------------------------------------

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the plan: its recorded operations, or its function if it is not built."""
        program = self._program
        if program is None and is_tracing():
            with not_tracing():
                built = self.copy().build(*args, **kwargs)
            return built(*args, **kwargs)
        if program is None:
            last = (self.state,) if self.include_state else ()
            return self._function()(*args, *last, **kwargs)
        compiled = self._compiled
        if compiled is None:
            check(program, len(self.optimizers))
            # Set first: another thread that sees _compiled reads _takes_tensors next.
            self.__dict__["_takes_tensors"] = _takes_tensors(program.arguments)
            compiled = self.__dict__["_compiled"] = Compiled(program)
        self._binding.update()
        self._binding.check_modes()
        inputs: Any = args
        if kwargs or len(args) != self._takes_tensors or not all(map(_is_tensor, args)):
            inputs = match(self.name, program.arguments, args, kwargs)
        if is_tracing():
            return run_while_tracing(program, inputs)
        state = [p.child for p in program.state]
        try:
            if on_links and (SyftTensor in map(type, inputs) or SyftTensor in map(type, state)):
                return on_links[0](compiled, inputs, state, self.optimizers)
            return compiled.run(inputs, state, self.optimizers)
        except Exception as error:
            compiled.explain(error, self._lines)
            raise

    def run(self, args: tuple[Any, ...], result_ids: list[ObjectId] | None = None) -> Any:
        """Run the plan and store its results under the given ids; builds it first if necessary.

        Args:
            args: the arguments.
            result_ids: the ids of the tensors it returns.
        """
        if not self.is_built:
            self.build(*args)
        result = self(*args)
        tensors = [leaf for leaf in iter_tensors(result) if isinstance(leaf, _Tensor)]
        if result_ids and len(result_ids) != len(tensors):
            raise PlanMismatchError(
                f"The plan {self.name!r} returns {len(tensors)} tensors, got {len(result_ids)} result_ids."
            )
        for tensor, result_id in zip(tensors, result_ids or (), strict=False):
            set_id(tensor, result_id)
            self._register(tensor)
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Plan:
        """Return a copy with a new id and its own state."""
        return self.copy()

    def __reduce_ex__(self, protocol: object) -> Any:
        """Refuse pickle."""
        raise TypeError("A plan can't be pickled. Use sy.serialize(plan) and sy.deserialize.")

    def copy(self) -> Plan:
        """Return a copy with a new id and its own state."""
        copied: Plan = copy_unbuilt(self) if self._program is None else copy_built(self)
        return copied

    # --- display ------------------------------------------------------------------------------------------

    def summary(self, *examples: object) -> Summary:
        """Return a table of the operations, shapes and parameters; print it, or let a notebook show it.

        Args:
            *examples: tensors like the inputs, for the shapes in a plan that was not built here.
        """
        return Summary(self, *examples)

    def __repr__(self) -> str:
        return text_of(self)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return html_of(self)

    # --- serialization --------------------------------------------------------------------------------------

    @staticmethod
    def simplify(worker: BaseWorker | None, plan: Plan) -> tuple[Any, ...]:
        """Return id, name, whether it is built, number of inputs, rows, state, optimizers, labels, translations."""
        plan._binding.update()
        program = plan._program if plan._program is not None else Program()
        rows = tuple(plan_optimizers.to_row(o, [p.child for p in program.state]) for o in plan.optimizers)
        return (
            plan.id, plan.name, plan.is_built, len(program.inputs), program.to_rows(), plan.state, rows,
            plan.tags, plan.description, plan._translations.to_rows(plan.state),
        )  # fmt: skip

    @staticmethod
    def screen(parts: tuple[Any, ...]) -> None:
        """Refuse a received plan with too many operations before they are rebuilt, which is slow."""
        rows = parts[5] if len(parts) > 5 else None
        if type(rows) is tuple and any(
            len(part) > current().max_plan_operations + 1 for part in rows if type(part) is tuple
        ):
            raise too_many_operations()

    @staticmethod
    def detail(worker: BaseWorker | None, plan_tuple: tuple[Any, ...]) -> Plan:
        """Rebuild an untrusted plan; refuses one whose parts are inconsistent."""
        plan_id, name, is_built, inputs, rows, state, optimizers, tags, description, translations = plan_tuple
        check_labels(plan_id, tags, description)
        if type(state) is not State or type(is_built) is not bool or type(name) is not str or len(name) > 1000:
            raise MalformedPlanError("A plan has a name, a flag and a state.")
        plan = Plan(name=name, state=state, id=plan_id, owner=worker, tags=tags, description=description)
        if is_built:
            program = from_rows(rows, inputs, tuple(state.state_placeholders))
            plan.optimizers = [plan_optimizers.from_row(row, state.tensors()) for row in optimizers]
            check(program, len(plan.optimizers))
            plan._install(program)
            plan._translations = stored_translations.from_rows(translations, state)
        return plan


def _sizes(shape: Sequence[int]) -> list[int]:
    """Return the sizes of an example for a shape."""
    wrong = [size for size in shape if size < -1]
    if wrong:
        raise ValueError(
            f"args_shape has the size {wrong[0]} in {tuple(shape)}. Use -1 for any size, or a positive one."
        )
    return [2 if size == -1 else size for size in shape]


def _takes_tensors(arguments: tuple[Argument, ...]) -> int:
    """Return the number of arguments if each is one tensor, else -1."""
    simple = all(type(a.pattern) is PlaceHolder and not a.by_name for a in arguments)
    return len(arguments) if simple else -1


class func2plan:
    """Decorate a function to make it a plan.

    Args:
        args_shape: the shapes of its arguments; the plan is then built at once, unless there are none. -1 stands for
            any size; an example tensor may replace a shape.
        state: tensors that are passed to the function as its last argument: `bias, = state.read()`.

    Example:
        >>> import torch, syft as sy
        >>> @sy.func2plan(args_shape=[(-1, 1)])
        ... def double(x):
        ...     return x * 2
        >>> double(torch.ones(3, 1)).sum()
        tensor(6.)
    """

    def __new__(
        cls, args_shape: Shapes | Callable[..., Any] | None = None, state: Iterable[torch.Tensor] | None = None
    ) -> Any:
        """Make the decorator; without parentheses, make the plan at once."""
        return cls()(args_shape) if callable(args_shape) else super().__new__(cls)

    def __init__(
        self, args_shape: Shapes | Callable[..., Any] | None = None, state: Iterable[torch.Tensor] | None = None
    ) -> None:
        self.args_shape = args_shape
        self.state_tensors = state if state is not None else ()
        self.include_state = state is not None

    def __call__(self, plan_function: Callable[..., Any]) -> Plan:
        """Make the plan, and build it if shapes were passed."""
        if not callable(plan_function):
            raise TypeError(f"func2plan needs a function or a module, got a {type(plan_function).__name__}.")
        plan = Plan(
            name=getattr(plan_function, "__name__", type(plan_function).__name__),
            include_state=self.include_state,
            forward_func=plan_function,
            state_tensors=self.state_tensors,
        )
        if self.args_shape:
            plan.build(*Plan._create_placeholders(self.args_shape))
        return plan


def method2plan(*args: object, **kwargs: object) -> NoReturn:
    """Refuse, and name the replacement of this decorator."""
    raise SyntaxError("method2plan was removed. Subclass sy.Plan, override forward(), and call plan.build(...).")
