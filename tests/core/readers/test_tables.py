"""Tables of a store or a bundle: plain columns alone, whatever this process has registered."""

import ast
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.parquet import read_columns
from smoothsweep.core.readers.tables import read_rows

OPENERS = {
    "read_parquet",
    "ParquetFile",
    "ParquetDataset",
    "read_table",
    "read_metadata",
    "read_schema",
    "read_feather",
}


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
@pytest.mark.parametrize("nested", [False, True])
def test_a_column_type_of_somebody_else_is_refused_and_never_runs(tmp_path, marked, storage, values, nested):
    column = pa.ExtensionArray.from_storage(marked(storage), pa.array(values, storage))
    column = pa.StructArray.from_arrays([column], names=["inner"]) if nested else column
    path = tmp_path / "per_class.parquet"
    pq.write_table(pa.table({"class": [0, 1], "odd": column}), path)
    marked.ran.clear()
    for columns in (None, ["class"], ["odd"]):
        with pytest.raises(InputError) as refused:
            read_rows(path, columns)
        assert str(path) in str(refused.value) and "'odd'" in str(refused.value)
    assert read_columns(path, ("class",)).values == {"class": [0, 1]}  # as data from outside it is what it is stored as
    assert not marked.ran


@pytest.mark.parametrize("column", [[b"bytes"], [[1, 2]], [{"a": 1}]], ids=str)
def test_a_column_that_is_not_plain_is_refused(tmp_path, column):
    pq.write_table(pa.table({"odd": column}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="'odd'"):
        read_rows(tmp_path / "x.parquet")


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


def test_nothing_else_of_the_product_opens_a_table(repository):
    """Nor anything in `core/readers` but the one function that keeps types of others from running."""
    found = set()
    for room in ("core", "tasks", "sweeps", "orchestrator", "smoothsweep"):
        for path in (repository / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                called = node.func if isinstance(node, ast.Call) else None
                name = getattr(called, "attr", getattr(called, "id", None))
                modules = [alias.name for alias in getattr(node, "names", ())] if isinstance(node, ast.Import) else []
                modules += (
                    [f"{node.module}.{alias.name}" for alias in node.names]
                    if isinstance(node, ast.ImportFrom) and node.module
                    else []
                )
                others = any(
                    module.startswith(("pyarrow.dataset", "pyarrow.feather", "pyarrow.orc")) for module in modules
                )
                if name in OPENERS or others:
                    found.add(path.relative_to(repository).as_posix())
    assert found == {"core/readers/tables.py"}
