"""CRC-32C of a TensorBoard record, computed by NumPy instead of byte by byte in the interpreter. Pure.

TensorBoard's own loop needs a millisecond for a histogram and keeps the interpreter meanwhile: that alone was a third of what
conservative logging cost. The checksum is linear: each byte contributes a value that depends on it and on its distance from the end. So
the contributions of 256 bytes are looked up and xored at once, and only the sums of such rows are carried along one by one.
"""

from __future__ import annotations

from typing import Any

POLYNOMIAL = 0x82F63B78
ROW = 256
_MASK_DELTA = 0xA282EAD8
_ALL = 0xFFFFFFFF


def byte_table() -> list[int]:
    """What each byte does to an empty register."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


class Checksum:
    """CRC-32C over whole messages."""

    def __init__(self, numpy: Any) -> None:
        self._np = numpy
        table = numpy.array(byte_table(), dtype=numpy.uint32)
        row = [table]
        while len(row) < ROW:  # one more zero byte behind it
            row.append(table[row[-1] & 0xFF] ^ (row[-1] >> numpy.uint32(8)))
        self._table = table.tolist()
        self._row = numpy.concatenate(row[::-1])
        """What a byte at a place of a row contributes: place * 256 + byte."""
        self._place = numpy.arange(ROW, dtype=numpy.intp) * 256
        self._carry = self._past_a_row()

    def _past_a_row(self) -> list[list[int]]:
        """What each byte of the register becomes when a row of zeros follows."""
        # A register is as if its four bytes were xored into the four that follow, so these are four places of a row.
        return [self._row[place * 256 : place * 256 + 256].tolist() for place in range(4)]

    def crc(self, data: bytes) -> int:
        """The CRC-32C."""
        if len(data) < ROW:
            return self._by_byte(data)
        np = self._np
        rows = -(-len(data) // ROW)
        message = np.zeros(rows * ROW, np.uint8)  # zeros in front change nothing while the register is empty
        begin = len(message) - len(data)
        message[begin:] = np.frombuffer(data, np.uint8)
        message[begin : begin + 4] ^= np.uint8(0xFF)  # instead of a register full of ones at the beginning
        contributions = self._row.take(message.reshape(rows, ROW) + self._place)
        a, b, c, d = self._carry
        register = 0
        for value in np.bitwise_xor.reduce(contributions, axis=1).tolist():
            register = a[register & 0xFF] ^ b[register >> 8 & 0xFF] ^ c[register >> 16 & 0xFF] ^ d[register >> 24] ^ value
        return register ^ _ALL

    def _by_byte(self, data: bytes) -> int:
        table, register = self._table, _ALL
        for byte in data:
            register = table[(register ^ byte) & 0xFF] ^ register >> 8
        return register ^ _ALL

    def masked(self, data: bytes) -> int:
        """As it stands in record files: rotated, plus a constant."""
        crc = self.crc(data)
        return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL
