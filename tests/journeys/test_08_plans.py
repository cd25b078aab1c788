"""Part 08: plans. Record a function or a model once, send it to devices, run it there with one message each."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import syft as sy


@pytest.fixture
def devices(hook, make_worker, kind):
    """Two devices that hold tagged data before anybody asks them."""
    before, hook.local_worker.is_client_worker = hook.local_worker.is_client_worker, False
    data = [
        (torch.tensor([-1, 2.0]).tag("input_data"), torch.tensor([1, -2.0]).tag("input_data2")),
        (torch.tensor([-3, 4.0]).tag("input_data"), torch.tensor([3, -4.0]).tag("input_data2")),
    ]
    yield [make_worker(f"device_{n + 1}", kind, data=given) for n, given in enumerate(data)]
    hook.local_worker.is_client_worker = before


def double_abs():
    @sy.func2plan()
    def plan_double_abs(x):
        x = x + x
        return torch.abs(x)

    return plan_double_abs


class Net(sy.Plan):
    """A small model, which is a plan by itself."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 3)
        self.fc2 = nn.Linear(3, 2)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=0)


def test_a_function(devices):
    device, _ = devices
    plan = double_abs()
    assert not plan.is_built
    with pytest.raises(RuntimeError, match="is not built. Build it first"):
        plan.send(device)
    plan.build(torch.tensor([1.0, -2.0]))
    assert plan.is_built
    pointer_plan = plan.send(device)
    pointer_to_data = device.search("input_data")[0]
    with sy.count_messages() as counted:
        pointer_to_result = pointer_plan(pointer_to_data)
    assert counted.messages == 1
    assert torch.equal(pointer_to_result.get(), torch.tensor([2.0, 4.0]))
    assert torch.equal(plan(torch.tensor([-1, 2.0])), torch.tensor([2.0, 4.0]))


def test_a_model_on_several_devices(devices):
    torch.manual_seed(0)
    net = Net()
    assert not net.is_built and len(net.parameters()) == 4
    net.build(torch.tensor([1.0, 2.0]))
    for device, numbers in zip(devices, ([-1, 2.0], [-3, 4.0]), strict=True):
        pointer_to_net = net.send(device)
        assert net.send(device) is pointer_to_net
        pointer_to_data = device.search("input_data")[0]
        with sy.count_messages() as counted:
            pointer_to_result = pointer_to_net(pointer_to_data)
        assert counted.messages == 1
        torch.testing.assert_close(pointer_to_result.get(), net(torch.tensor(numbers)), rtol=0, atol=1e-7)


def test_one_pointer_to_all_devices(devices):
    plan = double_abs().build(torch.tensor([1.0, -2.0]))
    pointer = plan.send(*devices)
    results = [pointer(device.search("input_data")[0]).get() for device in devices]
    assert [r.tolist() for r in results] == [[2.0, 4.0], [6.0, 8.0]]
    assert set(plan.get_pointers()) == set(devices)


def test_built_at_once(devices):
    @sy.func2plan(args_shape=[(-1, 1)])
    def plan_double_abs(x):
        return torch.abs(x + x)

    assert plan_double_abs.is_built
    pointer_plan = plan_double_abs.send(devices[0])
    for rows in (1, 2, 7):
        x = torch.randn(rows, 1)
        assert torch.equal(pointer_plan(x.send(devices[0])).get(), torch.abs(x + x))


def test_with_a_state(devices):
    @sy.func2plan(args_shape=[(1,)], state=(torch.tensor([1]),))
    def plan_add(x, state):
        (bias,) = state.read()
        return torch.abs(x) + bias

    assert plan_add.is_built
    pointer_plan = plan_add.send(devices[0])
    x_ptr = torch.tensor([-1, 0]).send(devices[0])
    assert torch.equal(pointer_plan(x_ptr).get(), torch.tensor([2, 1]))
    assert torch.equal(plan_add(torch.tensor([-1, 0])), torch.tensor([2, 1]))


def test_the_model_comes_back(devices):
    net = Net()
    net.build(torch.tensor([1.0, 2.0]))
    x = torch.tensor([0.5, -0.5])
    fetched = net.send(devices[0]).get()
    assert torch.equal(fetched(x), net(x)) and fetched.is_built
    for mine, theirs in zip(net.parameters(), fetched.parameters(), strict=True):
        assert torch.equal(mine, theirs) and mine is not theirs


def test_nothing_is_left(devices, nothing_left):
    plan = double_abs().build(torch.tensor([1.0, -2.0]))
    pointer = plan.send(devices[0])
    result = pointer(torch.tensor([3.0]).send(devices[0]))
    assert len(devices[0]._objects) == 4
    del pointer, result
    plan.pointers.clear()
    assert len(devices[0]._objects) == 3  # the data it was made with, and the plan, which stays
    devices[0].clear_objects()
    nothing_left(devices[0])
