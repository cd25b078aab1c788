"""Every name of the 0.2 API: where it is, or which error says what to use instead; and the page that lists them."""

from __future__ import annotations

import torch

import syft as sy
from tests.helpers.names_0_2 import ABSENT, BEGIN, END, OF_INSTANCES, PAGE, absent, names, resolve, table


def test_every_name_is_there_or_listed_as_absent(hook):
    missing = []
    for module, name in names():
        if absent(module, name) is None and (module, name) not in OF_INSTANCES:
            try:
                resolve(module, name)
            except (ImportError, AttributeError) as error:
                missing.append(f"{module} {name}: {error}")
    assert missing == []


def test_absent_names_say_what_to_use(hook):
    seen = set()
    for module, name in names():
        entry = absent(module, name)
        if entry is None:
            continue
        seen.add(entry)
        try:
            resolve(module, name)
        except (ImportError, AttributeError) as error:
            assert (ABSENT[entry] or "") in str(error), (module, name, str(error))
        else:
            raise AssertionError(f"{module} {name} is there: take it out of ABSENT")
    assert seen == set(ABSENT)


def test_names_of_instances(hook):
    x = torch.ones(1).fix_prec()
    assert isinstance(x.child, sy.FixedPrecisionTensor) and isinstance(hook.local_worker.serializer, str)
    pointer = torch.ones(1).send(sy.VirtualWorker(hook, id="names", auto_add=False)).child
    for module, name in OF_INSTANCES:
        assert not module.endswith("pointer_tensor") or callable(getattr(pointer, name.partition(".")[2]))


def test_t14_page_lists_every_name(hook):
    """A failure means: run `python -m tests.helpers.names_0_2`."""
    page = PAGE.read_text()
    assert page[page.index(BEGIN) + len(BEGIN) : page.index(END)] == table()
