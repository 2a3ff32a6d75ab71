"""What shadow models of an audit find, and what they cost, on rendered people."""

import pytest
import torch
from PIL import Image

from smoothsweep.core.data.synthetic.faces import synthetic_faces
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.costs import forecast
from smoothsweep.orchestrator.commands.audit.pages import read_shadows
from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import as_loaded, audit_sweep, audit_trainings, shadow_sweep
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import ImportedClassifier

SIDE, PERSONS, EACH = 32, 6, 12
"""Of rendered people: pixels, how many, and how many images of each to train on, and as many to test on."""

OWN = {"trained_on_data": True, "copies": 1, "levels": 1}


def faces(first):
    """uint8 images of the same people, from that one of each on."""
    return synthetic_faces(
        population="private", identities=PERSONS, per_identity=EACH, size=SIDE, seed=5, first_image=first, spread=0.3
    )


def learnt(images, file):
    """Weights of a network that has learnt these images by heart."""
    torch.manual_seed(0)
    network = build_classifier("resnet_small", PERSONS, protocol="clean")
    pictures, adam = images.images.float() / 127.5 - 1, torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(25):
        for rows in torch.randperm(len(pictures)).split(24):
            adam.zero_grad()
            torch.nn.functional.cross_entropy(network(pictures[rows]), images.labels[rows]).backward()
            adam.step()
    torch.save(network.state_dict(), file)
    return file


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """Rendered people in folders train and test, and by which images a model was trained: the models' folders."""
    root = tmp_path_factory.mktemp("rendered")
    for part, first in (("train", 0), ("test", EACH)):
        for at, (image, label) in enumerate(zip(faces(first).images, faces(first).labels, strict=True)):
            folder = root / "people" / part / f"p{int(label)}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(folder / f"{at:03}.png")
    models = {}
    for name, first in (("own", 0), ("other", 2 * EACH)):
        file, out = learnt(faces(first), root / f"{name}.pth"), root / name
        given = ["--architecture", "resnet_small", "--classes", str(PERSONS), "--image-size", str(SIDE)]
        assert main(["import", "target", str(file), *given, "--input-range", "-1", "1", "--out", str(out)]) == 0
        models[name] = out
    return root, models


def tree_of(root, model, reference, count, **given):
    card = ImportedClassifier(imported=str(model)).checked
    whole = audit_sweep(
        model=model,
        card=card,
        data=root / "people",
        public=root,
        independent={},
        attacks=[{"kind": "random_latents"}],
        people=2,
        seeds=[1, 2],
        has_second=False,
        membership=OWN,
    )
    return shadow_sweep(whole, reference, count, **given)


def test_a_model_that_learnt_the_images_by_heart_is_found_out_and_one_that_never_saw_them_is_not(rendered):
    """Both are attacked by the same shadow models, which are trained once; the reference costs no more of them."""
    root, models = rendered
    card = ImportedClassifier(imported=str(models["own"])).checked
    [reference] = audit_trainings(AuditRequest(reference="", epochs=8), card)
    store, found = open_store(str(root / "store")), {}
    store.open_for_writing()
    for name, model in models.items():
        tree = tree_of(root, model, reference, 4)
        alone = tree_of(root, model, reference, 4, alone=True)
        trials = trials_of(as_loaded(tree))
        assert len(trials) == 2 and trials_of(as_loaded(alone))[0].id == trials[0].id
        assert read_shadows(trials, store) is None
        for stage in (trial.stages[-1] for trial in trials):
            execute_with_inputs(store, stage)
        assert sum(forecast(tree, store)[:2]) == 0
        found[name] = read_shadows(trials, store)
        assert forecast(tree_of(root, model, reference, 8), store).training > 0
    assert len(store.finished("shadow")) == 4, "of both models and of the reference"
    own, other = found["own"], found["other"]
    known = {"count": 4, "recipe": "plain training", "architecture": "resnet_small", "epochs": 8, "persons": PERSONS}
    assert known.items() <= own.items() and own["reference"] == other["reference"]
    assert len(own["reference"]) == len(own["told"])
    strongest, others = (next(by for by in one["told"] if by.has_shadows) for one in (own, other))
    assert strongest.low > 0.6 and strongest.auc > others.auc + 0.1
    assert all(abs(by.auc - 0.5) < 0.2 for by in other["told"] if by.attack == "rmia")
    assert own["seconds"] == pytest.approx(sum(float(store.manifest(one)["seconds"]) for one in shadow_stages(tree)))


def shadow_stages(tree):
    judge = trials_of(as_loaded(tree))[0].stages[-1]
    return [one for one in judge.inputs.values() if one.name == "shadow"]
