"""TorchHook: it only adds methods, and unhook() removes all of them."""

import abc
import copy
import io
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import syft as sy
from syft.exceptions import SyftError
from syft.frameworks.torch import hook as old_home
from syft.frameworks.torch.hook import hook as home
from syft.generic.frameworks.hook import hook as framework
from syft.hook.patches import Computed, Patches
from syft.tensors.identity import IdentityMethods
from syft.tensors.native import TorchTensor
from syft.tensors.private import PrivateMethods
from tests.helpers import warm_processes as warm
from tests.helpers.documented_rows import Rows

MODULES = ("syft.frameworks.torch.hook.hook", "syft.frameworks.torch.hook", "syft.generic.frameworks.hook.hook")
row = Rows(*MODULES)


def test_every_documented_row_has_a_test():
    row.check(24)


@row("TorchHook", "FrameworkHook")
def test_both_generations_are_one_class(hook):
    assert home.TorchHook is old_home.TorchHook is sy.TorchHook
    assert issubclass(sy.TorchHook, framework.FrameworkHook)
    assert issubclass(framework.FrameworkHook, abc.ABC)
    with pytest.raises(TypeError, match="abstract"):
        framework.FrameworkHook(torch)


# Only adding --------------------------------------------------------------------------------------------

PICTURE = """
import gc, sys, warnings
import torch

def picture():
    places = [torch, torch.Tensor, torch._C.TensorBase, torch.nn, torch.nn.functional, torch.nn.Module,
              torch.nn.Parameter, torch.optim, torch.optim.Optimizer, torch.autograd, torch.utils.data.Dataset,
              torch.utils.data.DataLoader, torch.functional, torch.nn.utils, torch._tensor, torch.overrides]
    shot = {}
    for place in places:
        # __slotnames__ is Python's own cache of copyreg, filled when any tensor is copied or swapped
        shot[place.__name__, None] = tuple(name for name in place.__dict__ if name != "__slotnames__")
        for name in dir(place):
            if name in ("__dict__", "__weakref__", "__doc__", "__annotations__", "__subclasshook__",
                        "__init_subclass__", "__dir__", "__warningregistry__", "__slotnames__"):
                continue
            value = place.__dict__.get(name, None)
            shot[place.__name__, name] = value if name in place.__dict__ else getattr(place, name)
    shot["step hooks", None] = len(sys.modules[torch.optim.Optimizer.__module__]._global_optimizer_pre_hooks)
    return shot

def same(a, b):
    try:
        return a is b or bool(a == b)
    except Exception:
        return False

import torch.overrides
torch.overrides.get_testing_overrides()  # fills caches of torch's own
before = picture()
"""

ADDITIVE = (
    PICTURE
    + """
import syft as sy
imported = picture()
assert imported.keys() == before.keys()
changed = [key for key in before if not same(before[key], imported[key])]
assert not changed, ("import syft", changed)

for attempt in range(3):
    hook = sy.TorchHook(torch)
    hooked = picture()
    lost = before.keys() - hooked.keys()
    assert not lost, lost
    changed = {key for key in before if key[1] is not None and not same(before[key], hooked[key])}
    shown = {("Module", "__repr__"), ("Optimizer", "__repr__")}
    assert changed == {("torch", "tensor"), *shown}, changed
    added = {key for key in hooked.keys() - before.keys()}
    assert ("Tensor", "send") in added and ("Module", "send") in added and ("torch", "native_add") in added
    assert ("torch", "torch_hooked") in added
    order = {key: value for key, value in before.items() if key[1] is None and key[0] != "step hooks"}
    for key, names in order.items():
        assert hooked[key][:len(names)] == names, "what was there keeps its place"

    again = sy.TorchHook(torch)
    twice = picture()
    assert twice.keys() == hooked.keys()
    assert all(same(twice[key], hooked[key]) for key in hooked)

    bob = sy.VirtualWorker(hook, id=f"bob{attempt}")
    model = torch.nn.Linear(2, 1)
    model.send(bob)
    model(torch.ones(1, 2).send(bob)).get()
    model.get()
    assert torch.tensor([1.0], owner=bob, id="x").id == "x"

    (hook if attempt % 2 else again).unhook()
    after = picture()
    assert after.keys() == before.keys(), after.keys() ^ before.keys()
    for key in before:
        assert type(after[key]) is type(before[key]) and same(after[key], before[key]), key
        if key[1] is not None and not isinstance(before[key], (int, str, float, tuple, list, dict, set)):
            stable = getattr(before[key], "__self__", None) is None
            assert after[key] is before[key] or not stable or before[key] == after[key], key
    again.unhook()  # a second time is a no-op
    assert not hasattr(torch.Tensor, "send") and not hasattr(torch, "native_add")
    assert sy.local_worker is None
    try:
        torch.tensor([1.0], id="x")
    except TypeError:
        pass
    else:
        raise AssertionError("torch.tensor still takes an id")
print("as before")
"""
)


@row("TorchHook._hook_optim")
def test_the_hook_only_adds_and_takes_everything_back():
    done = subprocess.run([sys.executable, "-c", ADDITIVE], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[-2] == "as before"


def test_importing_prints_nothing_and_draws_no_random_numbers():
    code = (
        "import random, torch\n"
        "torch.manual_seed(1); random.seed(1)\n"
        "states = torch.get_rng_state(), random.getstate()\n"
        "import syft as sy\n"
        "assert torch.equal(torch.get_rng_state(), states[0]) and random.getstate() == states[1]\n"
        "assert sy.local_worker is None\n"
        "assert not hasattr(torch, 'torch_hooked') and not hasattr(torch.Tensor, 'send')\n"
        "sy.TorchHook(torch)\n"
        "assert torch.equal(torch.get_rng_state(), states[0]) and random.getstate() == states[1]\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_hooking_twice_is_a_no_op(hook):
    names = set(dir(torch.Tensor)), set(dir(torch)), set(dir(nn.Module))
    patched = torch.tensor
    again = sy.TorchHook(torch, verbose=False, is_client=False)
    assert again.local_worker is hook.local_worker
    assert again.attributes is hook.attributes
    assert torch.tensor is patched
    assert (set(dir(torch.Tensor)), set(dir(torch)), set(dir(nn.Module))) == names


def test_arguments(hook):
    assert sy.TorchHook().local_worker is hook.local_worker  # torch is the default
    with pytest.raises(SyftError, match=r"sy\.TorchHook\(torch\)"):
        sy.TorchHook(sys)


def test_a_local_worker_can_be_passed():
    code = (
        "import warnings; warnings.simplefilter('error')\n"
        "import torch, syft as sy\n"
        "mine = sy.VirtualWorker(None, id='mine')\n"
        "hook = sy.TorchHook(torch, local_worker=mine)\n"
        "assert sy.local_worker is hook.local_worker is mine and mine.hook is hook\n"
        "bob = sy.VirtualWorker(hook, id='bob')\n"
        "x = torch.ones(2).send(bob)\n"
        "assert x.owner is mine and torch.equal((x + x).get(), torch.ones(2) * 2)\n"
        "hook.unhook()\n"
        "second = sy.TorchHook(torch, is_client=False)\n"
        "assert second.local_worker.id == 'me' and not second.local_worker.is_client_worker\n"
        "print('fine')\n"
    )
    done = warm.run(code, timeout=100)
    assert done.stdout == "fine\n", done.stderr[-2000:]


def test_a_new_hook_has_the_local_worker_of_the_earlier_one():
    """Two local workers would be two clients: a request of one could overtake what the other has sent."""
    code = (
        "import torch, syft as sy\n"
        "hook = sy.TorchHook(torch)\n"
        "me, bob = hook.local_worker, sy.VirtualWorker(hook, id='bob', threaded=True)\n"
        "x = torch.ones(2).send(bob)\n"
        "hook.unhook()\n"
        "hook = sy.TorchHook(torch)\n"
        "assert hook.local_worker is me is sy.local_worker and me.hook is hook\n"
        "assert sy.VirtualWorker(hook, id='bob') is bob\n"
        "assert torch.equal((x + torch.ones(2).send('bob')).get(), torch.ones(2) * 2)\n"
        "for _ in range(20):\n"
        "    plan = sy.Plan(forward_func=lambda x: x * 3).build(torch.ones(1))\n"
        "    plan.send(bob)\n"
        "    assert me.fetch_plan(plan.id, bob).id == plan.id\n"
        "print('fine')\n"
    )
    done = warm.run(code, timeout=100)
    assert done.stdout == "fine\n", done.stderr[-2000:]


def test_a_hook_that_fails_half_way_leaves_nothing():
    code = PICTURE + (
        "import syft as sy\n"
        "torch.nn.Module.send = 'taken by somebody else'\n"
        "before = picture()\n"
        "try:\n    sy.TorchHook(torch)\n"
        "except RuntimeError as error:\n    assert 'Module.send already exists' in str(error), error\n"
        "else:\n    raise AssertionError('it replaced a name')\n"
        "after = picture()\n"
        "assert after.keys() == before.keys()\n"
        "assert all(same(after[key], before[key]) for key in before)\n"
        "del torch.nn.Module.send\n"
        "sy.TorchHook(torch)\n"
        "print('fine')\n"
    )
    done = warm.run(code, timeout=100)
    assert done.stdout == "fine\n", done.stderr[-2000:]


def test_patches_are_taken_back_last_first():
    class Target:
        kept = 1

    patches = Patches()
    patches.add(Target, "new", 1)
    patches.add(Target, "new", 2, replace=True)
    patches.add(Target, "kept", 3, replace=True)
    with pytest.raises(RuntimeError, match=r"Target\.kept already exists"):
        patches.add(Target, "kept", 4)
    patches.undo()
    assert Target.kept == 1
    assert not hasattr(Target, "new")
    patches.undo()


# The globals --------------------------------------------------------------------------------------------


def test_documented_globals(hook):
    assert sy.local_worker is hook.local_worker
    assert sy.local_worker.id == "me"
    assert sy.torch is sy.framework and sy.torch == torch and sy.torch.Tensor is torch.Tensor
    assert torch.torch_hooked
    assert sy.hook.local_worker is hook.local_worker
    assert sy.hook.torch is torch
    assert repr(hook).startswith("<TorchHook of torch")


def test_sy_hook_serves_as_a_hook(hook):
    worker = sy.VirtualWorker(sy.hook, id="of-sy-hook")
    try:
        assert torch.equal(torch.ones(1).send(worker).get(), torch.ones(1))
        assert sy.local_worker.get_worker("of-sy-hook") is worker
        assert sy.hook.create_shape([1, 2]) == torch.Size([1, 2])
        with pytest.raises(AttributeError, match="nothing_like_that"):
            sy.hook.nothing_like_that
    finally:
        for other in list(worker._known_workers.values()):
            other._known_workers.pop(worker.id, None)


def test_acting_as_another_worker(hook, bob):
    with sy.acting_as(bob):
        assert sy.local_worker is bob
    assert sy.local_worker is hook.local_worker


# Makers -------------------------------------------------------------------------------------------------


@row("TorchHook.create_shape")
@pytest.mark.parametrize("dims", [[], [3], [2, 3], (4, 5)])
def test_create_shape(hook, dims):
    for maker in (hook, sy.TorchHook):
        assert maker.create_shape(dims) == torch.Size(dims)
        assert type(maker.create_shape(dims)) is torch.Size


@row("TorchHook.create_wrapper")
def test_create_wrapper(hook, bob):
    empty = hook.create_wrapper(torch.Tensor)
    assert isinstance(empty, torch.Tensor)
    assert empty.shape == (0,)
    pointer = torch.ones(2).send(bob).child
    shell = sy.TorchHook.create_wrapper(torch.Tensor, pointer)
    assert shell.child is pointer
    assert shell.is_wrapper
    assert shell.get().tolist() == [1, 1]


@row("TorchHook.create_zeros")
def test_create_zeros(hook):
    assert torch.equal(hook.create_zeros(2, 3), torch.zeros(2, 3))
    assert torch.equal(sy.TorchHook.create_zeros((2, 3)), torch.zeros(2, 3))
    made = hook.create_zeros([4], dtype=torch.int32, requires_grad=False)
    assert made.dtype is torch.int32
    assert hook.create_zeros(1, requires_grad=True).requires_grad


@row("TorchHook._hook_tensor")
def test_torch_tensor_takes_id_owner_and_register(hook, bob):
    named = torch.tensor([1.0, 2.0], id="named")
    assert named.id == "named"
    owned = torch.tensor([1, 2], dtype=torch.int16, owner=bob, id="owned")
    assert owned.dtype is torch.int16
    assert owned.owner is bob
    assert bob.get_obj("owned") is owned
    free = torch.tensor(3, owner=bob, register=False)
    assert free.owner is bob
    assert free.id not in bob._objects
    plain = torch.tensor([[1.0]], requires_grad=True)
    assert plain.requires_grad
    assert plain.owner is hook.local_worker
    assert type(plain) is torch.Tensor
    assert not plain.__dict__, "a plain tensor costs nothing more than before"
    assert torch.tensor.__name__ == "tensor"
    assert torch.tensor.__doc__ == torch.native_tensor.__doc__
    with pytest.raises(TypeError):
        torch.tensor([1], nonsense=1)


@row("TorchHook._hook_torch_module")
def test_native_aliases(hook):
    aliases = [(place, name) for place, name, _ in hook._patches._undo if name.startswith("native_")]
    assert len(aliases) > 1000
    for place, name in aliases:
        if name != "native_tensor":
            assert getattr(place, name) == getattr(place, name.removeprefix("native_")), name
    x = torch.tensor([1.0, -2.0])
    assert torch.native_add(x, 1).tolist() == [2, -1]
    assert x.native_abs().tolist() == [1, 2]
    assert torch.nn.functional.native_relu(x).tolist() == [1, 0]


def test_names_of_torch_that_begin_with_native_are_kept(hook):
    out = torch.native_layer_norm(torch.ones(2, 2), [2], None, None, 1e-5)
    assert len(out) == 3


# Added names ------------------------------------------------------------------------------------------

SECTION_2 = (
    "send send_ get get_ move remote_send remote_get mid_get copy tag describe tags description allow refresh attr "
    "combine create_pointer ptr id owner location id_at_location has_child is_wrapper wrap on garbage_collection gc "
    "disable_gc serialize ser torch_type get_class_attributes handle_func_command on_function_call rgetattr"
).split()


@row("TorchHook._hook_native_tensor", "TorchHook.__hook_properties", "TorchHook._transfer_methods_to_native_tensor")
@pytest.mark.parametrize("name", SECTION_2)
def test_documented_tensor_members(hook, name):
    added = vars(torch.Tensor)[name]
    homes = [home for home in (TorchTensor, IdentityMethods, PrivateMethods) if name in vars(home)]
    assert added is vars(homes[0])[name]
    assert added.__doc__ or isinstance(added, classmethod)


def test_methods_can_be_transferred_to_any_class(hook):
    class Methods:
        def shout(self):
            return "NO"

        @classmethod
        def whisper(cls):
            return cls.__name__

        def _private(self):
            return None

        quiet = property(lambda self: "sh")

    class Target:
        pass

    sy.TorchHook._transfer_methods_to_native_tensor(Target, Methods)
    assert Target().shout() == "NO"
    assert Target.whisper() == "Target"
    assert not hasattr(Target, "_private")
    assert not hasattr(Target, "quiet")

    class Second:
        pass

    patches, hook._patches = hook._patches, Patches()
    try:
        hook._hook_native_tensor(Second, Methods)
        assert (Second().shout(), Second().quiet) == ("NO", "sh")
        hook._patches.undo()
        assert not hasattr(Second, "shout")
        hook._TorchHook__hook_properties(Second, Methods)
        assert Second().quiet == "sh"
        assert not hasattr(Second, "shout")
        hook._patches.undo()
    finally:
        hook._patches = patches


@row("TorchHook._hook_syft_tensor_methods", "TorchHook._hook_private_tensor_methods")
@pytest.mark.parametrize(
    "name", ["_hook_syft_tensor_methods", "_hook_private_tensor_methods", "_hook_additive_shared_tensor_methods"]
)
def test_a_new_kind_of_link_is_registered(hook, name):
    from syft.hook import args

    kind = type("Fresh", (sy.LoggingTensor,), {})
    getattr(hook, name)(kind)
    try:
        assert args.type_rule[kind] is args.one
        assert args.forward_func[kind] is args.get_child
        assert type(args.backward_func[kind](torch.ones(1))) is kind
    finally:
        for table in (args.type_rule, args.forward_func, args.backward_func):
            del table[kind]


@row("TorchHook._hook_worker_methods", "TorchHook._get_hooked_base_worker_method")
def test_worker_methods(hook, bob):
    names = hook._hook_worker_methods()
    assert {"tensor", "rand", "zeros", "randn", "randint"} <= set(names)
    made = hook._get_hooked_base_worker_method("zeros")(bob, 2, 3, dtype=torch.int64)
    assert made.location is bob
    assert torch.equal(made.get(), torch.zeros(2, 3, dtype=torch.int64))


@row("TorchHook._hook_parameters")
def test_parameters_take_chains(hook, bob):
    assert hook._hook_parameters() is nn.Parameter
    parameter = nn.Parameter(torch.ones(2).send(bob))
    assert isinstance(parameter, nn.Parameter)
    assert parameter.location is bob
    assert parameter.requires_grad
    (parameter * 3).sum().backward()
    assert parameter.grad.copy().get().tolist() == [3, 3]
    assert parameter.data.get().tolist() == [1, 1]


@row("TorchHook._hook_module")
@pytest.mark.parametrize("name", "send send_ get get_ move copy owner location".split())
def test_documented_module_members(hook, name):
    assert name in vars(nn.Module)
    assert vars(nn.Module)[name].__doc__


GETTERS = (
    "get_hooked_method get_hooked_syft_method get_hooked_pointer_method get_hooked_multi_pointer_method "
    "get_hooked_additive_shared_method"
).split()


@row(*[f"TorchHook.{name}" for name in GETTERS])
@pytest.mark.parametrize("name", GETTERS)
def test_hooked_methods_take_every_kind_of_tensor(hook, bob, alice, name):
    add = getattr(hook, name)("add")
    x = torch.tensor([1.0, 2.0])
    assert add(x, 1).tolist() == [2, 3]
    assert add(x, x, alpha=2).tolist() == [3, 6]
    assert add(x.send(bob), 1).get().tolist() == [2, 3]
    bare = x.send(bob).child
    result = add(bare, other=bare)
    assert isinstance(result, sy.PointerTensor)
    assert result.get().tolist() == [2, 4]
    multi = add(x.send(bob, alice).child, 1)
    assert isinstance(multi, sy.MultiPointerTensor)
    assert multi.get(sum_results=True).tolist() == [4, 6]
    link = add(sy.LoggingTensor().on(x, wrap=False), 1)
    assert isinstance(link, sy.LoggingTensor)
    with pytest.raises(AttributeError):
        getattr(hook, name)("nothing_like_that")


@row("TorchHook.get_hooked_func", "TorchHook._get_hooked_func")
def test_hooked_functions_take_every_kind_of_tensor(hook, bob):
    x = torch.tensor([1.0, 2.0])
    bare = x.send(bob).child
    stack = hook.get_hooked_func("torch.stack")
    for function in (stack, hook.get_hooked_func(torch.stack), hook._get_hooked_func("torch", "stack", torch.stack)):
        assert function([x, x]).tolist() == [[1, 2], [1, 2]]
        assert function([x.send(bob), x.send(bob)]).get().tolist() == [[1, 2], [1, 2]]
        result = function([bare, bare])  # nested, and bare
        assert isinstance(result, sy.PointerTensor)
        assert result.get().tolist() == [[1, 2], [1, 2]]
    assert hook.get_hooked_func("torch.nn.functional.relu")(-x).tolist() == [0, 0]


# torch goes on as before --------------------------------------------------------------------------------


def test_script_and_trace(hook):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    for compiled in (torch.jit.script(model), torch.jit.trace(model, x)):
        assert torch.allclose(compiled(x), model(x))
        stream = io.BytesIO()
        torch.jit.save(compiled, stream)
        stream.seek(0)
        assert torch.allclose(torch.jit.load(stream)(x), model(x))

    @torch.jit.script
    def double(value: torch.Tensor):
        return value + value

    assert double(x).equal(2 * x)


def test_func_transforms_export_and_fake_tensors(hook):
    x = torch.randn(3, 2)
    assert torch.allclose(torch.func.grad(lambda v: (v**2).sum())(x), 2 * x)
    assert torch.func.vmap(torch.sum)(x).shape == (3,)
    graph = torch.fx.symbolic_trace(nn.Linear(2, 2))
    assert graph(x).shape == (3, 2)
    with torch._subclasses.FakeTensorMode() as mode:
        assert (mode.from_tensor(x) + 1).shape == (3, 2)


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.tensor([float(index)]), index**2


def test_data_loaders(hook):
    loaded = [batch for batch, _ in DataLoader(TensorDataset(torch.arange(6.0), torch.arange(6)), batch_size=4)]
    assert [batch.tolist() for batch in loaded] == [[0, 1, 2, 3], [4, 5]]
    numbers = [target.tolist() for _, target in DataLoader(Squares(), batch_size=3)]
    assert numbers == [[0, 1, 4], [9, 16, 25]]


def test_copies_and_pickles_of_plain_tensors(hook, tmp_path):
    x = torch.randn(2, 3, requires_grad=True)
    model = nn.Linear(3, 2)
    for value in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(value) is torch.Tensor
        assert torch.equal(value, x)
        assert value.requires_grad
    proxy = copy.deepcopy(model)
    assert torch.equal(proxy.weight, model.weight)
    assert proxy.weight is not model.weight
    assert pickle.loads(pickle.dumps(model)).in_features == 3
    torch.save({"x": x, "model": model.state_dict()}, tmp_path / "file.pt")
    back = torch.load(tmp_path / "file.pt", weights_only=True)
    assert torch.equal(back["x"], x)
    model.load_state_dict(back["model"])


def test_tensors_that_have_an_id_still_copy_pickle_and_save(hook, tmp_path):
    x = torch.ones(2).tag("#x").describe("ones")
    number = x.id
    proxy = copy.deepcopy(x)
    assert torch.equal(proxy, x)
    assert pickle.loads(pickle.dumps(x)).tags == {"#x"}
    torch.save(x, tmp_path / "file.pt")
    assert torch.equal(torch.load(tmp_path / "file.pt", weights_only=True), x)
    assert x.id == number


def test_subclasses_of_tensor_go_on(hook):
    class Mine(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Mine)
    assert type(x + 1) is Mine
    assert x.is_wrapper is False
    assert x.id == x.id


def test_training_gives_the_very_same_numbers():
    code = (
        "import torch\n"
        "def train():\n"
        "    torch.manual_seed(0)\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))\n"
        "    opt = torch.optim.Adam(model.parameters(), lr=0.1)\n"
        "    x, y = torch.randn(16, 3), torch.randn(16, 1)\n"
        "    for _ in range(5):\n"
        "        opt.zero_grad(); loss = ((model(x) - y) ** 2).mean(); loss.backward(); opt.step()\n"
        "    return loss.item().hex(), torch.rand(1).item().hex(), torch.get_rng_state().sum().item()\n"
        "before = train()\n"
        "import syft as sy\n"
        "imported = train()\n"
        "hook = sy.TorchHook(torch)\n"
        "hooked = train()\n"
        "hook.unhook()\n"
        "assert before == imported == hooked == train()\n"
        "print('the same')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout == "the same\n", done.stderr[-2000:]


# Names of the user's own --------------------------------------------------------------------------------


class Shop(nn.Module):
    """A module whose author likes the words that the hook uses."""

    def __init__(self):
        super().__init__()
        self.location = "Main Street"
        self.owner = nn.Parameter(torch.ones(2))
        self.copy = nn.Linear(2, 2)
        self.send = "by mail"
        self.register_buffer("get", torch.zeros(1))
        self.move = lambda: "moved"

    def forward(self, x):
        return self.copy(x) * self.owner


def test_users_own_attributes_win(hook):
    shop = Shop()
    assert shop.location == "Main Street"
    assert shop.owner.tolist() == [1, 1]
    assert isinstance(shop.owner, nn.Parameter)
    assert isinstance(shop.copy, nn.Linear)
    assert shop.send == "by mail"
    assert torch.is_tensor(shop.get)
    assert shop.move() == "moved"
    assert {name for name, _ in shop.named_parameters()} == {"owner", "copy.weight", "copy.bias"}
    assert shop(torch.ones(1, 2)).shape == (1, 2)
    proxy = copy.deepcopy(shop)
    assert (proxy.location, proxy.send) == ("Main Street", "by mail")
    shop.location = "elsewhere"
    assert shop.location == "elsewhere"
    shop.load_state_dict(proxy.state_dict())
    with pytest.raises(KeyError, match="already exists"):
        shop.register_parameter("forward", nn.Parameter(torch.ones(1)))  # torch's own check is still there
    with pytest.raises(KeyError, match="already exists"):
        shop.register_buffer("owner", torch.ones(1))


def test_a_module_with_such_names_still_travels(hook, bob, nothing_left):
    class Depot(nn.Module):
        def __init__(self):
            super().__init__()
            self.owner = nn.Parameter(torch.ones(2))
            self.location = nn.Linear(2, 2)

    depot = Depot()
    depot.send(bob)
    assert depot.owner.location is bob
    assert depot.location.weight.location is bob
    depot.get()
    assert depot.owner.tolist() == [1, 1]
    nothing_left(bob)


def test_users_own_methods_and_properties_win(hook):
    class Van(nn.Module):
        @property
        def location(self):
            return "on the road"

        def send(self, parcel):
            return f"sent {parcel}"

        def copy(self):
            return "carbon"

    van = Van()
    assert (van.location, van.send("it"), van.copy()) == ("on the road", "sent it", "carbon")


def test_users_own_attributes_of_tensors(hook):
    x = torch.ones(1)
    x.location = "here"
    x.ptr = 4
    assert (x.location, x.ptr) == ("here", 4)
    assert torch.ones(1).location is None


def test_computed_names_yield_to_instances():
    class Thing:
        value = Computed(lambda self: "computed")

    thing = Thing()
    assert thing.value == "computed"
    assert isinstance(Thing.value, Computed)
    thing.value = 3
    assert thing.value == 3
