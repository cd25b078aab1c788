"""References to what another worker holds."""

from syft.pointers.callable_pointer import CallablePointer as CallablePointer
from syft.pointers.multi_pointer import MultiPointerTensor as MultiPointerTensor
from syft.pointers.object_pointer import ObjectPointer as ObjectPointer
from syft.pointers.object_wrapper import ObjectWrapper as ObjectWrapper
from syft.pointers.pointer_tensor import PointerTensor as PointerTensor
from syft.pointers.string_pointer import StringPointer as StringPointer
