"""Columns of a Parquet file: as pyarrow reads them at once, whatever wrote the pages; else one line."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.data.sources import list_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.parquet import LEAST_BUDGET, UnreadableTable, read_columns


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 60),
    group=st.integers(1, 25),
    seed=st.integers(0, 99),
    page=st.sampled_from([100, 5000]),
    version=st.sampled_from(["1.0", "2.0"]),
    dictionary=st.booleans(),
    wrapped=st.booleans(),
    compression=st.sampled_from(["none", "snappy", "zstd", "gzip"]),
    index=st.booleans(),
)
def test_columns_are_what_pyarrow_reads(
    tmp_path_factory, rows, group, seed, page, version, dictionary, wrapped, compression, index
):
    path = tmp_path_factory.mktemp("t") / "x.parquet"
    draw = np.random.default_rng(seed)
    images = [draw.bytes(int(draw.integers(0, 300))) for _ in range(rows)]
    columns = {
        "label": [int(label) for label in draw.integers(0, 4, rows)],
        "other": list(range(rows)),
        "image": [{"path": "x", "bytes": image} for image in images] if wrapped else images,
        "split": draw.choice(["train", "test"], rows).tolist(),
    }
    pq.write_table(
        pa.table(columns),
        path,
        row_group_size=group,
        data_page_size=page,
        data_page_version=version,
        use_dictionary=dictionary,
        compression=compression,
        write_page_index=index,
    )
    found = read_columns(path, ("split", "image", "label", "absent"), encoded=("image",))
    assert found.rows == rows and found.names == tuple(columns)
    assert found.values == {"image": images, "label": columns["label"], "split": columns["split"]}


def twice(path, name, read=list_labelled):
    """A table with two columns of one name, which pyarrow writes without a word."""
    columns = {"image": [b"x", b"y"], "label": [0, 1], "split": ["train", "test"]}
    pq.write_table(pa.table([*columns.values(), columns[name]], names=[*columns, name]), path)
    with pytest.raises(InputError) as raised:
        read(path)
    return str(raised.value)


@pytest.mark.parametrize("name", ["image", "label", "split"])
def test_two_columns_of_one_name_are_one_line(tmp_path, name):
    assert twice(tmp_path / "x.parquet", name) == f"data {tmp_path}/x.parquet: expected one column '{name}', got 2"


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([0, 1], pa.timestamp("ms")),
        pa.array([b"a", b"b"]),
    ],
)
def test_a_label_of_another_type_is_one_line(tmp_path, column):
    pq.write_table(pa.table({"image": [b"x", b"y"], "label": column}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="expected numbers or names in 'label', got"):
        list_labelled(tmp_path / "x.parquet")


def test_names_that_are_no_text_are_one_line(tmp_path):
    names = pa.array([b"\xff\xfe", b"b"]).view(pa.string())
    pq.write_table(pa.table({"image": [b"x", b"y"], "identity": names}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="got an unreadable file"):
        list_labelled(tmp_path / "x.parquet")
    with pytest.raises(UnreadableTable):
        read_columns(tmp_path / "x.parquet", ("identity",))


def test_a_file_of_pictures_may_be_as_large_as_it_is(tmp_path, monkeypatch):
    """What does not expand is within the budget, whatever its size; what expands by more than eight is not."""
    monkeypatch.setattr("smoothsweep.core.readers.parquet.LEAST_BUDGET", 1000)
    draw = np.random.default_rng(0)
    pq.write_table(pa.table({"image": [draw.bytes(20_000) for _ in range(40)]}), tmp_path / "x.parquet")
    assert len(list_unlabelled(tmp_path / "x.parquet")) == 40
    pq.write_table(pa.table({"image": [bytes(20_000) for _ in range(40)]}), tmp_path / "y.parquet")
    with pytest.raises(InputError, match="expected values of at most"):
        list_unlabelled(tmp_path / "y.parquet")
    assert LEAST_BUDGET == 512 * 2**20


def test_a_null_picture_is_named_by_its_row(tmp_path):
    wrapped = [{"bytes": b"x"}, None, {"bytes": None}]
    pq.write_table(pa.table({"image": wrapped, "label": [0, 1, 1]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="row 1: expected a picture in 'image', got null"):
        list_labelled(tmp_path / "x.parquet")
