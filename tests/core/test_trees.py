"""The walk over nested arguments: every container, any depth, nothing lost."""

import collections
import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import syft as sy
from syft.core import trees
from syft.core.trees import is_leaf, iter_tensors, map_tensors, rebuild_tuple, register_leaf

ROWS = ("register_leaf", "is_leaf", "map_tensors", "rebuild_tuple", "iter_tensors")

Point = collections.namedtuple("Point", "x y")


class Leaf(sy.String.__mro__[1]):
    """An object of the library's, as any link is one."""

    def __init__(self, number):
        super().__init__()
        self.number = number


@dataclasses.dataclass
class Other:
    """Something the walk does not know."""

    tensor: object


def scalars():
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(max_size=3),
        st.binary(max_size=3),
        st.sampled_from([torch.float32, torch.Size([2, 3]), torch.device("cpu"), ..., torch.strided]),
    )


def containers(items):
    return st.one_of(
        st.lists(items, max_size=4),
        st.lists(items, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=2), items, max_size=3),
        st.tuples(items, items).map(lambda pair: Point(*pair)),
        st.tuples(items, items, items).map(lambda parts: slice(*parts)),
    )


trees_of_leaves = st.recursive(scalars() | st.integers(0, 99).map(Leaf), containers, max_leaves=20)


def leaves_of(value):
    """A second, naive walk to compare with."""
    if isinstance(value, Leaf):
        return [value]
    if isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return [leaf for item in value for leaf in leaves_of(item)]
    return []


@settings(max_examples=150, deadline=None)
@given(trees_of_leaves)
def test_the_identity_rebuilds_everything(tree):
    """Row: map_tensors."""
    again = map_tensors(lambda leaf: leaf, tree)
    assert again == tree
    assert type(again) is type(tree)
    assert list(map(id, leaves_of(again))) == list(map(id, leaves_of(tree)))


@settings(max_examples=150, deadline=None)
@given(trees_of_leaves)
def test_the_walk_meets_each_leaf_once_from_left_to_right(tree):
    """Rows: iter_tensors, map_tensors."""
    expected = leaves_of(tree)
    assert list(iter_tensors(tree)) == expected
    seen = []
    numbers = map_tensors(lambda leaf: seen.append(leaf) or leaf.number, tree)
    assert seen == expected
    assert list(iter_tensors(numbers)) == []


@pytest.mark.parametrize("depth", [1, 5, 60])
def test_any_depth(depth):
    tensor = torch.ones(1)
    tree = tensor
    for level in range(depth):
        tree = ([tree, 1], (tree,), {"a": tree})[level % 3]
    assert list(iter_tensors(tree)) == [tensor]
    doubled = map_tensors(lambda leaf: leaf + 1, tree)
    (found,) = iter_tensors(doubled)
    assert found.item() == 2


def test_containers_are_new_and_the_old_ones_untouched():
    tensor = torch.ones(1)
    tree = {"a": [tensor, (tensor, 3)]}
    changed = map_tensors(lambda leaf: "leaf", tree)
    assert changed == {"a": ["leaf", ("leaf", 3)]}
    assert tree["a"][0] is tensor


def test_return_types_of_torch_are_kept():
    """Row: rebuild_tuple."""
    result = torch.tensor([[3.0, 1.0], [0.0, 4.0]]).max(dim=1)
    again = map_tensors(lambda leaf: leaf * 10, result)
    assert type(again) is type(result)
    assert again.values.tolist() == [30, 40]
    assert again.indices.tolist() == [0, 10]
    assert type(rebuild_tuple(tuple, [1, 2])) is tuple
    assert rebuild_tuple(Point, [1, 2]) == Point(1, 2)


def test_a_shape_is_a_value_not_a_container():
    shape = torch.Size([2, 3])
    assert map_tensors(lambda leaf: None, shape) is shape
    assert list(iter_tensors([shape, (shape,)])) == []


def test_tensors_of_every_kind_are_leaves(hook, bob):
    """Row: is_leaf."""
    pointer = torch.ones(2).send(bob)
    kinds = [
        torch.ones(1),
        torch.nn.Parameter(torch.ones(1)),
        torch.nn.Buffer(torch.ones(1)),
        pointer,
        pointer.child,
        sy.LoggingTensor().on(torch.ones(1)),
        sy.LoggingTensor(),
        sy.String("x"),
    ]
    for value in kinds:
        assert is_leaf(value)
        assert [id(leaf) for leaf in iter_tensors([{"k": (value,)}])] == [id(value)]
    for value in (1, "x", None, [torch.ones(1)], {}, torch.float32, Other(torch.ones(1)), torch.nn.Linear(1, 1)):
        assert not is_leaf(value)


def test_unknown_values_are_leaves():
    other = Other(torch.ones(1))
    assert map_tensors(lambda leaf: None, [other])[0] is other
    assert list(iter_tensors([other])) == []


SUBCLASSES = [
    pytest.param(lambda t: type("MyList", (list,), {})([t, 1]), id="list"),
    pytest.param(lambda t: collections.OrderedDict(a=t, b=1), id="ordered-dict"),
    pytest.param(lambda t: collections.defaultdict(list, a=t), id="default-dict"),
    pytest.param(lambda t: type("MyTuple", (tuple,), {})((t, 1)), id="tuple"),
]


@pytest.mark.parametrize("make", SUBCLASSES)
def test_both_walks_agree_on_subclasses_of_containers(make):
    """A tensor that one walk finds and the other passes over would reach torch inside its shell."""
    tree = make(torch.ones(1))
    mapped = []
    map_tensors(lambda leaf: mapped.append(leaf), tree)
    assert list(iter_tensors(tree)) == mapped


@pytest.mark.parametrize("make", SUBCLASSES[:1] + SUBCLASSES[3:])
def test_pointers_inside_subclasses_of_sequences(hook, bob, make):
    there = make(torch.ones(1).send(bob))
    there = type(there)([there[0], there[0]])
    assert torch.cat(there).get().tolist() == [1, 1]


def test_new_leaves(monkeypatch):
    """Row: register_leaf."""
    monkeypatch.setattr(trees, "_LEAVES", trees._LEAVES)
    other = Other(1)
    assert not is_leaf(other)
    try:
        register_leaf(Other)
        assert is_leaf(other)
        assert map_tensors(lambda leaf: leaf.tensor, [other]) == [1]
    finally:
        monkeypatch.undo()
        trees._KNOWN.clear()
    assert not is_leaf(other)


def test_every_public_name_is_tried():
    """Rows: every public function of syft.core.trees."""
    public = {
        name
        for name, value in vars(trees).items()
        if getattr(value, "__module__", "") == trees.__name__ and not name.startswith("_")
    }
    assert public == set(ROWS)
