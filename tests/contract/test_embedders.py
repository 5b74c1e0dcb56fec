"""The contract of every registered embedder, tested with ids or vectors, whichever it accepts."""

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import Padded
from seqloom.registry import build
from tests.contract.runs import SMALL, randomized, same, stepped, teacher_forced
from tests.variants import every, label

SIZE, LENGTHS = 7, (5, 3, 1)
pytestmark = pytest.mark.parametrize("spec", every("embedder"), ids=label)


def inputs() -> list[Padded]:
    """The inputs that an embedder may accept: ids, or vectors."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(3, SIZE, mask.shape, generator=generator).masked_fill(~mask, 0)
    vectors = torch.randn(*mask.shape, SIZE, generator=generator, dtype=torch.double).masked_fill(~mask[..., None], 0)
    return [Padded(ids, mask), Padded(vectors, mask)]


@pytest.fixture
def embedder(spec):
    return randomized(build("embedder", {"embedding_size": 4, **spec}, SIZE).double().eval(), 1)


@pytest.fixture
def given(embedder) -> Padded:
    for padded in inputs():
        try:
            embedder(padded)
        except RuntimeError:
            continue
        return padded
    raise AssertionError("the embedder accepts neither ids nor vectors")


def test_output_is_padded_and_differentiable(embedder, given):
    embedded = embedder(given)
    assert isinstance(embedded, Padded)
    assert embedded.values.shape == (*embedded.mask.shape, embedder.output_size)
    Batch({"source": embedded})  # checks that no row is empty, and that padding is at the end
    gradients = torch.autograd.grad(embedded.values[embedded.mask].sum(), list(embedder.parameters()))
    assert all(gradient.any() for gradient in gradients)


@torch.no_grad()
def test_output_does_not_depend_on_padding(embedder, given):
    together = embedder(given)
    noise = given.values.clone()
    noise[~given.mask] = noise[0, 0].clone()
    noisy = embedder(Padded(noise, given.mask))
    assert torch.equal(noisy.mask, together.mask)
    same(noisy.values[noisy.mask], together.values[together.mask])
    for row, length in enumerate(LENGTHS):
        alone = embedder(Padded(given.values[row : row + 1, :length], given.mask[row : row + 1, :length]))
        same(alone.values[0], together.values[row, together.mask[row]])
        assert alone.mask.all()


@torch.no_grad()
def test_input_is_not_modified(embedder, given):
    before = given.values.clone()
    embedder(given)
    assert torch.equal(given.values, before)


@pytest.mark.parametrize("joins", ["source", "memory", "target"])
@pytest.mark.parametrize("preset", ["luong", "transformer"])
@torch.no_grad()
def test_step_matches_forward_in_a_model(spec, given, preset, joins):
    overrides = {"source_embedder": {"embedding_size": 4, **spec}}
    fields = {"source": given}
    if joins != "source":
        overrides = {"inputs": {"more": {"embedder": {"embedding_size": 4, **spec}, "joins": joins}}}
        fields = {"source": Batch.from_lists(None, [[3, 4], [5], [6, 3]]).source, "more": given}
    sizes = {"source": SIZE, "target": SIZE, "more": SIZE}
    overrides |= SMALL[preset]
    model = randomized(build_model(preset, sizes=sizes, hidden_size=4, overrides=overrides).double().eval(), 2)
    batch = Batch({**Batch.from_lists([[3, 4], [5, 6, 3], []]).fields, **fields})
    decoded, fed, memory = teacher_forced(model, batch)
    same(torch.stack([step.features for step in stepped(model, fed, memory)], 1), decoded.features)
