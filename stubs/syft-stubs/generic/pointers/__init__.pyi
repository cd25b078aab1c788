# Made by scripts/stubs.
from syft.pointers import *
from syft.generic.pointers import callable_pointer as callable_pointer
from syft.generic.pointers import multi_pointer as multi_pointer
from syft.generic.pointers import object_pointer as object_pointer
from syft.generic.pointers import object_wrapper as object_wrapper
from syft.generic.pointers import pointer_plan as pointer_plan
from syft.generic.pointers import pointer_protocol as pointer_protocol
from syft.generic.pointers import pointer_tensor as pointer_tensor
from syft.generic.pointers import string_pointer as string_pointer
