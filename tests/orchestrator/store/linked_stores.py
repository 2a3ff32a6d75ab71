"""What the tests of linked stores do to a store."""

import json

from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.common.sealing import sealed


def stages(trials):
    return with_ancestors([stage for trial in trials for stage in trial.stages])


def changed(lab, stage, change):
    """Change the manifest of an artifact and seal it again, as somebody would who wants it to be taken."""
    path = lab.manifest_file(stage.name, stage.fingerprint)
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(sealed(manifest)))
