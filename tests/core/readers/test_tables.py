"""Parquet files: as pyarrow and pandas read them, whatever wrote the pages and whatever types are registered."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.data.sources import list_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.tables import LEAST_BUDGET, read_columns, read_rows


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


PAIR = {"image": [b"x", b"y"], "label": [0, 1], "split": ["train", "test"]}
NO_TEXT = pa.array([b"\xff\xfe", b"b"]).view(pa.string())
OTHER = "expected numbers or names in 'label', got"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        *(
            (pa.table([*PAIR.values(), PAIR[name]], names=[*PAIR, name]), f"expected one column '{name}', got 2")
            for name in PAIR
        ),
        (pa.table({**PAIR, "label": [[1], [2]]}), OTHER),
        (pa.table({**PAIR, "label": [{"a": 1}, {"a": 2}]}), OTHER),
        (pa.table({**PAIR, "label": pa.array([0, 1], pa.timestamp("ms"))}), OTHER),
        (pa.table({**PAIR, "label": [b"a", b"b"]}), OTHER),
        (pa.table({"image": [b"x", b"y"], "identity": NO_TEXT}), "got an unreadable file"),
        (
            pa.table({"image": [{"bytes": b"x"}, None], "label": [0, 1]}),
            "row 1: expected a picture in 'image', got null",
        ),
    ],
)
def test_a_table_of_other_columns_is_one_line(tmp_path, table, words):
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InputError) as raised:
        list_labelled(tmp_path / "x.parquet")
    assert words in str(raised.value) and str(tmp_path / "x.parquet") in str(raised.value)


def test_a_file_of_pictures_may_be_as_large_as_it_is(tmp_path, monkeypatch):
    """What does not expand is within the budget, whatever its size; what expands by more than eight is not."""
    monkeypatch.setattr("smoothsweep.core.readers.tables.LEAST_BUDGET", 1000)
    draw = np.random.default_rng(0)
    pq.write_table(pa.table({"image": [draw.bytes(20_000) for _ in range(40)]}), tmp_path / "x.parquet")
    assert len(list_unlabelled(tmp_path / "x.parquet")) == 40
    pq.write_table(pa.table({"image": [bytes(20_000) for _ in range(40)]}), tmp_path / "y.parquet")
    with pytest.raises(InputError, match="expected values of at most"):
        list_unlabelled(tmp_path / "y.parquet")
    assert LEAST_BUDGET == 512 * 2**20


class Marked(pa.ExtensionType):
    """A column type that notes every time its code runs: one that unpickles would do it there."""

    ran: ClassVar[list[bytes]] = []

    def __init__(self, storage=None):
        super().__init__(pa.int64() if storage is None else storage, "smoothsweep.tests.marked")

    def __arrow_ext_serialize__(self):
        return b"anything"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        cls.ran.append(serialized)
        return cls(storage)


@pytest.fixture(params=[True, False], ids=["registered", "unknown"])
def marked(request):
    """The type, known to this process or not."""
    if request.param:
        pa.register_extension_type(Marked())
    Marked.ran.clear()
    yield Marked
    if request.param:
        pa.unregister_extension_type("smoothsweep.tests.marked")


@pytest.mark.parametrize(
    ("storage", "values"),
    [(pa.int64(), [1, 2]), (pa.string(), ["a", "b"]), (pa.binary(), [b"a", b"b"]), (pa.list_(pa.int64()), [[1], [2]])],
    ids=str,
)
def test_a_column_type_of_somebody_else_never_runs(tmp_path, marked, storage, values):
    """It is what it is stored as, and refused unless that is plain."""
    column, path = pa.ExtensionArray.from_storage(marked(storage), pa.array(values, storage)), tmp_path / "x.parquet"
    pq.write_table(pa.table({"class": [0, 1], "odd": column}), path)
    marked.ran.clear()
    if storage in (pa.int64(), pa.string()):
        assert read_rows(path)["odd"].tolist() == values
    else:
        with pytest.raises(InputError, match=rf"{path}.*'odd'"):
            read_rows(path)
    assert read_columns(path, ("class",)).values == {"class": [0, 1]}
    assert not marked.ran


def test_a_type_that_only_pandas_would_make_is_refused(tmp_path):
    pd.DataFrame({"when": pd.period_range("2026", periods=2, freq="D")}).to_parquet(tmp_path / "x.parquet")
    plain = pa.table({"when": [1, 2]})
    note = pq.read_schema(tmp_path / "x.parquet").metadata[b"pandas"]
    pq.write_table(plain.replace_schema_metadata({b"pandas": note}), tmp_path / "y.parquet")
    for name in ("x", "y"):
        with pytest.raises(InputError, match="'when'"):
            read_rows(tmp_path / f"{name}.parquet")


@pytest.mark.parametrize("content", [b"", b"text", b"PAR1" * 3, b"PAR1" + b"\xff" * 30 + b"\x1e\0\0\0PAR1"], ids=len)
def test_what_is_no_table_is_refused(tmp_path, content):
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.parquet"):
        read_rows(tmp_path / "x.parquet")


def test_a_table_of_ours_is_read_as_pandas_reads_it(tmp_path):
    rows = pd.DataFrame(
        {
            "class": np.arange(3, dtype=np.int64),
            "rate": [0.5, np.nan, 1.0],
            "small": np.arange(3, dtype=np.float32),
            "word": ["a", None, "c"],
            "hit": pd.array([True, None, False], dtype="boolean"),
            "count": pd.array([1, None, 3], dtype="Int64"),
            "flag": [True, False, True],
            "nothing": [None, None, None],
        }
    )
    rows.to_parquet(tmp_path / "x.parquet", index=False, compression="zstd")
    for columns in (None, ["hit", "class"]):
        found, known = (
            read_rows(tmp_path / "x.parquet", columns),
            pd.read_parquet(tmp_path / "x.parquet", columns=columns),
        )
        pd.testing.assert_frame_equal(found, known)
    with pytest.raises(InputError, match="'absent'"):
        read_rows(tmp_path / "x.parquet", ["absent"])
