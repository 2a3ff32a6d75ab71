"""What tasks write comes back as it was."""

import pandas as pd
import pyarrow.parquet as pq
import torch

from smoothsweep.core.data.images import ImageSet
from smoothsweep.tasks import files


def test_tensors_come_back_whatever_their_memory_order(tmp_path):
    given = {"a": torch.arange(12).view(3, 4).T, "b": torch.zeros(0, 3), "c": torch.tensor([1.5, torch.inf])}
    path = tmp_path / "new" / "folder" / "x.safetensors"
    files.save_tensors(path, given)
    found = files.load_tensors(path)
    assert set(found) == set(given) and all(torch.equal(found[name], given[name]) for name in given)
    assert [entry.name for entry in path.parent.iterdir()] == ["x.safetensors"]


def test_images_come_back_with_labels_and_names(tmp_path):
    images = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    for part, labels in (("train", [0, 1, 1, 0]), ("test", [1, 1, 0, 0])):
        given = ImageSet(images=images, labels=torch.tensor(labels), names=("Zoë", "Ann"))
        files.save_images(tmp_path, part, given)
    for part, labels in (("train", [0, 1, 1, 0]), ("test", [1, 1, 0, 0])):
        found = files.load_images(tmp_path, part)
        assert torch.equal(found.images, images) and found.labels.tolist() == labels and found.names == ("Zoë", "Ann")
    assert (tmp_path / "names.json").read_text() == '["Zoë", "Ann"]'


def test_rows_come_back_without_an_index_compressed(tmp_path):
    rows = pd.DataFrame({"class": [3, 1], "share": [0.5, None]}, index=[7, 8])
    files.save_rows(tmp_path / "rows.parquet", rows)
    found = pd.read_parquet(tmp_path / "rows.parquet")
    pd.testing.assert_frame_equal(found, rows.reset_index(drop=True))
    assert pq.ParquetFile(tmp_path / "rows.parquet").metadata.row_group(0).column(0).compression == "ZSTD"
