"""Functions and classes of upper layers that lower layers call. Each is set when its layer is imported."""

from __future__ import annotations

from typing import Any


class Providers:
    """One attribute for each provider, set once."""

    # syft.serde: an object to bytes, and objects to protobuf messages and back.
    serialize: Any
    bufferize: Any
    unbufferize: Any
    # syft.core.dispatch: runs torch calls on links.
    handle: Any
    run_bare: Any
    resolve: Any
    call_method: Any
    # syft.hook: the class of the outer tensor of chains.
    wrapper: Any
    # syft.tensors: the AutogradTensor that a marked tensor shows.
    autograd_view: Any
    # syft.mpc: fixed-point codec, secret sharing, evaluator of fits, and handler of calls without a rule.
    codec: Any
    sharing: Any
    evaluator: Any
    fallback: Any


providers = Providers()
