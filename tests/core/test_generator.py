"""Random words: uniform, never repeated, independent of torch's seed."""

from __future__ import annotations

import threading

import pytest
import torch

from syft.core.generator import BLOCK, Generator, forget, local
from tests.helpers import warm_processes as warm


def chi_square(data: bytes) -> float:
    counts = torch.bincount(torch.frombuffer(bytearray(data), dtype=torch.uint8).long(), minlength=256).double()
    expected = len(data) / 256
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("shape", [(), (1,), (5, 3), (BLOCK // 4,), (BLOCK * 3 + 1,), (0,), (2, 0, 3)])
def test_words_have_the_shape_asked_for(shape: tuple[int, ...]) -> None:
    assert local().words(*shape).shape == shape
    assert local().words(*shape).dtype is torch.int64


def test_bytes_are_uniform() -> None:
    # 255 degrees of freedom: beyond 460 once in 10^13 times.
    assert chi_square(local().words(200_000).numpy().tobytes()) < 460
    small = b"".join(local().words(3).numpy().tobytes() for _ in range(20_000))
    assert chi_square(small) < 460


def test_no_word_is_given_twice() -> None:
    drawn = torch.cat([local().words(size) for size in (1, 7, 5000, 2, 9000, 3, 8192, 1) for _ in range(20)])
    assert len(drawn.unique()) == len(drawn)


def test_the_seed_of_torch_means_nothing() -> None:
    torch.manual_seed(0)
    first = local().words(100)
    torch.manual_seed(0)
    assert not torch.equal(first, local().words(100))


def test_a_key_repeats_its_words_and_no_others() -> None:
    a, b, c = Generator(b"k" * 16), Generator(b"k" * 16), Generator(b"l" * 16)
    sizes = (3, 5000, 1, 8192, 17)
    assert all(torch.equal(a.words(size), b.words(size)) for size in sizes)
    assert not torch.equal(a.words(50), c.words(50))
    with pytest.raises(ValueError, match="16 bytes"):
        Generator(b"short")


def test_threads_have_generators_of_their_own() -> None:
    found = []
    threads = [threading.Thread(target=lambda: found.append(local())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(generator) for generator in [*found, local()]}) == 4
    assert "Generator" in repr(found[0])


def test_bytes_have_the_length_asked_for() -> None:
    assert [len(local().bytes(count)) for count in (0, 1, 16, 33)] == [0, 1, 16, 33]


FORK = """
import os, sys
from syft.core.generator import local
words = int(sys.argv[1])
local().words(1)  # the parent has a generator, and a block of words drawn ahead
child = os.fork()
print(local().bytes(16).hex(), local().words(words).numpy().tobytes()[:800].hex(), flush=True)
if child and os.waitpid(child, 0)[1]:
    sys.exit(1)
"""


@pytest.mark.parametrize("words", [1, 100, BLOCK])
def test_a_forked_process_draws_other_words_than_its_parent(words: int) -> None:
    done = warm.run(FORK, str(words), timeout=60)
    assert done.returncode == 0, done.stderr
    mine, theirs = (line.split() for line in done.stdout.splitlines())
    assert [len(drawn) for drawn in mine] == [len(drawn) for drawn in theirs] == [32, 16 * min(words, 100)]
    assert mine[0] != theirs[0], "bytes come straight from the cipher"
    assert mine[1] != theirs[1], "small draws come from the block drawn ahead"


def test_a_forgotten_generator_is_replaced_by_one_with_another_key() -> None:
    first = local()
    forget()
    assert local() is not first and local() is local()
