"""Headers of pages by hand, in Thrift's compact protocol, and those that pyarrow writes.

Source: apache/thrift, doc/specs/thrift-compact-protocol.md; a second way to the sizes is pyarrow's own footer.
"""

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.readers import parquet_pages
from smoothsweep.core.readers.parquet_pages import DamagedPages, _Compact, page_sizes

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


def varint(value):
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def zigzag(value):
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def struct(*fields):
    """(number, kind, content) -> a structure; a field whose number is not 1 to 15 above the last is written long."""
    written, last = b"", 0
    for number, kind, content in fields:
        step = number - last
        written += (bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + zigzag(number)) + content
        last = number
    return written + b"\0"


def items(kind, contents):
    head = bytes([len(contents) << 4 | kind]) if len(contents) < 15 else bytes([0xF0 | kind]) + varint(len(contents))
    return head + b"".join(contents)


def text(length):
    return varint(length) + b"x" * length


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_of_either_sign(value):
    reader = _Compact(zigzag(value) + b"more")
    assert reader._zigzag() == value and reader.at == len(zigzag(value))


def test_every_kind_of_field_is_passed_over_and_whole_numbers_are_kept():
    deep = struct((1, I32, zigzag(99)), (2, STRUCT, struct((1, BINARY, text(3)))))
    fields = [
        (1, I32, zigzag(5)),
        (2, TRUE, b""),
        (3, FALSE, b""),
        (4, BYTE, b"\x07"),
        (5, DOUBLE, b"\0" * 8),
        (6, BINARY, text(200)),
        (7, STRUCT, deep),
        (8, LIST, items(I32, [zigzag(n) for n in range(3)])),
        (9, LIST, items(STRUCT, [deep] * 16)),
        (10, SET, items(BINARY, [text(n) for n in range(20)])),
        (11, LIST, items(TRUE, [b"\x01"] * 15)),
        (12, LIST, items(FALSE, [b"\x02"] * 2)),
        (13, LIST, items(BYTE, [])),
        (14, I16, zigzag(-6)),
        (30, I64, zigzag(2**40)),
        (300, I32, zigzag(7)),
        (15, I32, zigzag(8)),
        (16, LIST, items(LIST, [items(DOUBLE, [b"\0" * 8] * 2)] * 2)),
        (31, BINARY, text(0)),
        (47, I32, zigzag(9)),
    ]
    content = struct(*fields)
    reader = _Compact(content + b"behind")
    assert reader.struct(0) == {1: 5, 14: -6, 30: 2**40, 300: 7, 15: 8, 47: 9} and reader.at == len(content)
    for cut in range(len(content)):
        with pytest.raises(IndexError):
            _Compact(content[:cut]).struct(0)


@pytest.mark.parametrize("kind", [MAP, 13, 14, 15, 0])
def test_a_kind_that_headers_do_not_have_is_damage(kind):
    content = bytes([0x10 | kind]) + b"\0" * 9
    with pytest.raises(DamagedPages, match=f"holds a field of kind {kind}"):
        _Compact(content).struct(0)


@pytest.mark.parametrize(("depth", "fine"), [(16, True), (17, False)])
@pytest.mark.parametrize("listed", [False, True])
def test_structures_lie_at_most_16_deep(depth, fine, listed):
    content = struct((1, I32, zigzag(1)))
    for _ in range((depth + 1) // 2 if listed else depth):  # a list is a level, too
        content = struct((1, LIST, items(STRUCT, [content]))) if listed else struct((1, STRUCT, content))
    if fine:
        assert _Compact(content).struct(0) is not None
        return
    with pytest.raises(DamagedPages, match="nested too deeply"):
        _Compact(content).struct(0)


def test_a_number_has_at_most_ten_bytes():
    assert _Compact(b"\xff" * 9 + b"\x01")._varint() == 2**64 - 1
    with pytest.raises(DamagedPages, match="more than 64 bits"):
        _Compact(b"\xff" * 10 + b"\x01")._varint()


def page(uncompressed, compressed, statistics=0, kind=0):
    """A page of zeros, with so many bytes of statistics in its header."""
    head = struct(
        (1, I32, zigzag(kind)),
        (2, I32, zigzag(uncompressed)),
        (3, I32, zigzag(compressed)),
        (5, STRUCT, struct((1, I32, zigzag(4)), (5, STRUCT, struct((1, BINARY, text(statistics)))))),
    )
    return head + b"\0" * compressed


def sizes(content, before=b"", after=b""):
    return list(page_sizes(io.BytesIO(before + content + after), len(before), len(content)))


@pytest.mark.parametrize("statistics", [0, 100, 4000, 4096, 70_000, 1_100_000])
def test_pages_follow_each_other_whatever_their_headers_hold(statistics):
    content = b"".join(page(1000 * n, 7 * n, statistics if n % 2 else 3) for n in (3, 1, 4, 0, 5))
    assert sizes(content, before=b"front" * 9, after=page(10**6, 3)) == [3000, 1000, 4000, 0, 5000]
    assert sizes(b"") == []


def test_a_header_ends_within_its_column_and_within_sixteen_megabytes(monkeypatch):
    content = page(10, 3, 500)
    for cut in (1, 5, len(content) - 4):
        with pytest.raises(DamagedPages, match="whose header does not end"):
            sizes(content[:cut], after=content[cut:])
    monkeypatch.setattr(parquet_pages, "_FIRST", 8)
    assert sizes(content * 2) == [10, 10]
    header = len(content) - 3
    for most, fine in ((header, True), (header - 1, False)):
        monkeypatch.setattr(parquet_pages, "_MOST", most)
        if fine:
            assert sizes(content * 2) == [10, 10]
        else:
            with pytest.raises(DamagedPages, match="whose header does not end"):
                sizes(content * 2)


@pytest.mark.parametrize(
    "fields",
    [
        [(2, I32, zigzag(5))],
        [(3, I32, zigzag(5))],
        [(2, I32, zigzag(-1)), (3, I32, zigzag(5))],
        [(2, I32, zigzag(5)), (3, I32, zigzag(-1))],
        [(2, BINARY, text(1)), (3, I32, zigzag(5))],
        [],
    ],
)
def test_a_page_has_both_sizes_and_neither_is_negative(fields):
    good = page(7, 2)
    with pytest.raises(DamagedPages, match="a page without its sizes"):
        sizes(good + struct(*fields) + b"\0" * 9)


@pytest.mark.parametrize(("start", "length"), [(-1, 5), (0, -1), (3, -9)])
def test_a_column_begins_in_the_file(start, length):
    with pytest.raises(DamagedPages, match="begins before the file does"):
        list(page_sizes(io.BytesIO(page(7, 2)), start, length))
    assert list(page_sizes(io.BytesIO(page(7, 2)), 0, 0)) == []


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_the_pages_of_pyarrow_sum_up_to_its_footer(tmp_path, compression, version, dictionary):
    """The footer's size counts headers too: of pages without compression both of its sums are known."""
    draw = random.Random(0)
    table = pa.table(
        {"n": [draw.randrange(50) for _ in range(5000)], "t": [draw.randbytes(9).hex() for _ in range(5000)]}
    )
    path = tmp_path / "t.parquet"
    pq.write_table(
        table,
        path,
        compression=compression,
        data_page_version=version,
        use_dictionary=dictionary,
        data_page_size=2000,
        row_group_size=3000,
    )
    with path.open("rb") as file, pq.ParquetFile(path) as opened:
        data = opened.metadata
        for group in range(data.num_row_groups):
            for column in (data.row_group(group).column(index) for index in range(2)):
                start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
                found = list(page_sizes(file, start, column.total_compressed_size))
                headers = column.total_uncompressed_size - sum(found)
                assert len(found) > 1 and 0 < headers < 100 * len(found)
