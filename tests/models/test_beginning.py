"""The first weights: what a network reads suits it, and logits have a variance of 1."""

import pytest
import torch

from seqloom import build_model, preset_names
from seqloom.batch import END, PAD, Padded, pad
from seqloom.models.encoders import Encoder
from seqloom.presets import load_preset

VOCABULARY, SIZE = 300, 64


def made(preset, **settings):
    torch.manual_seed(1)
    return build_model(preset, sizes={"source": VOCABULARY, "target": VOCABULARY}, size=SIZE, settings=settings)


ids = torch.arange(END, VOCABULARY)[None]


def wanted(preset):
    """Less for what has gates."""
    return 1.0 if preset == "transformer" else 0.25


@pytest.mark.parametrize("preset", [p for p in preset_names() if "encoder" in load_preset(p)])
def test_what_an_encoder_reads(preset):
    assert made(preset).source(Padded(ids, ids > 0)).values.std().item() == pytest.approx(wanted(preset), rel=0.05)


@pytest.mark.parametrize("tied", [False, True], ids=["separate", "tied"])
@pytest.mark.parametrize("preset", preset_names())
def test_what_a_decoder_is_fed(preset, tied):
    assert made(preset, **{"output.tied": tied}).output.feed(ids).std().item() == pytest.approx(
        wanted(preset), rel=0.05
    )


@pytest.mark.parametrize("tied", [False, True], ids=["separate", "tied"])
@pytest.mark.parametrize("preset", ["recurrent", "transformer"])
def test_logits_of_features_with_a_variance_of_1_have_one_too(preset, tied):
    output = made(preset, **{"output.tied": tied}).output
    features = torch.randn(100, SIZE)
    assert output.logits(features).std().item() == pytest.approx(1, rel=0.05)


def test_padding_is_read_as_nothing():
    model = made("recurrent", **{"output.tied": False})
    assert not model.source(pad([[PAD]])).values.any()
    assert not model.output.feed(torch.zeros(1, 1, dtype=torch.long)).any()


def test_two_readers_of_one_table_each_read_it_as_suits_them():
    model = build_model(
        {"source": "tokens", "encoder": "recurrent", "bridge": "none", "decoder": "transformer", "output": "tokens"},
        sizes={"source": VOCABULARY, "target": VOCABULARY},
        size=SIZE,
        settings={"share_embeddings": True},
    )
    assert model.source.embedding is model.output.embedding
    assert torch.allclose(model.output.feed(ids), 4 * model.source(Padded(ids, ids > 0)).values)


def test_a_reader_that_says_nothing_reads_a_deviation_of_1():
    class Reader(Encoder):
        pass

    assert Reader().input_deviation == 1
