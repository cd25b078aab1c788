# Made by scripts/stubs.
from syft.frameworks.torch.tensors.interpreters import Polynomial as Polynomial
from syft.frameworks.torch.tensors.interpreters import abstract as abstract
from syft.frameworks.torch.tensors.interpreters import additive_shared as additive_shared
from syft.frameworks.torch.tensors.interpreters import autograd as autograd
from syft.frameworks.torch.tensors.interpreters import gradients as gradients
from syft.frameworks.torch.tensors.interpreters import gradients_core as gradients_core
from syft.frameworks.torch.tensors.interpreters import multi_pointer as multi_pointer
from syft.frameworks.torch.tensors.interpreters import native as native
from syft.frameworks.torch.tensors.interpreters import placeholder as placeholder
from syft.frameworks.torch.tensors.interpreters import plusisminus as plusisminus
from syft.frameworks.torch.tensors.interpreters import pointer as pointer
from syft.frameworks.torch.tensors.interpreters import polynomial as polynomial
from syft.frameworks.torch.tensors.interpreters import precision as precision
from syft.frameworks.torch.tensors.interpreters import private as private
