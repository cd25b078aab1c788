"""hook_args, in both documented generations: unwrap arguments, wrap responses, register responses."""

import collections
import csv
import importlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import syft as sy
from syft.core.tensor import AbstractTensor
from syft.exceptions import PureFrameworkTensorFoundError, RemoteObjectFoundError
from syft.hook import args as ha

PATHS = ("syft.generic.frameworks.hook.hook_args", "syft.frameworks.torch.hook_args")
INDEX = Path(__file__).parents[1] / "data" / "documented_api.tsv"
COVERED: set[str] = set()

Point = collections.namedtuple("Point", "x y")


def row(*names):
    """Note which documented rows a test is about."""

    def note(test):
        COVERED.update(names)
        return test

    return note


class Link(AbstractTensor):
    """A link with an argument that results inherit."""

    def __init__(self, scale=1, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale


class Foreign:
    """A kind of tensor that is unknown to the library."""

    def __init__(self, inner):
        self.inner = inner


def link(value=1.0, scale=1):
    return Link(scale).on(torch.tensor(value), wrap=False)


@pytest.fixture
def registries():
    """Undo what a test puts into the registries."""
    tables = [
        ha.hook_method_args_functions, ha.hook_method_response_functions, ha.get_tensor_type_functions,
        ha.register_response_functions, ha.base_types, ha.type_rule, ha.forward_func, ha.backward_func,
        ha.ambiguous_methods, ha.ambiguous_functions,
    ]  # fmt: skip
    before = [table.copy() for table in tables]
    yield
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


# The rows -----------------------------------------------------------------------------------------------


def documented():
    with INDEX.open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    return [(module, name.partition("(")[0]) for module, name in rows if module in PATHS]


def test_every_documented_row_has_a_test():
    rows = documented()
    assert len(rows) == 48 + 29
    assert {name for _, name in rows} - COVERED == set()
    assert COVERED - {name for _, name in rows} == set()


@pytest.mark.parametrize(("path", "name"), documented())
def test_both_generations_are_one_module(path, name):
    module = importlib.import_module(path)
    assert module is ha
    found = getattr(module, name)
    if callable(found):
        assert found.__doc__


OLD_NAMES = {
    "hook_method_args": "unwrap_args_from_method",
    "hook_function_args": "unwrap_args_from_function",
    "build_hook_args_function": "build_unwrap_args_from_function",
    "build_hook_response_function": "build_wrap_reponse_from_function",
    "build_args_hook": "build_unwrap_args_with_rules",
    "build_response_hook": "build_wrap_response_with_rules",
}


@row(*OLD_NAMES)
@pytest.mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_old_names_are_the_new_functions(old, new):
    assert getattr(ha, old) is getattr(ha, new)


# Rules --------------------------------------------------------------------------------------------------


@row("build_rule", "one", "type_rule")
def test_the_documented_rule(hook, bob):
    """in: ([tensor(1, 2), Pointer@bob], 42) out: ([1, 1], 0)"""
    pointer = torch.ones(1).send(bob)
    assert ha.build_rule(([torch.tensor([1, 2]), pointer], 42)) == ([1, 1], 0)
    assert ha.build_rule(([torch.tensor([1, 2]), pointer.child], 42)) == ([1, 1], 0)
    assert ha.one("anything") == 1
    assert ha.type_rule[torch.Tensor] is ha.type_rule[torch.nn.Parameter] is ha.one


@pytest.mark.parametrize(
    ("args", "rule"),
    [
        ((), ()),
        ([], []),
        (3, 0),
        ((link(), 3, "x", None, 2.5, True, ..., b"b", slice(1)), (1, 0, 0, 0, 0, 0, 0, 0, 0)),
        ((torch.nn.Parameter(torch.ones(1)), torch.float32, torch.Size([1])), (1, 0, 0)),
        (([[[[[link()]]]]],), ([[[[[1]]]]],)),
        (({"a": link(), "b": (1, link())},), ({"a": 1, "b": (0, 1)},)),
        ((Point(link(), 2),), (Point(1, 0),)),
        ((np.ones(2), 5), (1, 0)),
    ],
)
@row("base_types")
def test_rules_mirror_their_arguments(args, rule):
    built = ha.build_rule(args)
    assert built == rule
    assert type(built) is type(rule)
    assert {int, float, str, bool, bytes, type(None), torch.dtype, torch.Size} <= ha.base_types


@row("register_type_rule", "register_forward_func", "forward_func")
def test_a_new_kind_of_tensor(registries):
    ha.register_type_rule({Foreign: ha.one})
    ha.register_forward_func({Foreign: lambda foreign: foreign.inner})
    assert ha.build_rule((Foreign(3), [Foreign(4)], 5)) == (1, [1], 0)
    assert ha.unwrap_args_from_method("add", link(1.0), (Foreign("in"), [Foreign("deep")]), {"k": Foreign(1)})[1:] == (
        ("in", ["deep"]),
        {"k": 1},
    )
    assert ha.unwrap_args_from_function("torch.add", (Foreign("in"), 1), {}) == (("in", 1), {}, str)
    assert ha.build_unwrap_args_from_function((Foreign(1), 2))((Foreign("in"), 2)) == ("in", 2)


def test_a_kind_of_tensor_may_say_what_its_rule_is(registries):
    ha.register_type_rule({Foreign: lambda foreign: foreign.inner})
    assert ha.build_rule((Foreign(0), Foreign(1))) == (0, 1)


@row("get_child")
def test_get_child():
    assert ha.get_child(link(4.0)) == 4.0


@row("default_register_tensor", "register_backward_func", "backward_func", "default_backward_func")
def test_default_registration(registries):
    class Other(Link):
        pass

    class Another(Link):
        pass

    ha.default_register_tensor(Other, Another)
    for kind in (Other, Another):
        assert ha.type_rule[kind] is ha.one
        assert ha.forward_func[kind] is ha.get_child
        made = ha.backward_func[kind](torch.ones(2), scale=5)
        assert type(made) is kind
        assert made.scale == 5
        assert made.child.tolist() == [1, 1]
    made = ha.default_backward_func(Other)(torch.zeros(1))
    assert type(made) is Other
    ha.register_backward_func({Other: lambda result, **kwargs: ("mine", kwargs)})
    assert ha.hook_response("f", torch.ones(1), Other, {"scale": 2}) == ("mine", {"scale": 2})
    assert ha.build_wrap_reponse_from_function((1, torch.ones(1)), Other, {})((1, torch.ones(1))) == (1, ("mine", {}))


@row("ambiguous_methods", "ambiguous_functions", "register_ambiguous_method", "register_ambiguous_function")
def test_ambiguous_names_are_noted_and_change_nothing(registries):
    ha.register_ambiguous_method("my_method", "other_method")
    ha.register_ambiguous_function("torch.my_function")
    assert {"my_method", "other_method", "__getitem__"} <= ha.ambiguous_methods
    assert {"torch.my_function", "torch.cat"} <= ha.ambiguous_functions
    assert ha.unwrap_args_from_method("my_method", link(2.0), (link(3.0),), {}) == (2, (3,), {})


# Layers and folds ---------------------------------------------------------------------------------------


@row("one_layer", "two_layers", "three_layers", "four_layers", "get_element_at")
def test_documented_layer_positions():
    """obj = (a, [b, (c, d)], e): a [0], b [1, 0], c [1, 1, 0], d [1, 1, 1], e [2]"""
    obj = ("a", ["b", ("c", "d")], "e")
    assert ha.one_layer(0)(obj) == "a"
    assert ha.two_layers(1, 0)(obj) == "b"
    assert ha.three_layers(1, 1, 0)(obj) == "c"
    assert ha.three_layers(1, 1, 1)(obj) == "d"
    assert ha.one_layer(2)(obj) == "e"
    assert ha.four_layers(0, 1, 0, 2)([[0, [(0, 0, "deep")]]]) == "deep"
    for layer in ([0], [1, 0], [1, 1, 0]):
        assert ha.get_element_at[len(layer)](*layer)(obj) == "abc"[len(layer) - 1]
    assert set(ha.get_element_at) == {1, 2, 3, 4}


@row("build_get_tensor_type")
def test_the_type_of_the_first_tensor():
    """rules = (0, [1, (0, 0)], 0): the type of x[1][0]"""
    find = ha.build_get_tensor_type((0, [1, (0, 0)], 0))
    assert find((3, [link(), (1, 2)], 4)) is torch.Tensor
    assert find((3, [Link().on(link(), wrap=False), (1, 2)], 4)) is Link
    assert find((3, [torch.ones(1), (1, 2)], 4)) is torch.Tensor
    assert ha.build_get_tensor_type((0, [0, ()], 0)) is None
    assert ha.build_get_tensor_type((1,), layer=[0])([(link(),)]) is torch.Tensor
    deep = ha.build_get_tensor_type(([[[[[0, 1]]]]],))
    assert deep(([[[[[0, Link().on(link(), wrap=False)]]]]],)) is Link


FOLDS = "zero_fold one_fold two_fold three_fold four_fold five_fold six_fold seven_fold eight_fold".split()


@row(*FOLDS, "many_fold")
def test_folds_apply_functions_one_by_one():
    def plus(offset):
        return lambda value, factor=1: (value + offset) * factor

    for count, name in enumerate(FOLDS):
        lambdas, args = [plus(10 * i) for i in range(count)], list(range(count))
        expected = tuple(11 * i for i in range(count))
        fold = getattr(ha, name)
        if name == "one_fold":
            assert fold(True)(lambdas, args) == (0,)
            assert fold(False)(lambdas, args) == 0
            assert fold(return_tuple=True)([plus(1)], [2], factor=3) == (9,)
            continue
        assert fold(lambdas, args) == expected
        assert fold(lambdas, args, factor=2) == tuple(2 * value for value in expected)
        assert ha.many_fold(lambdas, args) == expected
        assert ha.many_fold(lambdas, args, factor=2) == tuple(2 * value for value in expected)
    with pytest.raises(ValueError, match="shorter"):
        ha.many_fold([plus(1), plus(2)], [1])


@row("typed_identity")
def test_typed_identity():
    identity = ha.typed_identity(3)
    assert identity(4) == 4
    tensor = torch.ones(1)
    assert ha.typed_identity(tensor)(tensor) is tensor
    for value, expected in ((torch.ones(1), "Tensor"), ("x", "str"), (2.5, "float"), (None, "NoneType")):
        with pytest.raises(TypeError, match=f"expected a int, got a {expected}"):
            identity(value)


# Unwrapping ---------------------------------------------------------------------------------------------


@row("unwrap_args_from_method")
def test_unwrap_a_method(hook):
    new_self, args, kwargs = ha.unwrap_args_from_method(
        "add", link(1.0), (link(2.0), 3, "x", [link(4.0)]), {"alpha": 2, "other": link(5.0), "deep": {"k": [link(6.0)]}}
    )
    assert new_self == 1
    assert args == (2, 3, "x", [4])
    assert kwargs == {"alpha": 2, "other": 5, "deep": {"k": [6]}}
    shell = link(7.0).wrap()
    assert ha.unwrap_args_from_method("add", shell, (shell,), {}) == (shell.child, (shell.child,), {})


@row("unwrap_args_from_function")
def test_unwrap_a_function(hook):
    args, kwargs, kind = ha.unwrap_args_from_function("torch.add", (3, [link(1.0)]), {"other": link(2.0)})
    assert (args, kwargs, kind) == ((3, [1]), {"other": 2}, torch.Tensor)
    chain = Link().on(link(1.0), wrap=False).wrap()
    *_, below, given = ha.unwrap_args_from_function("torch.relu", (chain,), {}, return_args_type=True)
    assert (below, given) == (Link, type(chain))
    *_, below, given = ha.unwrap_args_from_function("torch.relu", (chain.child,), {}, return_args_type=True)
    assert (below, given) == (Link, Link)
    assert ha.unwrap_args_from_function("f", (), {"only": [link(2.0)]}) == ((), {"only": [2]}, torch.Tensor)
    # A plain tensor may come first.
    mixed, _, kind = ha.unwrap_args_from_function("f", (torch.zeros(1), link(2.0)), {})
    assert mixed == (torch.zeros(1), 2)
    assert kind is torch.Tensor


def test_no_argument_is_ever_dropped():
    """The 0.2 cache was keyed by the name of the method: a second signature lost its arguments."""
    calls = [
        (link(1.0),), (), (1,), (link(1.0), link(2.0)), ([link(1.0), 2],), ("a", 1, link(3.0)), (None,), ((),),
        (link(1.0), 2, 3), ([],), ({"a": link(1.0)},), (2.5, [link(1.0), (link(2.0), 4)]),
    ]  # fmt: skip
    strip = [ha.unwrap_args_from_method("div", link(), args, {})[1] for args in calls]
    again = [ha.unwrap_args_from_method("div", link(), args, {})[1] for args in reversed(calls)][::-1]
    expected = [
        (1,), (), (1,), (1, 2), ([1, 2],), ("a", 1, 3), (None,), ((),), (1, 2, 3), ([],),
        ({"a": 1},), (2.5, [1, (2, 4)]),
    ]  # fmt: skip
    assert strip == again == expected
    for args in calls:
        new_args, *_ = ha.unwrap_args_from_function("torch.div", (link(0.0), *args), {})
        assert new_args == (0, *expected[calls.index(args)])


def test_two_signatures_of_one_method_on_a_chain(hook, capsys):
    x = sy.LoggingTensor().on(torch.tensor([4.0, 6.0]))
    for _ in range(2):
        assert x.add(1).child.child.tolist() == [5, 7]
        assert x.add(x, alpha=2).child.child.tolist() == [12, 18]
        assert x.add(torch.ones(2)).child.child.tolist() == [5, 7]
        assert x.div(2).child.child.tolist() == [2, 3]
        assert x.div(x, rounding_mode="floor").child.child.tolist() == [1, 1]
        assert torch.add(x, 1).child.child.tolist() == [5, 7]
        assert torch.add(input=x, other=x).child.child.tolist() == [8, 12]
        assert x.max(dim=0).values.child.child.item() == 6
        assert x.max().child.child.item() == 6
        assert x.max(x).child.child.tolist() == [4, 6]


@row("hook_method_args_functions", "get_tensor_type_functions")
def test_entries_of_the_registries_are_used(registries):
    ha.hook_method_args_functions["Link.add"] = lambda args: ("mine", *args)
    assert ha.unwrap_args_from_method("add", link(1.0), (2,), {}) == (1, ("mine", 2), {})
    assert ha.unwrap_args_from_method("sub", link(1.0), (2,), {}) == (1, (2,), {})
    ha.hook_method_args_functions["torch.add"] = lambda args: "mine"
    assert ha.unwrap_args_from_function("torch.add", (link(1.0),), {})[0] == "mine"
    ha.get_tensor_type_functions["torch.add"] = lambda args: Foreign
    assert ha.unwrap_args_from_function("torch.add", (link(1.0),), {})[2] is Foreign
    assert ha.unwrap_args_from_function("torch.sub", (link(1.0),), {})[2] is torch.Tensor


@row("build_unwrap_args_from_function", "build_unwrap_args_with_rules")
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((link(1.0), 2), (1, 2)),
        ((link(1.0), [link(2.0), "x"], (3, (link(4.0),))), (1, [2, "x"], (3, (4,)))),
        ((5, {"a": link(1.0), "b": [link(2.0)]}), (5, {"a": 1, "b": [2]})),
        ((5, Point(link(1.0), 2)), (5, Point(1, 2))),
        (([[[[[[link(1.0), 7]]]]]], 0), ([[[[[[1, 7]]]]]], 0)),
    ],
)
def test_build_the_function_that_unwraps(args, expected):
    for function in (
        ha.build_unwrap_args_from_function(args),
        ha.build_unwrap_args_from_function(args, return_tuple=True),
        ha.build_unwrap_args_with_rules(args, ha.build_rule(args)),
    ):
        result = function(args)
        assert result == expected
        assert type(result[1]) is type(expected[1])


def test_a_single_argument_comes_bare_unless_a_tuple_is_asked_for():
    args = (link(1.0),)
    assert ha.build_unwrap_args_from_function(args)(args) == 1
    assert ha.build_unwrap_args_from_function(args, return_tuple=True)(args) == (1,)
    assert ha.build_unwrap_args_with_rules([[link(1.0)]], [[1]])([[link(2.0)]]) == [2]


def test_a_built_function_refuses_another_number_of_arguments():
    function = ha.build_unwrap_args_from_function((link(1.0), 2))
    with pytest.raises(ValueError, match="argument"):
        function((link(1.0), 2, 3))


def test_pointers_say_that_they_are_remote(hook, bob):
    """Pointers trigger an error which can be caught to get the location for forwarding the call."""
    pointer = torch.ones(1).send(bob).child
    for unwrap in (
        lambda: ha.build_unwrap_args_from_function((pointer, 1))((pointer, 1)),
        lambda: ha.build_unwrap_args_from_function((1, [pointer]))((1, [pointer])),
        lambda: ha.unwrap_args_from_function("torch.add", (pointer, 1), {}),
    ):
        with pytest.raises(RemoteObjectFoundError, match=r"is remote; call \.get\(\)") as caught:
            unwrap()
        assert caught.value.pointer is pointer
        assert caught.value.pointer.location is bob


@pytest.mark.parametrize("args", [(), (3,), (torch.ones(1),), ([torch.ones(1)], {"a": torch.ones(1)})])
def test_calls_without_a_link_get_a_clear_error(args):
    with pytest.raises(PureFrameworkTensorFoundError, match=r"torch\.add .* no syft tensor among the arguments"):
        ha.unwrap_args_from_function("torch.add", args, {})


# Wrapping -----------------------------------------------------------------------------------------------


@row("hook_response")
def test_wrap_a_response():
    response = (torch.ones(1), 3, [torch.zeros(1), "x"], {"k": torch.ones(2)}, None)
    wrapped = ha.hook_response("split", response, Link, {"scale": 4})
    assert [type(part) for part in wrapped] == [Link, int, list, dict, type(None)]
    for made in (wrapped[0], wrapped[2][0], wrapped[3]["k"]):
        assert type(made) is Link
        assert made.scale == 4
    assert wrapped[0].child is response[0]
    assert ha.hook_response("item", 3, Link) == 3
    assert type(ha.hook_response("f", link(), Link).child) is Link


def test_wrap_what_torch_returns():
    wrapped = ha.hook_response("max", torch.ones(2, 2).max(dim=0), Link)
    assert type(wrapped) is torch.return_types.max
    assert type(wrapped.values) is type(wrapped.indices) is Link


def test_wrap_in_a_shell(hook):
    bare = link(3.0)
    assert ha.hook_response("f", bare, torch.Tensor).child is bare
    plain = torch.ones(1)
    assert ha.hook_response("f", plain, torch.Tensor) is plain
    assert isinstance(ha.hook_response("f", plain, torch.nn.Parameter), torch.nn.Parameter)


def test_an_in_place_call_gives_back_its_own_link():
    x, below = link(1.0), torch.tensor(5.0)
    assert ha.hook_response("add_", below, Link, new_self=x) is x
    assert x.child is below
    assert ha.hook_response("add", below, Link, new_self=x) is not x
    assert ha.hook_response("__add__", below, Link, new_self=x) is not x


@row("hook_method_response_functions")
def test_an_entry_for_a_response_is_used(registries):
    ha.hook_method_response_functions["add@Link"] = lambda response: ("mine", response)
    assert ha.hook_response("add", 1, Link) == ("mine", 1)
    assert ha.hook_response("sub", 1, Link) == 1


@row("build_wrap_reponse_from_function", "build_wrap_response_with_rules")
def test_build_the_function_that_wraps(hook, bob):
    """p is of type Pointer, f is the hook_response_function, then f(p) = (Wrapper)>Pointer"""
    pointer = torch.ones(1).send(bob).child
    shell = ha.build_wrap_reponse_from_function(pointer, torch.Tensor, {})(pointer)
    assert isinstance(shell, torch.Tensor)
    assert shell.child is pointer
    response = (1, torch.ones(1), [torch.zeros(1)], {"k": torch.ones(2)}, Point(torch.ones(3), 2))
    wrapped = ha.build_wrap_response_with_rules(response, ha.build_rule(response), Link, {"scale": 2})(response)
    assert wrapped[0] == 1
    made = [wrapped[1], wrapped[2][0], wrapped[3]["k"], wrapped[4].x]
    assert [type(part) for part in made] == [Link] * 4
    assert [part.scale for part in made] == [2] * 4
    assert type(wrapped[4]) is Point
    one = (torch.ones(1),)
    build = ha.build_wrap_response_with_rules
    assert type(build(one, (1,), Link, {})(one)) is Link
    assert type(build(one, (1,), Link, {}, return_tuple=True)(one)) is tuple
    for some in (one, list(one), (torch.ones(1), torch.ones(1))):
        listed = build(some, ha.build_rule(some), Link, None, return_list=True)(some)
        assert [type(part) for part in listed] == [Link] * len(some)
        assert type(listed) is list


# There and back -----------------------------------------------------------------------------------------

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.just(torch.float32)
)
values = st.floats(-9, 9, width=32)
nested = st.recursive(
    scalars | values.map(link),
    lambda items: st.one_of(
        st.lists(items, max_size=4),
        st.lists(items, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=2), items, max_size=3),
        st.tuples(items, items).map(lambda pair: Point(*pair)),
    ),
    max_leaves=15,
)


def picture(value):
    """The structure of nested arguments, links and their children distinguished."""
    if isinstance(value, Link):
        return ("link", value.scale, picture(value.child))
    if isinstance(value, torch.Tensor):
        return ("tensor", value.item())
    if isinstance(value, tuple | list):
        return (type(value), [picture(item) for item in value])
    if isinstance(value, dict):
        return (dict, [(key, picture(item)) for key, item in value.items()])
    return (type(value), value)


@settings(max_examples=150, deadline=None)
@given(st.lists(nested, max_size=5).map(tuple), st.dictionaries(st.text(max_size=2), nested, max_size=2))
def test_unwrap_then_wrap_gives_the_same_structure(args, kwargs):
    _, inner_args, inner_kwargs = ha.unwrap_args_from_method("f", link(), args, kwargs)
    assert "link" not in str(picture((inner_args, inner_kwargs)))
    assert picture(ha.hook_response("f", inner_args, Link)) == picture(args)
    assert picture(ha.hook_response("f", inner_kwargs, Link)) == picture(kwargs)
    assert ha.build_rule(inner_args) == ha.build_rule(args)
    rules = ha.build_rule(args)
    built = ha.build_unwrap_args_with_rules(args, rules, return_tuple=True)(args)
    assert picture(built) == picture(inner_args)
    back = ha.build_wrap_response_with_rules(built, rules, Link, {}, return_tuple=True)(built)
    assert picture(back) == picture(args)


# Registering --------------------------------------------------------------------------------------------


@row("register_tensor")
@pytest.mark.parametrize("order", ["new", "old", "names"])
def test_register_a_tensor(hook, bob, order):
    tensor, ids = torch.tensor([1.0, 2.0]), ["other", "mine"]
    if order == "new":
        pointer = ha.register_tensor(tensor, bob, ids)
    elif order == "old":
        pointer = ha.register_tensor(tensor, ids, bob)
    else:
        pointer = ha.register_tensor(tensor, response_ids=ids, owner=bob)
    assert ids == ["other"], "each id is popped when needed"
    assert (pointer.location, pointer.id_at_location) == (bob, "mine")
    assert bob.get_obj("mine") is tensor
    del pointer
    assert bob.get_obj("mine") is tensor, "who registers does not own"


@pytest.mark.parametrize("call", [lambda t, w: ha.register_tensor(t, w), lambda t, w: ha.register_tensor(t, [], w)])
def test_register_under_its_own_id(hook, bob, call):
    tensor = torch.ones(1)
    pointer = call(tensor, bob)
    assert bob.get_obj(tensor.id) is tensor
    assert pointer.id_at_location == tensor.id


@row("register_response")
@pytest.mark.parametrize("ids", [["a", "b", "c"], ("a", "b", "c")])
def test_register_a_response(hook, bob, ids):
    tensors = torch.ones(1), torch.zeros(2), torch.ones(3)
    response = (1, tensors[0], [tensors[1], "x"], {"k": tensors[2]})
    pointers = ha.register_response("f", response, ids, bob)
    assert pointers[0] == 1
    found = [pointers[1], pointers[2][0], pointers[3]["k"]]
    assert pointers[2][1] == "x"
    assert [pointer.id_at_location for pointer in found] == ["a", "b", "c"]
    assert all(bob.get_obj(name) is tensor for name, tensor in zip("abc", tensors, strict=True))
    assert list(ids) == ["a", "b", "c"], "the caller's ids stay the caller's"
    assert ha.register_response("item", 3.5, ids, bob) == 3.5
    single = torch.ones(4)
    pointer = ha.register_response("f", single, ["d"], bob)
    assert isinstance(pointer, sy.PointerTensor)
    assert bob.get_obj("d") is single


def test_register_responses_of_two_forms_under_one_name(hook, bob):
    first = ha.register_response("max", torch.ones(1), ["a"], bob)
    second = ha.register_response("max", torch.ones(2, 2).max(dim=0), ["b", "c"], bob)
    assert first.id_at_location == "a"
    assert type(second) is torch.return_types.max
    assert [second.values.id_at_location, second.indices.id_at_location] == ["b", "c"]


@row("register_response_functions")
def test_an_entry_for_registering_is_used(registries, hook, bob):
    ha.register_response_functions["f"] = lambda response, response_ids, owner: (response, response_ids, owner)
    assert ha.register_response("f", 1, ["a", "b"], bob) == (1, ["b", "a"], bob), "to pop() from: the first is last"


@row("build_register_response", "build_register_response_function")
def test_build_the_function_that_registers(hook, bob):
    """(1, tensor([1, 2])) is the response, f is the register_response_function, then f(p) = (1, Pointer)"""
    response = (1, torch.tensor([1, 2]))
    number, pointer = ha.build_register_response_function(response)(response, response_ids=["a"], owner=bob)
    assert number == 1
    assert pointer.location is bob
    assert bob.get_obj("a") is response[1]
    nested = ([torch.ones(1), 5], {"k": torch.ones(2)})
    register = ha.build_register_response(nested, ha.build_rule(nested))
    (first, five), named = register(nested, response_ids=["c", "b"], owner=bob)
    assert (first.id_at_location, five, named["k"].id_at_location) == ("b", 5, "c")
    one = (torch.ones(1),)
    bare = ha.build_register_response(one, (1,))(one, response_ids=["d"], owner=bob)
    assert bare.id_at_location == "d"
    kept = ha.build_register_response(one, (1,), return_tuple=True)(one, response_ids=["e"], owner=bob)
    assert kept[0].id_at_location == "e"
