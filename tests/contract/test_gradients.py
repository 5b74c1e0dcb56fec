"""What learns, and that it learns the right thing."""

import pytest
import torch
from torch.func import functional_call

from seqloom import build_model, preset_names
from seqloom.batch import PAD
from tests.contract.parts_tables import V
from tests.contract.runs import even_where_nothing, gradients, inert, make_batch, randomised


def expected_zeros(model) -> dict[str, slice]:
    """Entries that may stay without a gradient: PAD's embedding, START's and END's on a side that has none, and
    positions behind the longest sequence.
    """
    zeros = {}
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding):
            zeros[f"{path}.weight"] = slice(0, 3)
        if hasattr(module, "table"):
            zeros[f"{path}.table"] = slice(5, None)
    return zeros


def test_every_parameter_learns_or_is_named_inert(combination):
    """Every single entry of every one, over a few batches and draws of the weights."""
    model = combination.build()
    probe = {"probe": even_where_nothing} if combination.row.get("normaliser") == "exact" else {}
    found = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for seed in range(8):  # a ReLU may be shut in any one of them
        batch = make_batch(randomised(model, seed), seed, [(4, 5), (5, 4), (5, 6)])
        for name, gradient in gradients(model, [batch], **probe).items():
            found[name] += gradient
    named = tuple(inert(model))
    zeros = expected_zeros(model)
    for name, gradient in found.items():
        if name.startswith(named):
            continue
        if name in zeros:
            gradient[zeros[name]] = 1
        dead = (gradient == 0).nonzero().tolist()
        assert not dead, f"{name} {tuple(gradient.shape)} gets no gradient at {dead[:5]}, {len(dead)} in all"


def test_what_is_named_inert_is_there_and_gets_no_gradient(combination, model):
    found = gradients(model, [make_batch(model, seed) for seed in range(3)])
    for prefix, reason in inert(model).items():
        assert reason
        for name, gradient in found.items():
            assert not name.startswith(prefix) or not gradient.any(), f"{name} does learn"


def test_padding_is_never_learned(combination, model, batch):
    """The embedding of PAD gets no gradient as an input (as a tied output it is a symbol like any other)."""
    found = gradients(model, [batch])
    tied = combination.row["tied"]
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding) and not (tied and path == "output.embedding"):
            assert not found[f"{path}.weight"][PAD].any()


@pytest.mark.parametrize("preset", preset_names())
def test_the_gradients_of_every_preset(preset):
    """Against finite differences, through the whole model and its loss."""
    settings = {"encoder.layers": 1, "decoder.layers": 1} if preset != "attention-lm" else {}
    settings |= {"encoder.heads": 1, "decoder.heads": 1} if preset == "transformer" else {}
    model = build_model(preset, sizes={"source": V, "target": V}, size=2, settings=settings)
    randomised(model.double().eval(), 1)
    batch = make_batch(model, 3, [(3, 2), (2, 3)])
    names = [name for name, _ in model.named_parameters()]

    class Total(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self):
            return self.model.loss(batch).total

    whole = Total()

    def total(*values):
        return functional_call(whole, {f"model.{n}": v for n, v in zip(names, values, strict=True)})

    values = tuple(p.detach().clone().requires_grad_() for p in model.parameters())
    assert torch.autograd.gradcheck(total, values, atol=1e-6)
