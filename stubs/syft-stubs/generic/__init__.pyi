# Made by scripts/stubs.
from syft.generic import abstract as abstract
from syft.generic import frameworks as frameworks
from syft.generic import id_provider as id_provider
from syft.generic import metrics as metrics
from syft.generic import object as object
from syft.generic import object_storage as object_storage
from syft.generic import pointers as pointers
from syft.generic import string as string
from syft.generic import tensor as tensor
