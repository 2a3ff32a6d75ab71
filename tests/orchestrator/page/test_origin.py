"""A page says which trials it shows, and what it says is read back as it was written."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.page.origin import MOST_BYTES, read_origin
from smoothsweep.orchestrator.page.render import render
from tests.orchestrator.made_reports import HOSTILE


def test_a_page_names_its_store_its_sweep_and_every_trial(make_data, tmp_path):
    data = make_data(title=HOSTILE, facts={"Store": 's3://a/"b"'})
    path = tmp_path / "report.html"
    path.write_text(render(data))
    said = read_origin(path)
    assert (said.sweep, said.store) == (HOSTILE, 's3://a/"b"')
    assert set(said.trials) == set(data.every_trial["trial"]) and len(said.trials) > 2


@pytest.mark.parametrize(
    "head",
    ["", "<meta name='smoothsweep'>", "<meta name='smoothsweep' content='[[[['>", "x" * MOST_BYTES + "<meta>"],
)
def test_another_page_is_refused_in_one_line(tmp_path, head):
    path = tmp_path / "other.html"
    path.write_text(head)
    with pytest.raises(InputError, match="expected a page of `smoothsweep report`") as refused:
        read_origin(path)
    assert "\n" not in str(refused.value)
