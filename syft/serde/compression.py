"""Compression of whole messages: one scheme byte, then the body.

Schemes are chosen by `worker.compression` ("none", "lz4" or "zstd"), else by the module-level
`_apply_compress_scheme`, which may be reassigned. A declared size is not trusted: it is checked
against the limit, charged to the byte budget of the request, and the output is produced and counted piece by piece.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from syft import config
from syft.core.byte_budget import ask
from syft.exceptions import CompressionNotFoundError, SerdeError, SyftError

NO_COMPRESSION = 40
LZ4 = 41
ZSTD = 42

Bytes = bytes | bytearray | memoryview
Scheme = Callable[[Bytes], tuple[Bytes, int]]

MIN_BYTES = 1024  # smaller messages are not compressed
SAMPLE_CHUNKS = 4
SAMPLE_BYTES = 2 * 1024
MIN_BUDGETED_BYTES = 1 << 16  # smaller messages are not charged to the budget
MAX_RATIO = 0.9  # a sample must shrink below this share of its size
PIECE = 4 * 2**20  # bytes decompressed at a time
MAX_ZSTD_WINDOW_LOG = 27


def _zstd() -> Any:
    """Import zstd at its first use."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def apply_no_compression(decompressed_input_bin: Bytes) -> tuple[Bytes, int]:
    """Return the bytes unchanged."""
    return decompressed_input_bin, NO_COMPRESSION


def apply_lz4_compression(decompressed_input_bin: Bytes) -> tuple[Bytes, int]:
    """Compress with lz4: fast, moderate ratio."""
    import lz4.frame

    return lz4.frame.compress(decompressed_input_bin, store_size=True), LZ4


def apply_zstd_compression(decompressed_input_bin: Bytes) -> tuple[Bytes, int]:
    """Compress with zstd: slower, better ratio."""
    return _zstd().compress(decompressed_input_bin), ZSTD


def apply_lz4_if_it_helps(decompressed_input_bin: Bytes) -> tuple[Bytes, int]:
    """Compress with lz4 if a small sample shrinks."""
    if helps((decompressed_input_bin,)):
        return apply_lz4_compression(decompressed_input_bin)
    return decompressed_input_bin, NO_COMPRESSION


_apply_compress_scheme: Scheme = apply_lz4_if_it_helps

SCHEMES: dict[str, Scheme] = {
    "none": apply_no_compression,
    "lz4": apply_lz4_compression,
    "zstd": apply_zstd_compression,
}


# Stands for a worker without compression.
UNCOMPRESSED = SimpleNamespace(compression="none")


def scheme_for(worker: object) -> Scheme:
    """Return the scheme of a worker, or the default scheme."""
    name = getattr(worker, "compression", None)
    if name is None:
        return _apply_compress_scheme
    scheme = SCHEMES.get(name) if type(name) is str else None
    if scheme is None:
        raise CompressionNotFoundError(name, SCHEMES)
    return scheme


def helps(parts: Sequence[Bytes]) -> bool:
    """Estimate from a few chunks of the largest part whether compression saves bytes."""
    if sum(map(len, parts)) < MIN_BYTES:
        return False
    import lz4.block

    view = memoryview(max(parts, key=len))
    step = max(1, (len(view) - SAMPLE_BYTES) // (SAMPLE_CHUNKS - 1))
    if step < SAMPLE_BYTES:
        sample: Bytes = view[: SAMPLE_CHUNKS * SAMPLE_BYTES]
    else:
        sample = b"".join(view[i * step : i * step + SAMPLE_BYTES] for i in range(SAMPLE_CHUNKS))
    # The block format: a frame takes longer to set up than the sample to compress.
    return len(lz4.block.compress(sample, store_size=False)) < MAX_RATIO * len(sample)


def join(parts: Sequence[Bytes], worker: object = None) -> bytes:
    """Make one message of the parts of a body, with the worker's scheme."""
    scheme = scheme_for(worker)
    size = sum(map(len, parts))
    if size >= MIN_BUDGETED_BYTES:
        ask(size)
    if scheme is apply_no_compression or (scheme is apply_lz4_if_it_helps and not helps(parts)):
        return b"".join((b"(", *parts))  # "(" is 40, the scheme byte
    if scheme is apply_lz4_if_it_helps:
        scheme = apply_lz4_compression
    return _compress(b"".join(parts), scheme)


def _compress(decompressed_input_bin: Bytes, scheme: Scheme | None = None) -> bytes:
    """Compress a body and put the scheme byte in front; stored uncompressed if it would not shrink."""
    body, code = (scheme or _apply_compress_scheme)(decompressed_input_bin)
    if code != NO_COMPRESSION and len(body) >= len(decompressed_input_bin):
        body, code = decompressed_input_bin, NO_COMPRESSION
    return b"".join((bytes((code,)), body))


def _decompress(binary: Bytes, limit: int | None = None) -> Bytes:
    """Return the body of a message; at most `limit` bytes (the configured maximum when None)."""
    if limit is None:
        limit = config.current().max_message_bytes
    view = memoryview(binary)
    if not len(view):
        raise SerdeError("An empty message can't be read: the first byte must name its compression scheme.")
    code, body = view[0], view[1:]
    if code == NO_COMPRESSION:
        if len(body) > limit:
            raise _too_large(limit)
        return body
    read = DECOMPRESSORS.get(code)
    if read is None:
        raise CompressionNotFoundError(code)
    try:
        return read(body, limit)
    except SyftError:
        raise
    except Exception as error:
        raise SerdeError(f"The compressed message is damaged ({error}); ask for it again.") from error


def _read_lz4(body: memoryview, limit: int) -> Bytes:
    import lz4.frame

    declared = lz4.frame.get_frame_info(body)["content_size"]
    return _pump(lz4.frame.LZ4FrameDecompressor(), body, declared or None, limit)


def _read_zstd(body: memoryview, limit: int) -> Bytes:
    zstd = _zstd()
    declared = zstd.get_frame_info(body).decompressed_size
    options = {zstd.DecompressionParameter.window_log_max: MAX_ZSTD_WINDOW_LOG}
    return _pump(zstd.ZstdDecompressor(options=options), body, declared, limit)


def _pump(decompressor: Any, body: Bytes, declared: int | None, limit: int) -> bytearray:
    """Decompress one frame piece by piece, so that memory is bounded by the real output."""
    if declared is not None and declared > limit:
        raise _too_large(limit)
    bound = limit if declared is None else declared
    if declared is not None:
        ask(declared)
    out = bytearray()
    feed: Bytes = body
    while not decompressor.eof:
        piece = decompressor.decompress(feed, max_length=min(PIECE, bound - len(out) + 1))
        if not piece and decompressor.needs_input and not decompressor.eof:
            raise SerdeError("The compressed message is cut short; ask for it again.")
        feed = b""
        if declared is None:
            ask(len(piece))
        out += piece
        if len(out) > bound:
            raise _too_large(limit) if declared is None else _wrong_size(declared)
    if declared is not None and len(out) != declared:
        raise _wrong_size(declared)
    if decompressor.unused_data:
        raise SerdeError("The compressed message has bytes after its end; send one message at a time.")
    return out


def _too_large(limit: int) -> SerdeError:
    return SerdeError(
        f"The message is larger than the limit of {limit} bytes; "
        "raise max_message_bytes (syft.config) if you trust its sender."
    )


def _wrong_size(declared: int) -> SerdeError:
    return SerdeError(f"The compressed message does not hold the {declared} bytes it declares.")


DECOMPRESSORS: dict[int, Callable[[memoryview, int], Bytes]] = {LZ4: _read_lz4, ZSTD: _read_zstd}


def opened(binary: bytes | bytearray | memoryview, max_message_bytes: int | None = None) -> memoryview:
    """Return the contents of an untrusted message, within the limit before and after decompression."""
    limit = config.current().max_message_bytes if max_message_bytes is None else max_message_bytes
    try:
        view = memoryview(binary)
        if view.format != "B" or view.ndim != 1:
            view = view.cast("B")
    except TypeError as error:
        raise SerdeError(f"A message must be bytes, not {type(binary).__name__}.") from error
    if len(view) > limit:
        raise SerdeError(f"The message has {len(view)} bytes and the limit (max_message_bytes) is {limit}.")
    return memoryview(_decompress(view, limit))
