"""A plugin of pytest (`-p tests.noticed_arrays`) that notes which golden arrays each test reads.

At the end a line per array and test is added to the file that NOTICED_ARRAYS names: file of the array, its name, the
test without its parameters; tab between them.
"""

import os
from pathlib import Path

import numpy as np
import pytest

SEEN = set()
_READ = np.lib.npyio.NpzFile.__getitem__


def _reading(file, name):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0].partition("[")[0]
    SEEN.add((Path(file.zip.filename).name, name, test))
    return _READ(file, name)


def pytest_configure(config: pytest.Config) -> None:
    np.lib.npyio.NpzFile.__getitem__ = _reading


def pytest_unconfigure(config: pytest.Config) -> None:
    np.lib.npyio.NpzFile.__getitem__ = _READ
    with Path(os.environ["NOTICED_ARRAYS"]).open("a") as out:
        out.writelines("\t".join(row) + "\n" for row in sorted(SEEN))
