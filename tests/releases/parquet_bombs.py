"""Parquet files written by hand, which say whatever a test wants them to say.

References: Apache Parquet format 2.10, ``parquet.thrift``; Thrift compact protocol.
"""

import struct

INT64, DOUBLE = 2, 5
PLAIN, RLE_DICTIONARY = 0, 8
UNCOMPRESSED, ZSTD = 0, 6
MAGIC = b"PAR1"


class I64(int):
    """A whole number of 64 bits; others have 32."""


def number(value):
    """Return a natural number in groups of seven bits."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def written(value):
    """Return the kind of a value and its bytes in Thrift's compact protocol."""
    if isinstance(value, dict):
        return 12, thrift(value)
    if isinstance(value, list):
        kinds = [written(item) for item in value] or [(12, b"")]
        return 9, bytes([len(value) << 4 | kinds[0][0]]) + b"".join(part for _, part in kinds)
    if isinstance(value, bytes):
        return 8, number(len(value)) + value
    return 6 if isinstance(value, I64) else 5, number(value << 1 if value >= 0 else -2 * value - 1)


def thrift(fields):
    """Return a structure of numbered fields."""
    out, last = bytearray(), 0
    for at, value in sorted(fields.items()):
        kind, content = written(value)
        out += bytes([at - last << 4 | kind]) + content
        last = at
    return bytes(out) + b"\0"


def data_page(values, content, *, size=None, encoding=RLE_DICTIONARY):
    """Return a data page that claims to hold so many values in so many bytes."""
    said = {1: values, 2: encoding, 3: 3, 4: 3}
    size = len(content) if size is None else size
    return thrift({1: 0, 2: size, 3: len(content), 5: said}) + content


def dictionary_page(numbers):
    """Return the dictionary of a column of floating-point numbers."""
    content = struct.pack(f"<{len(numbers)}d", *numbers)
    return (
        thrift({1: 2, 2: len(content), 3: len(content), 7: {1: len(numbers), 2: PLAIN}}) + content
    )


def constant(values):
    """Return the pages of a column of 7.0, so many times, in one run."""
    return dictionary_page([7.0]), data_page(values, b"\1" + number(values << 1) + b"\0")


def parquet(path, columns, *, rows, codec=UNCOMPRESSED, changes=None):
    """Write required columns of floating-point numbers: ``columns`` holds pages by name.

    ``changes`` are fields of the metadata of each column that say something else than is true.
    """
    content, chunks = bytearray(MAGIC), []
    for name, pages in columns.items():
        start = len(content)
        content += b"".join(pages)
        said = {1: DOUBLE, 2: [PLAIN, RLE_DICTIONARY], 3: [name.encode()], 4: codec}
        said |= {5: I64(rows), 6: I64(len(content) - start), 7: I64(len(content) - start)}
        said |= (
            {9: I64(start + len(pages[0])), 11: I64(start)} if len(pages) > 1 else {9: I64(start)}
        )
        chunks.append({2: I64(start), 3: said | (changes or {})})
    leaves = [{1: DOUBLE, 3: 0, 4: name.encode()} for name in columns]
    group = {1: chunks, 2: I64(len(content)), 3: I64(rows)}
    footer = thrift(
        {1: 1, 2: [{4: b"schema", 5: len(columns)}, *leaves], 3: I64(rows), 4: [group], 6: b"test"}
    )
    path.write_bytes(bytes(content) + footer + struct.pack("<I", len(footer)) + MAGIC)
