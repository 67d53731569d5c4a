"""TensorBoard's event files: an event's bytes, and how they get into the file. The same bytes as TensorBoard's, with less work.

Knows the encoding of one kind of event (protocol buffers: a key, then the value) and the inside of a file writer. A writer that looks
different inside is left alone.
"""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

from rearview.record.background.checksum import Checksum
from rearview.record.background.histograms import Histogram

WRITTEN_FROM = 1 << 18
"""Records are held back up to so many bytes, while others wait."""
_DOUBLE, _BYTES = 1, 2
_ZERO = bytes(8)


def histogram_event(tag: Any, histogram: Histogram, step: Any, walltime: Any) -> bytes | None:
    """An Event with a Summary of one histogram, as protocol buffers encode it; None for what only they can judge."""
    if type(tag) is not str or not tag or not (step is None or (type(step) is int and 0 <= step < 1 << 63)):
        return None
    doubles = ((number, struct.pack("<d", value)) for number, value in enumerate(histogram[:5], start=1))
    histo = b"".join(bytes([number << 3 | _DOUBLE]) + data for number, data in doubles if data != _ZERO)  # zeros are not written
    histo += field(6, histogram.bucket_limits.tobytes()) + field(7, histogram.bucket_counts.tobytes())
    try:
        named = field(1, tag.encode())
    except UnicodeEncodeError:
        return None
    time = struct.pack("<Bd", 1 << 3 | _DOUBLE, float(walltime))
    at = b"\x10" + varint(step) if step else b""
    return time + at + field(5, field(1, named + field(5, histo)))


def field(number: int, data: bytes) -> bytes:
    """A field that holds bytes, text, a message or packed numbers."""
    return bytes([number << 3 | _BYTES]) + varint(len(data)) + data


def varint(number: int) -> bytes:
    """A number in groups of seven bits, lowest first."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def quicken(file: Any, checksum: Checksum) -> Callable[[bytes], None] | None:
    """Let a TensorBoard file writer write the same bytes with less work; gives what writes an event, None if it looks different inside.

    Its own thread computes checksums byte by byte and hands the interpreter back and forth with ours. Ours is in the background already,
    so it writes by itself while nothing waits in the other's queue; the other one still flushes now and then.
    """
    known = getattr(sys.modules.get("tensorboard.summary.writer.record_writer"), "RecordWriter", None)
    try:
        asynchronous = file.event_writer._async_writer
        worker, records = asynchronous._worker, asynchronous._writer
        if type(records) is Records:
            write: Callable[[bytes], None] = asynchronous.write
            return write
        if known is None or type(records) is not known or worker._record_writer is not records:
            return None
        asynchronous._byte_queue.join()
        quick = Records(records._writer, checksum)
        direct = _direct(asynchronous, quick)
        asynchronous._writer = worker._record_writer = quick
        asynchronous.write = direct
    except AttributeError:  # another version of TensorBoard
        return None
    return direct


def _direct(asynchronous: Any, records: Records) -> Callable[[bytes], None]:
    queue, lock, worker, enqueue = asynchronous._byte_queue, asynchronous._lock, asynchronous._worker, asynchronous.write

    def write(data: bytes) -> None:
        with lock:
            mine = queue.unfinished_tasks == 0 and worker.exception is None and not asynchronous._closed
            if mine:
                records.write(data)
                worker._has_pending_data = True  # to be flushed in its time
        if not mine:
            enqueue(data)

    return write


def write_out(file: Any) -> None:
    """Write what is held back for a file writer, if anything is."""
    records = getattr(getattr(getattr(file, "event_writer", None), "_async_writer", None), "_writer", None)
    if type(records) is Records:
        records.write_out()


class Records:
    """Writes TensorFlow's record format: length, checksum of the length, data, checksum of the data.

    TensorBoard's file is opened for every write, so records that come close together are written together.
    """

    def __init__(self, file: Any, checksum: Checksum) -> None:
        self._writer = file
        self._masked = checksum.masked
        self._lock = threading.Lock()
        self._held: list[bytes] = []
        self._held_bytes = 0

    def write(self, data: bytes) -> None:
        """One record."""
        length = struct.pack("<Q", len(data))
        record = b"".join((length, struct.pack("<I", self._masked(length)), data, struct.pack("<I", self._masked(data))))
        with self._lock:
            self._held.append(record)
            self._held_bytes += len(record)
            if self._held_bytes >= WRITTEN_FROM:
                self._write_out()

    def write_out(self) -> None:
        """Write what is held."""
        with self._lock:
            self._write_out()

    def _write_out(self) -> None:
        if self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            self._writer.write(b"".join(held))

    def flush(self) -> None:
        """Hand what was written to the system."""
        with self._lock:
            self._write_out()
            self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._write_out()
            self._writer.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._writer.closed)
