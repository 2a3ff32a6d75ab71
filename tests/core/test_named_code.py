"""What a table names is found in its module, below a package or not."""

import pytest

from smoothsweep.core.named_code import load_named
from smoothsweep.core.text import suggestion


@pytest.mark.parametrize(
    ("place", "package"),
    [("smoothsweep.core.text:suggestion", ""), ("text:suggestion", "smoothsweep.core.")],
)
def test_a_name_stands_for_what_its_module_has(place, package):
    assert load_named(place, package) is suggestion


@pytest.mark.parametrize(
    ("place", "error"), [("smoothsweep.core.text:none", AttributeError), ("no_such_module:a", ModuleNotFoundError)]
)
def test_what_is_not_there_is_an_error_of_python(place, error):
    with pytest.raises(error):
        load_named(place)
