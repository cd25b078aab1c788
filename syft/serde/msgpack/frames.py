"""The layout of a message: a msgpack header, then raw frames outside of the header.

    byte    version (1)
    u32     length of the header            integers are big-endian
    u32     number of frames
    u64     length of each frame
    ...     the header
    ...     the frames, each starting at a multiple of 64 bytes from the start of the whole message,
            the scheme byte that compression puts in front included; padding is zeros

Inside the header a frame is ExtType(1, u32 index) and must be used exactly once, so that a message can't make
the reader copy a frame many times. Integers beyond 64 bits are ExtType(2, signed big-endian bytes).
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]

from syft.exceptions import SerdeError, SyftError
from syft.serde.buffer import Buffer
from syft.serde.msgpack.items import unpack

VERSION = 1
EXT_FRAME = 1
EXT_INT = 2
ALIGNMENT = 64
MAX_FRAMES = 65_536
MAX_INT_BYTES = 64
MAX_HEADER_BYTES = 64 * 2**20  # limits the Python objects that a header unpacks to

_PREFIX = struct.Struct(">BII")
_INDEX = struct.Struct(">I")
_PADDING = bytes(ALIGNMENT)
_ext = msgpack.ExtType._make  # the constructor checks its arguments, at five times the cost

Parts = list[bytes | memoryview]


class _Writer:
    """A packer that collects the frames of its message.

    Its hook runs no user code, so a writer is never re-entered; each is used by one thread at a time.
    """

    __slots__ = ("frames", "packer")

    def __init__(self) -> None:
        self.frames: list[memoryview] = []
        self.packer = msgpack.Packer(default=self._extend, use_bin_type=True)

    def _extend(self, obj: object) -> Any:
        if type(obj) is Buffer:
            self.frames.append(obj.view)
            return _ext((EXT_FRAME, _INDEX.pack(len(self.frames) - 1)))
        if type(obj) is int:
            size = obj.bit_length() // 8 + 1
            if size <= MAX_INT_BYTES:
                return _ext((EXT_INT, obj.to_bytes(size, "big", signed=True)))
            raise SerdeError(f"An int of {size} bytes can't be serialized. The maximum is {MAX_INT_BYTES}.")
        raise SerdeError(f"An object of type {type(obj).__name__} is not simplified; pass simplified=False.")


# Idle writers: list.pop and list.append are atomic, so threads share them without a lock.
_IDLE: list[_Writer] = []


def write(value: object) -> Parts:
    """Return the parts of the body of a simplified value, which are valid as long as the value lives."""
    try:
        writer = _IDLE.pop()
    except IndexError:
        writer = _Writer()
    try:
        header = writer.packer.pack(value)
    except SerdeError:
        raise  # the writer is discarded: its packer may hold half a message
    except Exception as error:
        raise SerdeError(f"A value can't be written: {error}.") from error
    frames = writer.frames
    if len(header) > MAX_HEADER_BYTES:
        raise SerdeError(
            f"The message has {len(header)} bytes of plain values and the limit is {MAX_HEADER_BYTES}; "
            "send large data as tensors or arrays."
        )
    if not frames:
        _IDLE.append(writer)
        return [_PREFIX.pack(VERSION, len(header), 0), header]
    writer.frames = []
    _IDLE.append(writer)
    return _lay_out(header, frames)


def _lay_out(header: bytes, frames: list[memoryview]) -> Parts:
    if len(frames) > MAX_FRAMES:
        raise SerdeError(f"A message holds at most {MAX_FRAMES} tensors, not {len(frames)}; send fewer.")
    lengths = struct.pack(f">{len(frames)}Q", *map(len, frames))
    parts: Parts = [_PREFIX.pack(VERSION, len(header), len(frames)), lengths, header]
    position = 1 + _PREFIX.size + len(lengths) + len(header)
    for frame in frames:
        gap = -position % ALIGNMENT
        parts.append(_PADDING[:gap])
        parts.append(frame)
        position += gap + len(frame)
    return parts


def _read_int(data: bytes) -> int:
    if not 0 < len(data) <= MAX_INT_BYTES:
        raise SerdeError(f"The message holds an int of {len(data)} bytes, not 1 to {MAX_INT_BYTES}.")
    return int.from_bytes(data, "big", signed=True)


def _plain_ext(code: int, data: bytes) -> Any:
    """Read the ext types of a message without frames."""
    if code == EXT_INT:
        return _read_int(data)
    raise SerdeError(f"The message uses the unknown ext type {code}; its sender is not compatible.")


def _refuse_map(pairs: object) -> Any:
    raise SerdeError("The message holds a msgpack map, which is never sent; its sender is not compatible.")


class ReceivedFrames:
    """The frames of a received message, each of which is used once."""

    __slots__ = ("frames", "unused")

    def __init__(self, frames: list[memoryview | None]) -> None:
        self.frames = frames
        self.unused = len(frames)

    def extend(self, code: int, data: bytes) -> Any:
        """Read the ext types of a message with frames."""
        if code != EXT_FRAME or len(data) != _INDEX.size:
            return _plain_ext(code, data)
        return self.take(_INDEX.unpack(data)[0])

    def take(self, index: int) -> memoryview:
        """Return a frame."""
        frame = self.frames[index] if index < len(self.frames) else None
        if frame is None:
            raise SerdeError(f"The message uses its frame {index} twice or does not have it.")
        self.frames[index] = None
        self.unused -= 1
        return frame

    def finish(self) -> None:
        """Refuse a message with unused frames."""
        if self.unused:
            raise SerdeError(f"The message has {self.unused} unused frames; request it again.")


def read(body: memoryview, wire_size: int) -> Any:
    """Read a body: the simplified value, with a memoryview for each frame; the size is that before decompression."""
    if len(body) < _PREFIX.size:
        raise SerdeError("The message is truncated inside its prefix; request it again.")
    version, header_size, count = _PREFIX.unpack_from(body)
    if version != VERSION:
        raise SerdeError(
            f"The message has format version {version} and this version of the library reads only {VERSION}."
        )
    if header_size > MAX_HEADER_BYTES or count > MAX_FRAMES:
        raise SerdeError(f"The message has too large a header ({header_size}) or too many frames ({count}).")
    start = _PREFIX.size + 8 * count
    end = start + header_size
    if len(body) < end or (not count and len(body) != end):
        raise SerdeError(f"The message has {len(body)} bytes and its prefix declares another size.")
    if not count:
        return _unpack(body[start:end], wire_size, _plain_ext)
    frames = ReceivedFrames(_slice(body, struct.unpack_from(f">{count}Q", body, _PREFIX.size), end))
    value = _unpack(body[start:end], wire_size, frames.extend)
    frames.finish()
    return value


def _slice(body: memoryview, lengths: tuple[int, ...], position: int) -> list[memoryview | None]:
    frames: list[memoryview | None] = []
    for length in lengths:
        gap = -(position + 1) % ALIGNMENT
        if any(body[position : position + gap]):
            raise SerdeError("The message has bytes between its frames; request it again.")
        position += gap
        if position + length > len(body):
            raise SerdeError("The message is truncated inside its frames; request it again.")
        frames.append(body[position : position + length])
        position += length
    if position != len(body):
        raise SerdeError(f"The message has {len(body) - position} bytes after its end; send one at a time.")
    return frames


def _unpack(header: memoryview, wire_size: int, ext_hook: object) -> Any:
    try:
        return unpack(header, wire_size, ext_hook, _refuse_map)
    except SyftError:
        raise
    except Exception as error:
        raise SerdeError(f"The message has a damaged header ({type(error).__name__}).") from error
