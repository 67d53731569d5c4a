"""A record of a plain number as one struct: what the short way of `recorder.log` packs. The same bytes as any other record."""

from __future__ import annotations

import struct

from rearview.store import frames

HEAD = struct.Struct("<BBII")
"""The first fields of a record that stay the same for a name in a block: kind, flags, name id, block id."""
_FLOAT_RECORD = struct.Struct(f"<II{HEAD.size}sQIQcd")
FLOAT_LENGTH = _FLOAT_RECORD.size - frames.TAIL.size
FLOAT_FRAME = _FLOAT_RECORD.size + frames.CRC.size
pack_float = _FLOAT_RECORD.pack
pack_int = struct.Struct(f"<II{HEAD.size}sQIQcq").pack
