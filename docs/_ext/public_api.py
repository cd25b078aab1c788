"""Directives of the API pages: public names of a package, and the methods that the hook adds to torch.

.. public-names:: syft.mpc

   serve connect ServedModel

A test compares the names on the pages with the public names of the library.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature
from sphinx.util.parsing import nested_parse_to_nodes


class Names(SphinxDirective):
    """Documents public names of a package from their docstrings."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the documentation of each name."""
        package = self.arguments[0]
        lines = [line for name in " ".join(self.content).split() for line in self._entry(package, name)]
        return nested_parse_to_nodes(self.state, StringList(lines, package))

    def _entry(self, package: str, name: str) -> list[str]:
        found = getattr(import_module(package), name)
        path = f"{package}.{name}"
        if isinstance(found, type):
            options = ["   :members:", "   :show-inheritance:"]
            return [f".. autoclass:: {path}", *options, ""]
        if inspect.isfunction(found):
            return [f".. autofunction:: {path}", ""]
        text = found.__doc__ if inspect.ismodule(found) else type(found).__doc__
        first = " ".join((text or "").strip().split("\n\n")[0].split())
        kind = "module" if inspect.ismodule(found) else type(found).__name__
        return [f".. py:data:: {path}", f"   :type: {kind}", "", f"   {first}", ""]


class HookMethods(SphinxDirective):
    """Documents the methods that `sy.TorchHook(torch)` adds to a class of torch."""

    required_arguments = 1  # tensor, module or dataset

    def run(self) -> list[nodes.Node]:
        """Return the documentation of each method."""
        from syft.hook import base
        from syft.hook.torch_hook import _public

        import_module("syft").TorchHook  # noqa: B018 - the import registers the methods
        classes, target = {
            "tensor": (base.tensor_methods, "torch.Tensor"),
            "module": (base.module_methods, "torch.nn.Module"),
            "dataset": (base.dataset_methods, "torch.utils.data.Dataset"),
        }[self.arguments[0]]
        found = dict(_public(classes))
        lines = [line for name in sorted(found) for line in self._entry(target, name, found[name])]
        return nested_parse_to_nodes(self.state, StringList(lines, target))

    def _entry(self, target: str, name: str, value: Any) -> list[str]:
        doc = GoogleDocstring(inspect.getdoc(value) or "", self.config, what="method").lines()
        body = ["", *(f"   {line}" for line in doc), ""]
        if not callable(value):
            return [f".. py:attribute:: {target}.{name}", *body]
        signature = inspect.signature(value)
        rest = signature.replace(parameters=[p for p in signature.parameters.values() if p.name not in ("self", "cls")])
        return [f".. py:method:: {target}.{name}{stringify_signature(rest, unqualified_typehints=True)}", *body]


class ErrorTree(SphinxDirective):
    """Shows the errors as a tree, each with a link to its section of the manual, then their classes."""

    def run(self) -> list[nodes.Node]:
        """Return the tree and the documentation of the classes."""
        from syft import exceptions

        lists = {0: nodes.bullet_list()}
        lines = []
        for line in (exceptions.__doc__ or "").splitlines():
            found = re.match(r"    ([│ ├└─]*)(\w+Error) +(SY\d{3})", line)
            if not found:
                continue
            depth = len(found[1]) // 4
            lists[depth].append(self._item(found[2], found[3]))
            lists[depth + 1] = nodes.bullet_list()
            lists[depth][-1].append(lists[depth + 1])
            lines += [f".. autoexception:: syft.exceptions.{found[2]}", "   :members:", "   :show-inheritance:", ""]
        for empty in [found for found in lists[0].findall(nodes.bullet_list) if not found.children]:
            empty.parent.remove(empty)
        return [lists[0], *nested_parse_to_nodes(self.state, StringList(lines, "syft.exceptions"))]

    def _item(self, name: str, code: str) -> nodes.list_item:
        uri = self.env.app.builder.get_relative_uri(self.env.docname, "errors") + f"#{code.lower()}"
        link = nodes.reference("", "", nodes.Text(name), refuri=uri, internal=True)
        return nodes.list_item("", nodes.paragraph("", "", link, nodes.Text(f" {code}")))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_directive("public-names", Names)
    app.add_directive("hook-methods", HookMethods)
    app.add_directive("error-tree", ErrorTree)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
