"""Initialization: the standard deviations of embedded inputs and of logits."""

import pytest
import torch

from seqloom import build_model, preset_names
from seqloom.batch import EOS, PAD, Padded, pad
from seqloom.models.encoders import Encoder
from seqloom.presets import load_preset

VOCABULARY, SIZE = 300, 64
IDS = torch.arange(EOS, VOCABULARY)[None]


def built(preset, **overrides):
    torch.manual_seed(1)
    return build_model(
        preset, sizes={"source": VOCABULARY, "target": VOCABULARY}, hidden_size=SIZE, overrides=overrides
    )


def expected_std(preset):
    """Smaller for recurrent cells, which have gates."""
    return 1.0 if preset == "transformer" else 0.25


@pytest.mark.parametrize("preset", [p for p in preset_names() if "encoder" in load_preset(p)])
def test_std_of_source_embeddings(preset):
    std = built(preset).source_embedder(Padded(IDS, IDS > 0)).values.std().item()
    assert std == pytest.approx(expected_std(preset), rel=0.05)


@pytest.mark.parametrize("tied", [False, True], ids=["separate", "tied"])
@pytest.mark.parametrize("preset", preset_names())
def test_std_of_target_embeddings(preset, tied):
    std = built(preset, **{"output.tie_output_embeddings": tied}).output.feed(IDS).std().item()
    assert std == pytest.approx(expected_std(preset), rel=0.05)


@pytest.mark.parametrize("tied", [False, True], ids=["separate", "tied"])
@pytest.mark.parametrize("preset", ["recurrent", "transformer"])
def test_logits_have_unit_variance_for_features_with_unit_variance(preset, tied):
    output = built(preset, **{"output.tie_output_embeddings": tied}).output
    features = torch.randn(100, SIZE)
    assert output.logits(features).std().item() == pytest.approx(1, rel=0.05)


def test_padding_is_embedded_as_zeros():
    model = built("recurrent", **{"output.tie_output_embeddings": False})
    assert not model.source_embedder(pad([[PAD]])).values.any()
    assert not model.output.feed(torch.zeros(1, 1, dtype=torch.long)).any()


def test_shared_embeddings_are_scaled_for_encoder_and_decoder_separately():
    model = build_model(
        {"encoder": "recurrent", "bridge": "none", "decoder": "transformer"},
        sizes={"source": VOCABULARY, "target": VOCABULARY},
        hidden_size=SIZE,
        overrides={"share_embeddings": True},
    )
    assert model.source_embedder.embedding is model.output.embedding
    assert torch.allclose(model.output.feed(IDS), 4 * model.source_embedder(Padded(IDS, IDS > 0)).values)


def test_default_embedding_init_std_of_a_custom_encoder():
    class Custom(Encoder):
        pass

    assert Custom().embedding_init_std == 1
