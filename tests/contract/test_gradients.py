"""Gradients: which parameters get one, and that it is right."""

import pytest
import torch
from torch.func import functional_call

from seqloom import build_model, preset_names
from seqloom.batch import PAD
from tests.contract.parts_tables import V
from tests.contract.runs import gradients, make_batch, parameters_without_grad, randomized, uniform_if_no_match


def expected_zeros(model) -> dict[str, slice]:
    """Entries that may get no gradient: the embeddings of PAD, of BOS and EOS on a side without them, and positions
    beyond the longest sequence.
    """
    zeros = {}
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding):
            zeros[f"{path}.weight"] = slice(0, 3)
        if hasattr(module, "table"):
            zeros[f"{path}.table"] = slice(5, None)
    return zeros


def test_every_parameter_gets_a_gradient_or_is_listed(combination):
    """Checks every entry of every parameter, over several batches and random weights."""
    model = combination.build()
    probe = {} if combination.complete else {"probe": uniform_if_no_match}
    sums = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for seed in range(8):  # a ReLU may be inactive with any one of them
        batch = make_batch(randomized(model, seed), seed, [(4, 5), (5, 4), (5, 6)])
        for name, gradient in gradients(model, [batch], **probe).items():
            sums[name] += gradient
    listed = tuple(parameters_without_grad(model))
    zeros = expected_zeros(model)
    for name, gradient in sums.items():
        if name.startswith(listed):
            continue
        if name in zeros:
            gradient[zeros[name]] = 1
        dead = (gradient == 0).nonzero().tolist()
        assert not dead, f"{name} {tuple(gradient.shape)} gets no gradient at {dead[:5]}, {len(dead)} in all"


def test_listed_parameters_get_no_gradient(combination, model):
    found = gradients(model, [make_batch(model, seed) for seed in range(3)])
    for prefix, reason in parameters_without_grad(model).items():
        assert reason
        for name, gradient in found.items():
            assert not name.startswith(prefix) or not gradient.any(), f"{name} gets a gradient"


def test_pad_embedding_gets_no_gradient(combination, model, batch):
    """As an input; in tied output embeddings, PAD is a token like any other."""
    found = gradients(model, [batch])
    tied = combination.row["tie_output_embeddings"]
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding) and not (tied and path == "output.embedding"):
            assert not found[f"{path}.weight"][PAD].any()


@pytest.mark.parametrize("preset", preset_names())
def test_gradients_of_presets_match_finite_differences(preset):
    """Through the whole model and its loss."""
    overrides = {"encoder.layers": 1, "decoder.layers": 1} if preset != "attention-lm" else {}
    overrides |= {"encoder.heads": 1, "decoder.heads": 1} if preset == "transformer" else {}
    model = build_model(preset, sizes={"source": V, "target": V}, hidden_size=2, overrides=overrides)
    randomized(model.double().eval(), 1)
    batch = make_batch(model, 3, [(3, 2), (2, 3)])
    names = [name for name, _ in model.named_parameters()]

    class TotalLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self):
            return self.model.loss(batch).total

    module = TotalLoss()

    def total(*values):
        return functional_call(module, {f"model.{n}": v for n, v in zip(names, values, strict=True)})

    values = tuple(p.detach().clone().requires_grad_() for p in model.parameters())
    assert torch.autograd.gradcheck(total, values, atol=1e-6)
