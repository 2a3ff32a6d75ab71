"""What a task reads of the manifest beside an input."""

import json

from smoothsweep.tasks.manifests import config_of, metrics_of


def test_the_configuration_and_what_was_measured(tmp_path):
    said = {"config": {"seed": 3}, "metrics": {"test_acc": 0.5, "ece": None}, "stage": "target"}
    (tmp_path / "manifest.json").write_text(json.dumps(said))
    assert config_of(tmp_path) == {"seed": 3} and metrics_of(tmp_path) == {"test_acc": 0.5, "ece": None}
