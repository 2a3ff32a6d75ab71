"""docs/audit.ipynb: light, without faults, and what it shows is what it gives."""

import os

import nbformat
import pytest
from nbclient import NotebookClient

MOST_BYTES = 60_000


@pytest.fixture(scope="module")
def book(repository):
    return nbformat.read(repository / "docs" / "audit.ipynb", as_version=4)


def outputs(book):
    return [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]


def shown(book):
    """What the cells wrote as text."""
    return "".join(output.get("text", output.get("data", {}).get("text/plain", "")) for output in outputs(book))


def test_it_is_light_and_was_run_in_order(book, repository):
    nbformat.validate(book)
    assert (repository / "docs" / "audit.ipynb").stat().st_size < MOST_BYTES
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)) and len(counts) > 5
    assert all(output.output_type != "error" and output.get("name") != "stderr" for output in outputs(book))
    assert str(repository) not in nbformat.writes(book)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_run_again_it_says_the_same(book, repository, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(repository), os.environ.get("PYTHONPATH", "")]))
    again = nbformat.from_dict(book)
    NotebookClient(
        again, timeout=1500, kernel_name="python3", resources={"metadata": {"path": str(repository / "docs")}}
    ).execute()
    text = shown(again)
    assert "access to its gradients for attack ppa, got access to its labels" in text
    assert "the judge matches" in text and "people are matched" in text
    tables = [output.data["text/html"] for output in outputs(again) if "text/html" in output.get("data", {})]
    assert len(tables) == 3 and "random_latents" in tables[0] and "private-0000" in tables[1]
    assert "smoothing -0.8" in tables[2] and "select augmented_margin" in tables[2]
    assert any("image/png" in output.get("data", {}) for output in outputs(again))
