"""What every registered embedder must do, on ids or on vectors, whichever it takes."""

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import Padded
from seqloom.registry import build
from tests.contract.runs import randomised, same, stepped, teacher_forced
from tests.variants import every, label

SIZE, LENGTHS = 7, (5, 3, 1)
pytestmark = pytest.mark.parametrize("spec", every("embedder"), ids=label)


def inputs() -> list[Padded]:
    """What an embedder may take: ids, or vectors."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(3, SIZE, mask.shape, generator=generator).masked_fill(~mask, 0)
    vectors = torch.randn(*mask.shape, SIZE, generator=generator, dtype=torch.double).masked_fill(~mask[..., None], 0)
    return [Padded(ids, mask), Padded(vectors, mask)]


@pytest.fixture
def embedder(spec):
    return randomised(build("embedder", {"size": 4, **spec}, SIZE).double().eval(), 1)


@pytest.fixture
def given(embedder) -> Padded:
    for padded in inputs():
        try:
            embedder(padded)
        except RuntimeError:
            continue
        return padded
    raise AssertionError("it takes neither ids nor vectors")


def test_padded_goes_in_and_padded_comes_out(embedder, given):
    embedded = embedder(given)
    assert isinstance(embedded, Padded)
    assert embedded.values.shape == (*embedded.mask.shape, embedder.output_size)
    Batch({"source": embedded})  # which checks that every row has a real step, and padding at its end
    gradients = torch.autograd.grad(embedded.values[embedded.mask].sum(), list(embedder.parameters()))
    assert all(gradient.any() for gradient in gradients)


@torch.no_grad()
def test_padding_never_changes_a_result(embedder, given):
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
def test_it_leaves_what_it_is_given_as_it_was(embedder, given):
    before = given.values.clone()
    embedder(given)
    assert torch.equal(given.values, before)


@pytest.mark.parametrize("place", ["source", "memory", "target"])
@pytest.mark.parametrize("preset", ["luong", "transformer"])
@torch.no_grad()
def test_a_model_reads_it_step_by_step_as_at_once(spec, given, preset, place):
    described = {"source": {"size": 4, **spec}}
    fields = {"source": given}
    if place != "source":
        described = {"inputs": {"more": {"embedder": {"size": 4, **spec}, "joins": place}}}
        fields = {"source": Batch.of(None, [[3, 4], [5], [6, 3]]).source, "more": given}
    sizes = {"source": SIZE, "target": SIZE, "more": SIZE}
    model = randomised(build_model(preset, sizes=sizes, size=4, settings=described).double().eval(), 2)
    batch = Batch({**Batch.of([[3, 4], [5, 6, 3], []]).fields, **fields})
    decoded, fed, memory = teacher_forced(model, batch)
    same(torch.stack([step.features for step in stepped(model, fed, memory)], 1), decoded.features)
