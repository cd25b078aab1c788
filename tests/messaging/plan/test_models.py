"""Whole models as plans: forward gives the numbers of plain torch, here and on workers."""

from __future__ import annotations

import copy

import pytest
import torch

import syft as sy
from syft.exceptions import PlanMismatchError
from tests.helpers.plans.models import MODELS
from tests.helpers.plans.plan_models import BATCHES, WAYS, as_module, close, pair, same_model, same_state, seeded


class TestForward:
    @pytest.mark.parametrize("way", list(WAYS))
    @pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
    @pytest.mark.parametrize("name", list(MODELS))
    def test_here(self, name, train, way, hook):
        model, proxy, make = pair(name, train)
        plan = WAYS[way](model).build(make(3))
        for batch in BATCHES:
            x = make(batch)
            close(seeded(1, plan, x), seeded(1, proxy, x), batch)
        same_model(model, proxy)  # batch norm counts here as there

    @pytest.mark.parametrize("way", list(WAYS))
    @pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
    @pytest.mark.parametrize("name", list(MODELS))
    def test_on_a_worker(self, name, train, way, make_worker, nothing_left):
        for kind in ("inline", "bytes"):
            bob = make_worker("bob", kind)
            model, proxy, make = pair(name, train)
            before = copy.deepcopy(model)
            plan = WAYS[way](model).build(make(3))
            pointer = plan.send(bob)
            for batch in BATCHES:
                x = make(batch)
                there = x.send(bob)
                with sy.count_messages() as counted:
                    result = seeded(1, pointer, there)
                assert counted.messages == 1
                close(result.get(), seeded(1, proxy, x), (kind, batch))
            same_model(model, before)  # what is here is not what is there
            same_state(plan, pointer.get(), model, proxy)
            del pointer, result, there
            plan.pointers.clear()
            nothing_left(bob)

    def test_statistics_really_change(self, hook):
        model, proxy, make = pair("cnn")
        plan = as_module(model).build(make(3))
        plan(make(4))
        assert model.norm1.num_batches_tracked.item() == 1
        assert not torch.equal(model.norm1.running_mean, proxy.norm1.running_mean)

    def test_mode_is_that_of_the_build(self, hook):
        """Python's `self.training` is decided once: a switch raises, a rebuild records the new mode."""
        model, proxy, make = pair("mlp", train=False)
        plan, x = as_module(model).build(make(3)), make(4)
        close(plan(x), proxy(x))
        model.train()
        with pytest.raises(PlanMismatchError, match="in eval mode, and now it is in train mode"):
            plan(x)
        plan.build(x)
        close(seeded(2, plan, x), seeded(2, proxy.train(), x))
        assert not torch.equal(seeded(2, plan, x), proxy.eval()(x))

    def test_gradients_go_through(self, hook):
        for name in MODELS:
            model, proxy, make = pair(name, train=False)
            x = make(4)
            as_module(model).build(make(3))(x).square().sum().backward()
            proxy(x).square().sum().backward()
            for p, q in zip(model.parameters(), proxy.parameters(), strict=True):
                assert (p.grad is None) == (q.grad is None)
                if q.grad is not None:
                    close(p.grad, q.grad, name)

    def test_changes_of_the_module_are_seen(self, hook):
        model, proxy, make = pair("mlp", train=False)
        plan, x = as_module(model).build(make(3)), make(2)
        with torch.no_grad():
            for m in (model, proxy):
                m.out.bias.add_(1)
                m.hidden.weight.mul_(0.5)
        close(plan(x), proxy(x))
