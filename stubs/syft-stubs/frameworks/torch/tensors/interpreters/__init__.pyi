# Made by scripts/stubs.
from syft.frameworks.torch.tensors.interpreters import Polynomial as Polynomial
from syft.frameworks.torch.tensors.interpreters import abstract as abstract
from syft.frameworks.torch.tensors.interpreters import additive_shared as additive_shared
from syft.frameworks.torch.tensors.interpreters import crt_precision as crt_precision
from syft.frameworks.torch.tensors.interpreters import large_precision as large_precision
from syft.frameworks.torch.tensors.interpreters import multi_pointer as multi_pointer
from syft.frameworks.torch.tensors.interpreters import native as native
from syft.frameworks.torch.tensors.interpreters import numpy as numpy
from syft.frameworks.torch.tensors.interpreters import paillier as paillier
from syft.frameworks.torch.tensors.interpreters import placeholder as placeholder
from syft.frameworks.torch.tensors.interpreters import plusisminus as plusisminus
from syft.frameworks.torch.tensors.interpreters import pointer as pointer
from syft.frameworks.torch.tensors.interpreters import polynomial as polynomial
from syft.frameworks.torch.tensors.interpreters import precision as precision
from syft.frameworks.torch.tensors.interpreters import private as private
