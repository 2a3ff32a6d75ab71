"""The library door: a tiny network attacked, judged and audited in memory, and what it refuses."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import smoothsweep
from smoothsweep.core.data.labelled import SplitImages
from smoothsweep.core.data.synthetic.faces import synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.classifier import train_classifier
from tests.core.attacks.examples import EXAMPLES, PEOPLE, SIZE
from tests.core.defenses.examples import EXAMPLES as DEFENSES

PPA = {"kind": "ppa", **EXAMPLES["ppa"]}
BREP = {"kind": "brep_mi", **EXAMPLES["brep_mi"]}
RANDOM = {"kind": "random_latents", **EXAMPLES["random_latents"]}
SELECTION = {"kind": "selection_only", **EXAMPLES["selection_only"]}
PRIOR = {"kind": "eigenfaces", "components": 24}
QUIET = {"progress": False}


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(identities=PEOPLE, per_identity=16, size=SIZE, spread=0.6, seed=5, population="private")


@pytest.fixture(scope="module")
def public():
    return synthetic_faces(identities=120, per_identity=1, size=SIZE, spread=0.6, seed=5, population="public").images


@pytest.fixture(scope="module")
def network(faces):
    trained = build_classifier("resnet_small", PEOPLE, pretrained=False, protocol="clean", seed=1)
    recipe = TrainingRecipe(architecture="resnet_small", image_size=SIZE, epochs=12, batch_size=16)
    train_classifier(trained, faces, recipe, seed=1, device="cpu")
    return trained.eval()


@pytest.fixture(scope="module")
def model(network):
    return smoothsweep.Model(network, image_size=SIZE, input_range=(-1, 1))


@pytest.fixture(scope="module")
def ruler(faces):
    return smoothsweep.fit_judge((faces.images, faces.labels), training={"epochs": 12, "batch_size": 16}, **QUIET)


@pytest.fixture(scope="module")
def report(model, faces, public, ruler):
    return smoothsweep.audit(
        model, faces, public, by=ruler, attacks=[RANDOM, PPA, SELECTION], seeds=[1, 2], prior=PRIOR, **QUIET
    )


def test_an_audit_finds_more_than_its_control(report):
    table = report.attacks
    assert list(table["control"]) == [False, False, True] and list(table["access"]) == ["gradients", "scores", "none"]
    ppa, control = table.iloc[0], table.iloc[2]
    assert ppa["leak"] > control["leak"] and ppa["leak"] >= 0.5 and report.beyond.difference > 0
    assert ppa["low"] <= ppa["leak"] <= ppa["high"] and ppa["seeds"] == 2 and ppa["queries"] > 0 and ppa["seconds"] > 0
    asked = table.set_index("access")["queries"]
    assert asked["none"] == 0 and asked["scores"] == 2 * EXAMPLES["ppa"]["pool"]["size"] / PEOPLE
    assert report.test_acc > 0.7 and report.judge == "attack_acc1" and 0 < report.real <= 1
    assert list(report.people["among_five"]) == sorted(report.people["among_five"], reverse=True)
    assert ((report.people["low"] < report.people["rate"]) & (report.people["rate"] < report.people["high"])).all()
    assert f"{100 * ppa['leak']:.1f}" in str(report) and all(line.endswith(".") for line in str(report).splitlines())
    assert report.standing["metric"].tolist() == ["attack_acc1"] and report.standing["control"].notna().all()
    assert report.people["verified"].isna().all() and report.people["control"].between(0, 1).all()
    assert "Not verified" in str(report) and report.membership is None


def halves(faces):
    """A split by every second image; nothing of nothing."""
    if faces is None:
        return None
    inside = torch.arange(len(faces)) % 2 == 0
    return SplitImages(train=faces.subset(inside), test=faces.subset(~inside), notes=())


def test_an_audit_measures_membership_where_it_is_asked_to(model, faces, public, ruler):
    """The same numbers as of the two sets by themselves; the network learnt both halves, so that nothing is found."""
    split = halves(faces)
    given = {"by": ruler, "attacks": [RANDOM, SELECTION], "seeds": [1], "prior": PRIOR, **QUIET}
    found = smoothsweep.audit(model, split, public, trained_on_data=True, **given)
    alone = smoothsweep.membership(model, split.train, split.test, **QUIET)
    pd.testing.assert_frame_equal(found.membership.attacks, alone.attacks)
    assert found.membership.holds and f"{found.membership}" in str(found).replace("\n", " ")


def test_reconstructions_are_tables_arrays_and_pictures(report):
    reconstructions = report.reconstructions
    assert (
        list(reconstructions.table.columns) == ["class", "rank", "score"] and len(reconstructions.table) == PEOPLE * 4
    )
    assert reconstructions.table["score"].between(0, 1).all() and reconstructions.name.startswith("ppa")
    pixels, pictures = reconstructions.images(2), reconstructions.pictures(2)
    assert pixels.shape == (4, SIZE, SIZE, 3) and pixels.dtype == np.uint8
    assert all(isinstance(one, Image.Image) and one.size == (SIZE, SIZE) for one in pictures)
    assert np.array_equal(np.asarray(pictures[0]), pixels[0])
    with pytest.raises(InputError, match="one that was attacked, got 77"):
        reconstructions.images(77)


def test_a_class_follows_from_its_seed_and_nothing_else(model, public, report):
    def images(seed):
        return smoothsweep.attack(model, public, [2], settings=PPA, prior=PRIOR, seed=seed, **QUIET).images(2)

    assert (
        np.array_equal(images(report.reconstructions.seed), report.reconstructions.images(2))
        and report.reconstructions.seed == 1
    )
    assert not np.array_equal(images(2), report.reconstructions.images(2))


def test_a_verdict_tells_whom_the_judge_sees(report, ruler):
    verdict = smoothsweep.judge(report.reconstructions, ruler)
    assert list(verdict.images.columns) == ["class", "name", "rank", "predicted", "hit"]
    assert (verdict.images["hit"] == (verdict.images["predicted"] == verdict.images["class"])).all()
    assert verdict.leak == pytest.approx(verdict.images["hit"].mean()) and verdict.real == ruler.sensitivity
    expected = verdict.images.groupby("class")["hit"].mean().sort_index()
    pd.testing.assert_series_equal(verdict.people.set_index("class")["share"].sort_index(), expected, check_names=False)


def test_labels_alone_serve_an_attack_on_labels_and_no_other_and_access_can_be_lowered(network, model, public):
    def labels_of(images):
        with torch.no_grad():
            return network(images).argmax(1).numpy()

    labels = smoothsweep.Model(labels_of, image_size=SIZE, input_range=(-1, 1), answers="labels", num_classes=PEOPLE)
    reconstructions = smoothsweep.attack(labels, public, [1], settings=BREP, prior=PRIOR, seed=1, **QUIET)
    assert len(reconstructions.images(1)) == 2 and reconstructions.queries > 0
    for lower, access in ((labels, "labels"), (dataclasses.replace(model, access="scores"), "scores")):
        with pytest.raises(InputError, match=f"access to its gradients for attack ppa, got access to its {access}"):
            smoothsweep.attack(lower, public, [1], settings=PPA, prior=PRIOR, **QUIET)


def refusals(model, faces, public):
    attack, audit, fit = smoothsweep.attack, smoothsweep.audit, smoothsweep.fit_judge
    return {
        "a bare network": (lambda: attack(model.classifier, public), "expected smoothsweep.Model"),
        "float pictures": (lambda: attack(model, public.float()), "public: expected images uint8"),
        "no place": (lambda: attack(model, "/nowhere"), "nothing at this path"),
        "a class too many": (lambda: attack(model, public, [PEOPLE], prior=PRIOR), "numbers from 0 to 3, got 4"),
        "a class twice": (lambda: attack(model, public, [1, 1], prior=PRIOR), "each once"),
        "no class": (lambda: attack(model, public, [], prior=PRIOR), "one or more"),
        "an unknown attack": (lambda: attack(model, public, settings={"kind": "magic"}, prior=PRIOR), "attack.kind"),
        "no kind": (lambda: attack(model, public, settings={}, prior=PRIOR), "expected its kind"),
        "a prior without feature maps": (
            lambda: attack(model, public, settings={"kind": "if_gmi"}, prior=PRIOR),
            "prior: expected a StyleGAN2, whose feature maps this attack moves, got 'eigenfaces'",
        ),
        "a wrong setting": (lambda: attack(model, public, settings={**PPA, "steps": 0}, prior=PRIOR), "attack.steps"),
        "pictures that are no squares": (lambda: attack(model, public[..., 1:]), "public: expected images uint8"),
        "pictures as a list": (lambda: attack(model, [1, 2]), "a tensor or a numpy array, got list"),
        "a label that is missing": (lambda: fit((faces.images, faces.labels[1:])), "labels, whole numbers"),
        "a name that is missing": (lambda: fit((faces.images, ["ann"])), "a label for each of 64 images, got 1"),
        "an unknown defense": (lambda: smoothsweep.train(faces, defense={"kind": "magic"}), "defense"),
        "an unknown architecture": (lambda: smoothsweep.train(faces, architecture="magic"), "architecture"),
        "a training of no epochs": (lambda: smoothsweep.train(faces, training={"epochs": 0}), "epochs"),
        "too large a prior": (
            lambda: attack(model, public, prior={**PRIOR, "components": 120}),
            "prior.components: expected fewer than the 120",
        ),
        "an unknown prior": (lambda: attack(model, public, prior={"kind": "magic"}), "prior: expected one of"),
        "a list": (lambda: fit([faces.images]), r"expected \(images, labels\)"),
        "an unknown judge": (lambda: fit(faces, "magic"), "embedder: expected one of"),
        "weights of nothing": (lambda: fit(faces, weights="x"), "expected none for an evaluator"),
        "training of nothing": (lambda: fit(faces, "synthetic", training={}), "which is not trained here"),
        "one seed twice": (lambda: audit(model, faces, public, seeds=[1, 1]), "expected different seeds"),
        "other classes": (lambda: audit(model, faces.subset(faces.labels < 3), public, by="synthetic"), "data|split"),
        "a private picture in public": (
            lambda: audit(model, faces, torch.cat([public, faces.images[3:5]]), prior=PRIOR),
            "got 2 of them: .*row 120.*row 121",
        ),
        "unknown attacks": (lambda: audit(model, faces, public, attacks="all", prior=PRIOR), "quick, adapted, whole"),
        "membership without a split": (
            lambda: audit(model, faces, public, trained_on_data=True, prior=PRIOR),
            "trained_on_data: expected data that say which images are for training and which .*, got no split",
        ),
        "shadow models of nothing": (
            lambda: audit(model, faces, public, shadows=4, prior=PRIOR),
            "shadows: expected none without trained_on_data=True",
        ),
        "an odd shadow model": (
            lambda: audit(model, halves(faces), public, trained_on_data=True, shadows=5, prior=PRIOR),
            "shadows: expected 0, or an even number of at least 4, got 5",
        ),
        "no control": (lambda: audit(model, faces, public, attacks=[PPA], prior=PRIOR), "a control"),
    }


@pytest.mark.parametrize("what", list(refusals(None, None, None)))
def test_wrong_input_is_one_line(what, model, faces, public):
    call, words = refusals(model, faces, public)[what]
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("defense", ["label_smoothing", "mid", "ssd"])
def test_a_model_that_is_trained_here_can_be_attacked(defense, faces, public):
    """A defense that changes the network, one that alters its answers, and none."""
    training = {"epochs": 1, "batch_size": 16, "image_size": SIZE}
    settings = {"kind": defense, **DEFENSES[defense]}
    mine = smoothsweep.train(faces, architecture="resnet_small", defense=settings, training=training, **QUIET)
    assert mine.reads.is_ours and not mine.classifier.training
    assert smoothsweep.attack(mine, public, [0], settings=SELECTION, prior=PRIOR, **QUIET).queries > 0


def test_what_one_call_has_made_does_not_spare_the_next_its_checks(model, faces, public, ruler):
    """Membership asks nothing of the reading; the audit of the same images and weights does."""
    split, wrong = halves(faces), dataclasses.replace(model, input_range=(0, 255))
    smoothsweep.membership(wrong, split.train, split.test, **QUIET)
    with pytest.raises(InputError, match=r"^[^\n]*input_range=\(-1, 1\)[^\n]*$"):
        smoothsweep.audit(wrong, split, public, by=ruler, attacks=[RANDOM, SELECTION], prior=PRIOR, **QUIET)
