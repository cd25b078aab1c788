"""The calls of a slice as Python that a data owner can read, written from records alone.

Names of data sets come from the node; every other name is made here. All texts are escaped and cut, so a record can't
inject anything into the page or terminal that shows them.
"""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.core.references import Ref
from syft.grid.isolation.records import effects
from syft.grid.isolation.records.records import Blob, BlobAt, CallRecord, LoadRecord, Named, PutRecord, Size
from syft.messaging.plan.display.code import BINARY, UNARY
from syft.pointers.remote_call import following_id

if TYPE_CHECKING:
    from syft.grid.isolation.records.history import Slice

MAX_LINES = 400
MAX_LINE = 400
MAX_ITEMS = 32
MAX_TEXT = 80
MAX_PLAN_TEXT = 20_000
_RESERVED = frozenset({"torch", "syft", "F", "self", *dir(builtins)})
# Workers zero uninitialized memory.
_ZEROED = {"torch.empty": "torch.zeros", "torch.empty_like": "torch.zeros_like",
           "torch.Tensor.new_empty": "torch.Tensor.new_zeros"}  # fmt: skip
_SPELLED = {"torch.functional.": "torch.", "torch._VF.": "torch."}


def code_of(part: Slice, plans: Mapping[str, str]) -> str:
    """Return the calls of a slice as Python; inputs are described in comments above."""
    writer = _ListingWriter(part)
    body = writer.lines()
    head = [f"# {line}" for line in writer.inputs]
    lines = [_cut(line) for line in [*_shortened(head), *_shortened(body)]]
    for digest in part.plan_blobs():
        text = plans.get(digest)
        if text is not None:
            lines += ["", f"# plan_{digest[:8]}", *printable(text[:MAX_PLAN_TEXT]).split("\n")]
    return "\n".join(lines)


def printable(text: str) -> str:
    """Return a multi-line text with everything but printable ASCII escaped."""
    return "\n".join(ascii(line)[1:-1].replace("\\'", "'").replace("\\\\", "\\") for line in text.split("\n"))


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= MAX_LINES:
        return lines
    half = MAX_LINES // 2
    return [*lines[:half], f"# ... {len(lines) - 2 * half} more lines", *lines[-half:]]


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"# (cut) {line[: MAX_LINE - 12]} ..."


class _ListingWriter:
    """Write the calls of one slice."""

    def __init__(self, part: Slice) -> None:
        self.part = part
        self.inputs: list[str] = []
        self._names: dict[ObjectId, str] = {}
        self._taken: set[str] = set()
        self._count = 0
        self._mentioned = {ref.id for call in part.calls for ref in call.refs()} | set(part.ids)
        self._call: CallRecord | None = None

    def lines(self) -> list[str]:
        """Return one line for each call, and one for the resulting object."""
        lines: list[str] = []
        open_block = False
        for record in self.part.records:
            if type(record) is LoadRecord:
                self._load(record)
            elif type(record) is PutRecord:
                self._names[record.obj_id] = self._blob(record.blob)
            elif type(record) is CallRecord:
                if not record.grad_enabled and not open_block:
                    lines.append("with torch.no_grad():")
                open_block = not record.grad_enabled
                lines.append(("    " if open_block else "") + self._statement(record))
        return [*lines, f"result = {', '.join(self.value(Ref(obj_id)) for obj_id in self.part.ids)}"]

    # --- names -----------------------------------------------------------------------------------------------

    def _free(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def _load(self, record: LoadRecord) -> None:
        name = re.sub(r"[^A-Za-z0-9_]", "_", record.name.lstrip("#"))[:40]
        if not name.isidentifier() or keyword.iskeyword(name) or name in _RESERVED:
            name = f"data_{name}"
        if record.obj_id not in self._names:
            name = self._names[record.obj_id] = self._free(name)
            rows = "" if record.rows is None else f", {record.rows} rows"
            self.inputs.append(f"{name}: data set {record.name[:MAX_TEXT]!a}, {ascii(record.spec)[1:-1]}{rows}")

    def _blob(self, blob: Blob) -> str:
        name = self._free(f"plan_{blob.hash[:8]}" if blob.kind == "plan" else "given_1")
        kept = ", no longer kept" if blob.dropped else ""
        spec = ascii(blob.spec)[1:-1]
        self.inputs.append(f"{name}: {blob.kind} of the user, {spec} (sha256 {blob.hash[:8]}{kept})")
        return name

    def _result(self, obj_id: ObjectId) -> str:
        self._count += 1
        name = self._names[obj_id] = self._free(f"x{self._count}")
        return name

    # --- values -----------------------------------------------------------------------------------------------

    def value(self, value: Any) -> str:
        """Return a tree as an expression."""
        kind = type(value)
        if kind is Ref:
            name = self._names.get(value.id) or self._unknown(value.id)
            return name if value.attribute is None else f"{name}.{value.attribute}"
        if kind is BlobAt and self._call is not None:
            return self._blob(self._call.blobs[value.index])
        if kind is tuple:
            return f"({self._items(value)}{',' if len(value) == 1 else ''})"
        if kind is list:
            return f"[{self._items(value)}]"
        if kind is dict:
            shown = [f"{self.value(key)}: {self.value(item)}" for key, item in list(value.items())[:MAX_ITEMS]]
            return "{" + ", ".join(shown + [f"**{rest[1:]}" for rest in _rest(value)]) + "}"
        if kind is slice:
            return f"slice({self.value(value.start)}, {self.value(value.stop)}, {self.value(value.step)})"
        return literal(value)

    def _items(self, value: tuple[Any, ...] | list[Any]) -> str:
        return ", ".join([self.value(item) for item in value[:MAX_ITEMS]] + _rest(value))

    def _unknown(self, obj_id: ObjectId) -> str:
        name = self._names[obj_id] = self._free("unknown_1")
        self.inputs.append(f"{name}: an object of unknown origin")
        return name

    def _index(self, value: object) -> str:
        if type(value) is tuple and value and len(value) <= MAX_ITEMS:
            return ", ".join(map(self._index, value)) + ("," if len(value) == 1 else "")
        if type(value) is slice:
            start, stop, step = ("" if p is None else self.value(p) for p in (value.start, value.stop, value.step))
            return f"{start}:{stop}" + (f":{step}" if step else "")
        return self.value(value)

    # --- calls ------------------------------------------------------------------------------------------------

    def _statement(self, call: CallRecord) -> str:
        self._call = call
        name, args = call.name, call.args
        if name.endswith(".__set__") and len(args) == 2:
            return f"{self._operand(args[0])}.{name.split('.')[-2]} = {self.value(args[1])}"
        if name == "torch.Tensor.__setitem__" and len(args) == 3:
            return f"{self._operand(args[0])}[{self._index(args[1])}] = {self.value(args[2])}"
        sign = BINARY.get(effects.last_part(name).strip("_")[1:])
        if name.startswith("torch.Tensor.__i") and sign and type(args[0]) is Ref and len(args) == 2:
            if self._mentioned.isdisjoint(call.return_ids):
                return f"{self.value(args[0])} {sign}= {self.value(args[1])}"
        text = self._expression(call)  # before its results get names
        target = self._target(call)
        return f"{target} = {text}" if target else text

    def _target(self, call: CallRecord) -> str:
        """Return the names of the results that are used; `*_` stands for further results."""
        if not call.return_ids:
            return ""
        base = call.return_ids[0]
        ids = [base]
        for _ in range(max(self._last_index(base), len(call.return_ids) - 1)):
            ids.append(following_id(ids[-1]))
        while len(ids) > 1 and ids[-1] not in self._mentioned:
            ids.pop()
        several = len(ids) > 1 or effects.gives_several(call)
        if not any(obj_id in self._mentioned for obj_id in ids):
            return ""
        names = [self._result(obj_id) if obj_id in self._mentioned else "_" for obj_id in ids]
        return f"{', '.join(names)}, *_" if several else names[0]

    def _last_index(self, base: ObjectId) -> int:
        """Return the largest index of a result of a call that is used, at most 255."""
        found, obj_id = 0, base
        for index in range(1, 256):
            obj_id = following_id(obj_id)
            if obj_id in self._mentioned:
                found = index
        return found

    def _operand(self, value: object) -> str:
        """Return an expression that a dot or an operator can follow."""
        text = self.value(value)
        is_name = type(value) is Ref or type(value) is BlobAt
        is_positive = (type(value) is int or type(value) is float) and value >= 0
        return text if is_name or is_positive else f"({text})"

    def _expression(self, call: CallRecord) -> str:
        name, args = _ZEROED.get(call.name, call.name), call.args
        if name.startswith(("torch.Tensor.", "str.")) and args and not call.kwargs:
            short = self._operated(name, args)
            if short is not None:
                return short
        keywords = [f"{key}={self.value(value)}" for key, value in list(call.kwargs.items())[:MAX_ITEMS]]
        keywords += _rest(call.kwargs)
        texts = [self.value(arg) for arg in args[:MAX_ITEMS]] + _rest(args) + keywords
        if name == effects.RUN_PLAN and args:
            return f"{texts[0]}({', '.join(texts[1:])})"
        if name in (effects.COPY_PLAN, effects.PLAN_PARAMETERS) and args:
            return f"{texts[0]}.{'copy' if name == effects.COPY_PLAN else 'parameters'}()"
        is_method = name.startswith(("torch.Tensor.", "str.")) and name.count(".") == 1 + name.startswith("torch.")
        if is_method and args and type(args[0]) in (Ref, BlobAt):
            return f"{texts[0]}.{effects.last_part(name)}({', '.join(texts[1:])})"
        for prefix, short in _SPELLED.items():
            if name.startswith(prefix):
                name = short + name.removeprefix(prefix)
        return f"{name}({', '.join(texts)})"

    def _operated(self, name: str, args: tuple[Any, ...]) -> str | None:
        """Return a call that Python has an operator for, or None."""
        last = effects.last_part(name)
        if last == "__get__" and len(args) == 1:
            return f"{self._operand(args[0])}.{name.split('.')[-2]}"
        if last == "__getitem__" and len(args) == 2:
            return f"{self._operand(args[0])}[{self._index(args[1])}]"
        word = last.strip("_") if last.startswith("__") else last
        if len(args) == 1 and word in UNARY:
            return UNARY[word] + self._operand(args[0])
        if len(args) != 2:
            return None
        if last.startswith("__i") and word[1:] in BINARY and word not in BINARY:
            return None  # a statement; the name of the method says the same
        one, other = self._operand(args[0]), self._operand(args[1])
        if last.startswith("__r") and word[1:] in BINARY and word not in BINARY:
            return f"{other} {BINARY[word[1:]]} {one}"
        return f"{one} {BINARY[word]} {other}" if word in BINARY else None


def literal(value: object) -> str:
    """Return a leaf as an expression, cut if it is long."""
    if value is Ellipsis:
        return "..."
    if type(value) is Named:
        return repr(value.name) if value.kind == "device" else f"torch.{value.name}"
    if type(value) is Size:
        return f"torch.Size({list(value.sizes)})"
    if type(value) is float and not math.isfinite(value):
        return f"float('{value}')"
    if type(value) is complex:
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    text = ascii(value)
    return text if type(value) is not str or len(text) <= MAX_TEXT else f"{value[: MAX_TEXT // 2]!a} + ..."


def _rest(value: Iterable[Any]) -> list[str]:
    count = len(list(value))
    return [f"*more_{count - MAX_ITEMS}_items"] if count > MAX_ITEMS else []
