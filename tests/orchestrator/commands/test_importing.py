"""The commands that bring things in: official weights, data sets on disk, published weight files."""

import json
import os

import pytest
import torch
from official_pickle import write_official_pickle
from published_trees import facescrub
from safetensors.torch import load_file
from torchvision.models import resnet18

from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.registry import load_discriminator, load_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.tasks.training import restored_classifier
from tests.foreign_classifier import PEOPLE, SIDE
from tests.orchestrator.commands.owned_model import IMAGENET
from tests.tiny import write_tiny

TINY = StyleGAN2Config(resolution=16, z_dim=8, w_dim=8, mapping_layers=1, channel_base=128, channel_max=8)
ACTORS = (("actors", "A_B", 12), ("actresses", "C_D", 12), ("actresses", "E_F", 12))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """As the official trainer writes it."""
    path = tmp_path_factory.mktemp("checkpoint") / "Classifier_9000.pth"
    torch.manual_seed(0)
    state = {f"model._orig_mod.{key}": value for key, value in resnet18(num_classes=3).state_dict().items()}
    torch.save({"epoch": 100, "model_state_dict": state, "optimizer_state_dict": {}}, path)
    return path


def words(value):
    """A path is one word, whatever is in it."""
    return value.split() if isinstance(value, str) else [str(value)]


def target_arguments(checkpoint, out, **changes):
    options = {"architecture": "resnet18", "classes": 3, "image_size": 32, "out": out, **changes}
    given = {f"--{key.replace('_', '-')}": value for key, value in options.items() if value is not None}
    flags = [part for flag, value in given.items() for part in (flag, *words(value))]
    return ["import", "target", str(checkpoint), *flags]


def test_a_pickle_becomes_a_prior_that_a_sweep_can_name(tmp_path, capsys):
    write_official_pickle(tmp_path / "ffhq.pkl", TINY)
    assert main(["import", "prior", str(tmp_path / "ffhq.pkl"), "--store", str(tmp_path / "store")]) == 0
    folder = tmp_path / "store" / "imported" / "priors" / "ffhq"
    said = capsys.readouterr().out
    assert "non-commercial" in said and f"prior: {{kind: folder, path: {folder}}}" in said
    assert load_prior(folder).config == load_discriminator(folder).config == TINY


def test_a_pickle_that_is_none_is_one_line_and_leaves_nothing(tmp_path, capsys):
    (tmp_path / "ffhq.pkl").write_text("<!DOCTYPE html><title>404</title>")
    assert main(["import", "prior", str(tmp_path / "ffhq.pkl"), "--out", str(tmp_path / "prior")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "ffhq.pkl" in error and not (tmp_path / "prior").exists()


def test_a_checkpoint_becomes_a_target_with_its_card(tmp_path, checkpoint, capsys):
    out = tmp_path / "target"
    tree = facescrub(tmp_path / "facescrub", ACTORS, size=40)
    assert main([*target_arguments(checkpoint, out, alpha=-0.05)]) == 0
    card = json.loads((out / "target.json").read_text())
    assert (card["defense"]["kind"], card["defense"]["alpha"]) == ("label_smoothing", -0.05)
    assert card["source"]["epoch"] == 100
    assert (card["version"], card["image_size"], card["mean"], card["class_names"]) == (4, 32, [0.5] * 3, None)
    assert load_file(out / "weights.safetensors")["head.weight"].shape == (3, 512)
    assert "recipe: {imported:" in capsys.readouterr().out
    assert main(target_arguments(checkpoint, out)) == 2  # never over an earlier import
    assert "expected a new folder" in capsys.readouterr().err
    assert main(["data", "check", str(tree), "--as", "facescrub", "--classes", "3"]) == 1
    assert "identities: 3, recorded are 530" in capsys.readouterr().out


def test_of_two_sets_of_weights_the_one_that_is_named_is_taken(tmp_path, capsys):
    state = resnet18(num_classes=3).state_dict()
    averaged = {key: value + 1 for key, value in state.items()}
    torch.save({"state_dict": state, "state_dict_ema": {**averaged, "n_averaged": torch.tensor(2)}}, tmp_path / "x.pth")
    for name, other, expected in (("state_dict_ema", "state_dict", averaged), ("state_dict", "state_dict_ema", state)):
        out = tmp_path / name
        flags = {} if name == "state_dict" else {"weights": name}  # it is the one that is taken unasked
        assert main(target_arguments(tmp_path / "x.pth", out, **flags)) == 0
        said = capsys.readouterr().out
        assert f"{name} is taken" in said and f"--weights takes {other}" in said
        assert ("n_averaged" in said) == (name == "state_dict_ema")
        assert torch.equal(load_file(out / "weights.safetensors")["head.weight"], expected["fc.weight"])
        assert json.loads((out / "target.json").read_text())["source"]["wrapping"] == name
    assert main(target_arguments(tmp_path / "x.pth", tmp_path / "no", weights="emma")) == 2
    assert "state_dict, state_dict_ema; got 'emma'" in capsys.readouterr().err and not (tmp_path / "no").exists()


@pytest.mark.parametrize(("flags", "mean", "std"), [([], 0.0, 1.0), (["--input-range", "-1", "1"], 0.5, 0.5)])
def test_a_low_resolution_checkpoint_is_shown_pictures_in_0_to_1_unless_it_says_otherwise(tmp_path, flags, mean, std):
    backbone = build_classifier("efficientnet_b0", 3, protocol="paper", seed=1)
    named = {
        key.removeprefix("backbone.").replace("head.", "fc_layer."): value
        for key, value in backbone.state_dict().items()
    }
    torch.save({"state_dict": {f"module.{key}": value for key, value in named.items()}}, tmp_path / "student.tar")
    out = tmp_path / "target"
    assert main([*target_arguments(tmp_path / "student.tar", out, architecture="efficientnet_b0"), *flags]) == 0
    card = json.loads((out / "target.json").read_text())
    assert (card["mean"], card["std"]) == ([mean] * 3, [std] * 3)
    reading = ImportedClassifier(imported=str(out)).checked.reading
    weights = load_file(out / "weights.safetensors")
    read = restored_classifier({**reading, "protocol": "paper", "seed": 0}, weights, where="import").eval()
    images = torch.rand(1, 3, 32, 32) * 2 - 1
    with torch.no_grad():
        unit = (images + 1) / 2 if std == 1.0 else images
        torch.testing.assert_close(read(images), backbone.eval().head(backbone.backbone(unit)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"image_size": None}, "--image-size: expected the side in pixels"),
        ({"classes": 4}, "expected 4 classes, got 3"),
        ({"classes": 3, "data": "facescrub"}, "--classes: expected 530 for facescrub, got 3"),
        ({"data_path": "x"}, "--data-path: expected only with --data"),
        ({"architecture": "resnet34"}, "resnet34"),
        ({"architecture": "resnet19"}, "expected one of"),
        ({"image_size": 8}, "at least 32 pixels, got 8"),
        ({"image_size": 0}, "at least 32 pixels, got 0"),
        ({"image_size": 10**9}, "image_size: expected a whole number of at most 2048"),
        ({"classes": 10**9}, "num_classes: expected a whole number of at most 100000"),
        ({"classes": -1}, "num_classes: expected a whole number of at least 2"),
        ({"alpha": "nan"}, "defense.alpha: expected a finite number"),
        ({"alpha": 7}, "defense.alpha: expected a number of at most 1"),
        ({"test_acc": 81.8}, "stated_acc: expected a number of at most 1"),
        ({"data": "no/such/place"}, "--data no/such/place: expected a folder, a Parquet file or one of"),
        ({"class_names": "no-such-file"}, "--class-names no-such-file: expected a name per line"),
        ({"transform_input": "true"}, "transform_input"),
        ({"mean": "0.5 0.5 0.5"}, "--mean, --std: expected both or neither"),
        ({"input_range": "1 0"}, "input range: expected two numbers, the lower one first"),
        ({"input_range": "nan 1"}, "input range: expected two numbers"),
        ({"mean": "0 0 0", "std": "0 1 1"}, "std: expected three numbers > 0"),
        ({"mean": "0 0 nan", "std": "1 1 1"}, "mean: expected three numbers"),
        ({"input_range": "0 1", "mean": "0 0 0", "std": "1 1 1"}, "got both"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_line(tmp_path, checkpoint, capsys, changes, words):
    assert main(target_arguments(checkpoint, tmp_path / "target", **changes)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and words in error
    assert not (tmp_path / "target").exists() and not list(tmp_path.glob(".target*"))


def test_staging_says_what_could_not_be_had_and_where_to_put_it(tmp_path, capsys, monkeypatch):
    from smoothsweep.core.models import weight_files

    def unreachable(*_, **__):
        raise OSError("no network here")

    monkeypatch.setattr(weight_files.urllib.request, "urlopen", unreachable)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    assert main(["weights", "stage", "sweeps/table1_facescrub.yaml", "--dir", str(tmp_path / "w")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["MISS", name] for name in ("resnet152", "inception_v3", "resnet50", "facenet", "fid_inception")
    ]
    assert all("put it there" in line and "no network here" in line for line in lines)
    assert not list((tmp_path / "w").glob("*")) if (tmp_path / "w").exists() else True


def test_a_sweep_without_its_imagenet_weights_starts_nothing(tmp_path, capsys, monkeypatch):
    from smoothsweep.orchestrator.stages.graph import staged_file

    staged_file.cache_clear()
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    arguments = ["run", "sweeps/quickstart.yaml", "--store", str(tmp_path / "store")]
    changes = ["recipe.pretrained=true", "recipe.architecture=resnet18"]
    assert main([*arguments, *(part for change in changes for part in ("--set", change))]) == 2
    assert "pretrained resnet18: expected its ImageNet weights here" in capsys.readouterr().err
    assert not os.path.exists(tmp_path / "store")


@pytest.mark.parametrize(("stated", "code"), [(None, 0), ("0.5", 0), ("0.97", 2), ("1.5", 2)])
def test_a_stated_accuracy_is_held_against_real_images(owned, tmp_path, capsys, stated, code):
    """A classifier that has forgotten two of its six people is taken as it is, unless more is stated of it."""
    root, people, _ = owned
    state = torch.load(root / "own.pth", weights_only=True)
    state["fc.bias"][[1, 4]] -= 1000
    torch.save(state, tmp_path / "blunt.pth")
    given = ["--architecture", "resnet18", "--classes", str(len(PEOPLE)), "--image-size", str(SIDE), *IMAGENET]
    command = ["import", "target", str(tmp_path / "blunt.pth"), *given, "--data", str(people)]
    command += ["--test-acc", stated] if stated else []
    assert main([*command, "--class-names", str(alphabetical(tmp_path)), "--out", str(tmp_path / "out")]) == code
    said = capsys.readouterr().err
    assert (tmp_path / "out").exists() == (code == 0) and said.count("\n") == (code != 0)
    if code == 0:
        card = ImportedClassifier(imported=str(tmp_path / "out")).checked
        assert card.stated_acc == (None if stated is None else pytest.approx(0.5))
    elif stated == "0.97":
        assert "its card states 97.0%" in said


def test_an_order_of_classes_that_fits_is_written_to_a_file_which_is_taken(owned, tmp_path, capsys):
    """As it is, and as JSON that numbers the names, either way round."""
    root, people, _ = owned
    given = ["--architecture", "resnet18", "--classes", str(len(PEOPLE)), "--image-size", str(SIDE), *IMAGENET]
    state, outputs = torch.load(root / "own.pth", weights_only=True), [2, 0, 1, 3, 5, 4]
    state |= {key: state[key][outputs] for key in ("fc.weight", "fc.bias")}
    torch.save(state, tmp_path / "turned.pth")
    command = ["import", "target", str(tmp_path / "turned.pth"), *given, "--data", str(people), "--out"]
    assert main([*command, str(tmp_path / "out")]) == 2
    order = tmp_path / "out.class-names.txt"
    assert f"--class-names {order}" in capsys.readouterr().err and not (tmp_path / "out").exists()
    names = order.read_text().splitlines()
    assert names == [sorted(PEOPLE)[number] for number in outputs]
    (tmp_path / "class_to_idx.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    (tmp_path / "id2label.json").write_text(json.dumps(dict(enumerate(names))))
    for file in (order, tmp_path / "class_to_idx.json", tmp_path / "id2label.json"):
        assert main([*command, str(tmp_path / file.stem), "--class-names", str(file)]) == 0
    (tmp_path / "twice.json").write_text(json.dumps(dict.fromkeys(names, 0)))
    assert main([*command, str(tmp_path / "twice"), "--class-names", str(tmp_path / "twice.json")]) == 2


def alphabetical(folder):
    (folder / "names.txt").write_text("\n".join(sorted(PEOPLE)))
    return folder / "names.txt"


def test_the_report_goes_where_it_is_told(tmp_path, capsys):
    sweep, store = write_tiny(tmp_path), Store(root=tmp_path / "store")
    store.open_for_writing()
    command = ["report", str(sweep), "--store", str(store.root)]
    assert main([*command, "--out", str(tmp_path / "there"), "--set", "name=renamed"]) == 0, capsys.readouterr().err
    assert "renamed" in (tmp_path / "there" / "report.html").read_text()
    assert not list(store.root.glob("sweeps/*/report.html"))
    assert main([*command, "--set", "name=other"]) == 0
    assert [path.parent.name for path in store.root.glob("sweeps/*/report.html")] == ["other"]
