# Made by scripts/stubs.
from syft.hook.remote import *
