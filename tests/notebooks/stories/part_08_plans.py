"""Part 8: functions recorded as plans, sent once, and run with one message."""

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F

import syft as sy

hook = sy.TorchHook(torch)
hook.local_worker.is_client_worker = False
server = hook.local_worker

# %%
x11 = torch.tensor([-1, 2.0]).tag("input_data")
x12 = torch.tensor([1, -2.0]).tag("input_data2")
device_1 = sy.VirtualWorker(hook, id="device_1", data=(x11, x12))
x21 = torch.tensor([-1, 2.0]).tag("input_data")
x22 = torch.tensor([1, -2.0]).tag("input_data2")
device_2 = sy.VirtualWorker(hook, id="device_2", data=(x21, x22))
devices = device_1, device_2


# %%
@sy.func2plan()
def plan_double_abs(x):
    x = x + x
    x = torch.abs(x)
    return x


plan_double_abs

# %%
try:
    plan_double_abs.send(device_1)
except RuntimeError as error:
    print(error)
else:
    raise AssertionError("a plan that is not built was sent")
assert not plan_double_abs.is_built

# %%
plan_double_abs.build(torch.tensor([1.0, -2.0]))
assert plan_double_abs.is_built
plan_double_abs

# %%
pointer_plan = plan_double_abs.send(device_1)
pointer_to_data = device_1.search("input_data")[0]
pointer_to_result = pointer_plan(pointer_to_data)
pointer_to_result

# %%
assert pointer_to_result.get().tolist() == [2.0, 4.0]


# %%
class Net(sy.Plan):
    def __init__(self):
        super(Net, self).__init__()  # noqa: UP008
        self.fc1 = nn.Linear(2, 3)
        self.fc2 = nn.Linear(3, 2)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = self.fc2(x)
        return F.log_softmax(x, dim=0)


net = Net()
net.build(torch.tensor([1, 2.0]))
net

# %%
expected = net(torch.tensor([-1, 2.0]))
for device in devices:
    pointer_to_net = net.send(device)
    pointer_to_data = device.search("input_data")[0]
    result = pointer_to_net(pointer_to_data).get()
    assert torch.allclose(result, expected)
expected


# %%
@sy.func2plan(args_shape=[(-1, 1)], state=(torch.tensor([1]),))
def plan_abs(x, state):
    (bias,) = state.read()
    x = x.abs()
    return x + bias


pointer_plan = plan_abs.send(device_1)
x_ptr = torch.tensor([-1, 0]).send(device_1)
p = pointer_plan(x_ptr)
p.get()

# %%
assert plan_abs(torch.tensor([-1, 0])).tolist() == [2, 1]
hook.local_worker.is_client_worker = True
