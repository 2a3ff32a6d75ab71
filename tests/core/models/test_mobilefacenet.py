"""The two MobileFaceNet layouts: key names, shapes, the face frame, and real weights where they are at hand."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from smoothsweep.core.models.embedders import MobileFaceNetA, MobileFaceNetB, load_embedder, to_template

DATA = Path(__file__).parents[3].parent / "shared" / "data"

SHAPES = {
    MobileFaceNetA: {
        "conv1.conv.weight": (64, 3, 3, 3),
        "conv1.prelu.weight": (64,),
        "dw_conv1.conv.weight": (64, 1, 3, 3),
        "blocks.0.conv.0.weight": (128, 64, 1, 1),
        "blocks.5.conv.3.weight": (256, 1, 3, 3),
        "blocks.14.conv.7.running_var": (128,),
        "conv2.conv.weight": (512, 128, 1, 1),
        "linear7.conv.weight": (512, 1, 7, 6),
        "linear1.conv.weight": (128, 512, 1, 1),
        "linear1.bn.num_batches_tracked": (),
    },
    MobileFaceNetB: {
        "conv1.0.weight": (64, 3, 3, 3),
        "conv1.1.running_mean": (64,),
        "dw_conv.pointwise.weight": (64, 64, 1, 1),
        "dw_conv.bn2.bias": (64,),
        "features.0.conv.0.0.weight": (128, 64, 1, 1),
        "features.5.conv.1.0.weight": (256, 1, 3, 3),
        "features.14.conv.3.weight": (128,),
        "conv2.1.weight": (512,),
        "gdconv.depthwise.weight": (512, 1, 7, 7),
        "conv3.bias": (128,),
        "bn.running_mean": (128,),
    },
}


@pytest.mark.parametrize("architecture", SHAPES)
def test_state_dict_has_the_published_names_and_shapes(architecture):
    state = architecture().state_dict()
    for name, shape in SHAPES[architecture].items():
        assert tuple(state[name].shape) == shape
    assert not any("linear7.prelu" in name or "linear1.prelu" in name for name in state)
    parameters = sum(parameter.numel() for parameter in architecture().parameters())
    assert 0.99e6 < parameters < 1.03e6


def test_template_places_the_frame_and_repeats_its_edge():
    images = torch.arange(88.0).view(1, 1, 88, 1).expand(1, 3, 88, 88) / 88
    template = to_template(images)
    assert template.shape == (1, 3, 112, 112)
    assert torch.equal(template[:, :, 24:, 12:100], images)
    assert torch.equal(template[:, :, 0], template[:, :, 24])
    assert torch.equal(template[..., 0], template[..., 12]) and torch.equal(template[..., 111], template[..., 99])
    assert torch.equal(to_template(torch.full((1, 3, 64, 64), 0.25)), torch.full((1, 3, 112, 112), 0.25))


def _labelled_faces() -> tuple[torch.Tensor, np.ndarray]:
    table = pd.read_parquet(DATA / "lfw-faces" / "faces.parquet")
    counts = table.label.value_counts()
    people = sorted(counts[counts >= 15].index)[:10]
    table = table[table.label.isin(people)].groupby("label").head(8)
    pixels = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in table.image]
    return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float() / 127.5 - 1, table.label.to_numpy()


@pytest.mark.parametrize("name", ["mobilefacenet_a", "mobilefacenet_b"])
def test_real_weights_verify_real_people(name):
    weights = DATA / "weights" / f"{name}.safetensors"
    if not weights.is_file() or not (DATA / "lfw-faces" / "faces.parquet").is_file():
        pytest.skip("the MobileFaceNet weights or the labelled faces are not here")
    images, labels = _labelled_faces()
    features = load_embedder(name, weights)(images)
    cosines = (features @ features.T).numpy()
    pairs = np.triu_indices(len(labels), 1)
    same = (labels[:, None] == labels)[pairs]
    genuine, impostor = cosines[pairs][same], cosines[pairs][~same]
    area_under_curve = (genuine[:, None] > impostor[None]).mean()
    assert area_under_curve > 0.95
