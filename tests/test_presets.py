"""Presets: each builds, learns and cites its paper."""

import re

import pytest
import torch

from seqloom import Batch, EncoderDecoder, LanguageModel, build_model, preset_names
from seqloom.errors import ConfigError, UnknownNameError
from seqloom.presets import load_preset, preset_paper

PRESETS = preset_names()


def built(preset: str, **options):
    return build_model(preset, sizes={"source": 9, "target": 9}, hidden_size=8, **options)


def batch_for(model) -> Batch:
    return Batch.from_lists([[3, 4, 5], [6]], [[5, 4], [8, 7, 6]] if isinstance(model, EncoderDecoder) else None)


def test_preset_names_are_sorted_and_complete():
    assert {"attention-lm", "bahdanau", "cho", "luong", "sutskever", "transformer"} <= set(PRESETS)
    assert sorted(PRESETS) == PRESETS


@pytest.mark.parametrize("preset", PRESETS)
def test_header_cites_the_paper_and_lists_deviations(preset):
    header = preset_paper(preset)
    assert re.match(r"[A-Z].* (19|20)\d\d, \"[^\"]{10,}\".*Deviations: ", header), header


@pytest.mark.parametrize("preset", PRESETS)
def test_a_gradient_step_lowers_the_loss(preset):
    torch.manual_seed(0)
    model = built(preset)
    batch = batch_for(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model.eval()
    before = model.loss(batch).mean
    before.backward()
    optimizer.step()
    assert model.loss(batch).mean < before


@pytest.mark.parametrize("preset", PRESETS)
def test_load_preset_returns_a_copy(preset):
    load_preset(preset).clear()
    assert load_preset(preset)["decoder"]


def test_overrides_replace_options_by_path():
    model = built(
        "luong",
        overrides={
            "decoder.attention.score": "dot",
            "output.embedding_size": 5,
            "source_embedder": {"name": "tokens"},
        },
    )
    assert type(model.decoder.attention.score).__name__ == "Dot"
    assert model.output.input_size == 5
    assert model.source_embedder.reverse
    assert load_preset("luong")["decoder"]["attention"] == {"score": "bilinear"}


def test_build_model_does_not_modify_the_description():
    description = {"type": "language_model", "decoder": {"name": "transformer", "heads": 2}, "output": "tokens"}
    before = repr(description)
    model = build_model(description, sizes={"target": 5}, hidden_size=4, overrides={"decoder.layers": 1})
    assert isinstance(model, LanguageModel)
    assert repr(description) == before


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            ("bahdanu", {}),
            UnknownNameError,
            "unknown preset 'bahdanu'; did you mean 'bahdanau'?",
        ),
        (("cho", {"sizes": {"target": 5}}), ConfigError, "needs the size of its source: sizes={'source'"),
        (("cho", {"sizes": {"source": 5}}), ConfigError, "needs the size of its target"),
        (({"type": "langauge_model"}, {}), UnknownNameError, "did you mean 'language_model'?"),
        (({"decodr": "recurrent"}, {}), UnknownNameError, "did you mean 'decoder'?"),
        (
            ("cho", {"overrides": {"decoder.hiden_size": 3}}),
            UnknownNameError,
            "did you mean 'hidden_size'?",
        ),
        (("cho", {"overrides": {"decoder": None}}), ConfigError, "decoder"),
        (("cho", {"overrides": {"encoder": 3}}), ConfigError, "encoder"),
    ],
)
def test_invalid_arguments_are_refused(arguments, error, message):
    description, options = arguments
    with pytest.raises(error) as raised:
        build_model(description, **{"sizes": {"source": 5, "target": 5}, "hidden_size": 4, **options})
    assert message in str(raised.value)
