"""The first weights: what a network reads has a variance of 1, which its weights are made for; so have logits."""

import pytest
import torch

from seqloom import build_model, preset_names
from seqloom.batch import END
from seqloom.presets import load_preset

VOCABULARY, SIZE = 300, 64


def made(preset, **settings):
    torch.manual_seed(1)
    described = load_preset(preset)
    source = {"source_vocabulary": VOCABULARY} if described["model"] == "encoder_decoder" else {}
    return build_model(preset, target_vocabulary=VOCABULARY, size=SIZE, settings=settings, **source)


ids = torch.arange(END, VOCABULARY)[None]


@pytest.mark.parametrize("preset", [p for p in preset_names() if "encoder" in load_preset(p)])
def test_an_encoder_reads_a_variance_of_1(preset):
    model = made(preset)
    assert (model.source(ids) * model.encoder.multiplies).std().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("preset", preset_names())
def test_a_decoder_is_fed_a_variance_of_1_where_the_table_is_not_that_of_the_logits(preset):
    model = made(preset, **{"output.tied": False})
    assert (model.output.feed(ids) * model.decoder.multiplies).std().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("tied", [False, True], ids=["separate", "tied"])
@pytest.mark.parametrize("preset", ["recurrent", "transformer"])
def test_logits_of_features_with_a_variance_of_1_have_one_too(preset, tied):
    output = made(preset, **{"output.tied": tied}).output
    features = torch.randn(100, SIZE)
    assert output.logits(features).std().item() == pytest.approx(1, rel=0.05)


def test_padding_is_read_as_nothing():
    model = made("recurrent", **{"output.tied": False})
    assert not model.source(torch.zeros(1, 1, dtype=torch.long)).any()
    assert not model.output.feed(torch.zeros(1, 1, dtype=torch.long)).any()
