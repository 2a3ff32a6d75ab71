import torch
from torch import nn

from smoothsweep.core.defenses.regularisers import Loft
from smoothsweep.core.models.classifiers import Classifier


def narrow(features, classes, rank, **settings):
    """The defense on a network whose features are its inputs, in evaluation mode."""
    model = Classifier("resnet_small", nn.Flatten(), nn.Linear(features, classes))
    Loft(rank=rank, **settings).prepare(model, generator=torch.Generator().manual_seed(0))
    return model.eval().requires_grad_(False)


def test_logits_of_a_hand_computed_example():
    model = narrow(2, 3, 2)
    model.neck.narrow.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    model.neck.narrow.bias.zero_()
    model.head.weight.copy_(torch.tensor([[1.0, 1.0], [1.0, -1.0], [0.0, 3.0]]))
    model.head.bias.copy_(torch.tensor([0.0, 0.5, 0.0]))
    logits = model(torch.tensor([[0.5, -0.25]]))
    torch.testing.assert_close(logits, torch.tensor([[0.0, 1.424234, -1.386351]]), rtol=0, atol=1e-4)


def test_logits_have_the_rank_and_the_bound_that_are_claimed():
    model = narrow(40, 12, 3)
    images = 100 * torch.randn(64, 40, generator=torch.Generator().manual_seed(1))
    logits, weight, bias = model(images), model.head.weight, model.head.bias
    assert torch.linalg.matrix_rank((logits - bias).double(), rtol=1e-5) == 3
    assert model.embed(images).shape == (64, 3) and model.embed(images).abs().max() <= 1
    torch.testing.assert_close(model.head(model.embed(images)), logits)
    gaps = (logits[:, :, None] - logits[:, None, :]).abs().amax(0)
    most = (weight[:, None] - weight[None]).abs().sum(2) + (bias[:, None] - bias[None]).abs()
    assert (gaps <= most + 1e-4).all() and gaps.max() > 0.1


def test_size_of_the_published_head():
    def of(model):
        return sum(parameter.numel() for parameter in model.parameters())

    assert of(narrow(2048, 530, 50)) == 133_576 and of(narrow(2048, 530, 50, norm=False)) == 133_576 - 2 * 2048
    assert of(nn.Linear(2048, 530)) == 1_085_970
