"""Small labelled image sets as files, tables and folders, for the tests of the readers."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from smoothsweep.core.errors import InputError


def pixels(seed, height=8, width=8):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def scene(seed, side=96):
    """A smooth picture that is like no other one."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)


def encoded(image, kind="PNG", **options):
    if isinstance(image, np.ndarray):
        image = Image.fromarray(image)
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(seed, height=8, width=8):
    return encoded(pixels(seed, height, width))


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def people(path, per_class=4, classes=3, **changes):
    """A regular table: `classes` people with `per_class` images, the last one of each for the test."""
    n = per_class * classes
    labels = [i // per_class for i in range(n)]
    columns = {
        "image": [png(i) for i in range(n)],
        "label": labels,
        "identity": ["person %d" % label for label in labels],  # noqa: UP031
        "split": ["test" if i % per_class == per_class - 1 else "train" for i in range(n)],
    }
    columns.update(changes)
    return parquet(path, **{name: column for name, column in columns.items() if column is not None})


def folders(root, layout):
    """layout: relative path -> bytes."""
    for name, content in layout.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return root


def regular_folders(root):
    return folders(root, {f"{c}/{i}.png": png(10 * k + i) for k, c in enumerate(("ann", "bob")) for i in range(5)})


def refusal(function, *arguments, **options):
    """The one line with which the call is refused."""
    with pytest.raises(InputError) as raised:
        function(*arguments, **options)
    message = str(raised.value)
    assert "\n" not in message
    return message
