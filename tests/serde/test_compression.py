from __future__ import annotations

import sys
import tracemalloc

import lz4.frame
import pytest
import torch

from syft import config
from syft.exceptions import CompressionNotFoundError, SerdeError
from syft.serde import compression, deserialize, serialize
from tests.helpers.serde.round_trips import worker

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"the quick brown fox " * 500
NOISE = torch.randint(0, 256, (20_000,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
NOISE_BYTES = NOISE.numpy().tobytes()


def test_documented_functions():
    assert compression.apply_no_compression(TEXT) == (TEXT, 40)
    for apply, code, undo in (
        (compression.apply_lz4_compression, 41, lz4.frame.decompress),
        (compression.apply_zstd_compression, 42, zstd.decompress),
    ):
        packed, scheme = apply(TEXT)
        assert scheme == code and len(packed) < len(TEXT) and undo(packed) == TEXT


@pytest.mark.parametrize("name", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("data", [b"", b"a", TEXT, NOISE_BYTES], ids=["empty", "one", "text", "noise"])
def test_compress_and_back(name, data):
    packed = compression._compress(data, compression.SCHEMES[name])
    assert bytes(compression._decompress(packed)) == data
    assert len(packed) <= len(data) + 1


@pytest.mark.parametrize(("name", "code"), [("none", 40), ("lz4", 41), ("zstd", 42)])
def test_a_worker_chooses(name, code):
    message = serialize(torch.zeros(5000), worker(compression=name))
    assert message[0] == code
    assert torch.equal(deserialize(message), torch.zeros(5000))


def test_default_compresses_only_when_it_helps():
    assert serialize(torch.zeros(5000))[0] == 41
    assert serialize(torch.zeros(100))[0] == 40  # too small
    assert serialize(NOISE)[0] == 40
    assert serialize(["word"] * 5000)[0] == 41
    assert serialize(torch.zeros(5000), worker(compression=None))[0] == 41


def test_noise_is_stored_even_when_compression_is_asked_for():
    for name in ("lz4", "zstd"):
        assert serialize(NOISE, worker(compression=name))[0] == 40


def test_the_scheme_is_assignable(monkeypatch):
    monkeypatch.setattr(compression, "_apply_compress_scheme", compression.apply_zstd_compression)
    assert serialize(torch.zeros(5000))[0] == 42
    monkeypatch.setattr(compression, "_apply_compress_scheme", compression.apply_no_compression)
    assert serialize(torch.zeros(5000))[0] == 40


def test_unknown_schemes():
    with pytest.raises(CompressionNotFoundError):
        serialize(1, worker(compression="gzip"))
    for code in (0, 39, 43, 255):
        with pytest.raises(CompressionNotFoundError):
            deserialize(bytes([code]) + b"abc")


@pytest.mark.parametrize("name", ["lz4", "zstd"])
def test_cut_or_extended_compressed_messages(name):
    message = serialize(torch.zeros(5000), worker(compression=name))
    for end in range(len(message)):
        with pytest.raises(SerdeError):
            deserialize(message[:end])
    with pytest.raises(SerdeError):
        deserialize(message + b"x")


@pytest.mark.parametrize("name", ["lz4", "zstd"])
def test_flipped_bits_never_give_another_error(name):
    message = bytearray(serialize(torch.zeros(5000), worker(compression=name)))
    for position in range(len(message)):
        for bit in range(8):
            damaged = bytearray(message)
            damaged[position] ^= 1 << bit
            try:
                deserialize(bytes(damaged), max_message_bytes=10**6)
            except SerdeError:
                pass


def bombs(size: int):
    zeros = bytes(size)
    yield "lz4 declared", b"\x29" + lz4.frame.compress(zeros, store_size=True)
    yield "lz4 silent", b"\x29" + lz4.frame.compress(zeros, store_size=False)
    yield "zstd declared", b"\x2a" + zstd.compress(zeros)
    stream = zstd.ZstdCompressor()
    yield "zstd silent", b"\x2a" + stream.compress(zeros) + stream.flush()


@pytest.mark.parametrize(
    ("name", "bomb"), list(bombs(64 * 2**20)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_bombs_are_refused_within_bounded_memory(name, bomb):
    assert len(bomb) < 300_000
    tracemalloc.start()
    try:
        with pytest.raises(SerdeError, match="larger than the limit"):
            deserialize(bomb, max_message_bytes=2**20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20


def test_the_configured_limit_applies():
    message = serialize(torch.zeros(5000))
    with config.override(max_message_bytes=20_000), pytest.raises(SerdeError, match="limit"):
        deserialize(message)
    with config.override(max_message_bytes=21_000):
        assert deserialize(message).shape == (5000,)
    plain = serialize(torch.zeros(5000), worker(compression="none"))
    with pytest.raises(SerdeError, match="limit"):
        deserialize(plain, max_message_bytes=20_000)


def test_skippable_and_concatenated_frames_are_refused():
    body = bytes(compression._decompress(serialize(torch.zeros(5000))))
    half = len(body) // 2
    for code, pack in ((41, lz4.frame.compress), (42, zstd.compress)):
        with pytest.raises(SerdeError):
            deserialize(bytes([code]) + pack(body[:half]) + pack(body[half:]))
