"""The presets: each builds, learns, and says whose it is."""

import re

import pytest
import torch

from seqloom import Batch, EncoderDecoder, LanguageModel, build_model, preset_names
from seqloom.errors import OptionError, UnknownNameError
from seqloom.presets import load_preset, preset_paper

PRESETS = preset_names()


def built(preset: str, **options):
    return build_model(preset, sizes={"source": 9, "target": 9}, size=8, **options)


def batch_for(model) -> Batch:
    return Batch.of([[3, 4, 5], [6]], [[5, 4], [8, 7, 6]] if isinstance(model, EncoderDecoder) else None)


def test_the_published_architectures_are_there():
    assert {"attention-lm", "bahdanau", "cho", "luong", "sutskever", "transformer"} <= set(PRESETS)
    assert sorted(PRESETS) == PRESETS


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_names_its_paper(preset):
    paper = preset_paper(preset)
    assert re.match(r"[A-Z].* (19|20)\d\d, \"[^\"]{10,}\"", paper), paper


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_learns(preset):
    torch.manual_seed(0)
    model = built(preset)
    batch = batch_for(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    model.eval()
    before = model.loss(batch).mean
    before.backward()
    optimiser.step()
    assert model.loss(batch).mean < before


@pytest.mark.parametrize("preset", PRESETS)
def test_loading_gives_a_copy(preset):
    load_preset(preset).clear()
    assert load_preset(preset)["decoder"]


def test_settings_go_on_top_by_path():
    model = built(
        "luong", settings={"decoder.attention.score": "dot", "output.size": 5, "source": {"name": "tokens"}}
    )
    assert type(model.decoder.attention.score).__name__ == "Dot"
    assert model.output.input_size == 5
    assert load_preset("luong")["decoder"]["attention"] == {"score": "bilinear"}


def test_a_description_is_left_as_it_was():
    description = {"model": "language_model", "decoder": {"name": "transformer", "heads": 2}, "output": "tokens"}
    before = repr(description)
    model = build_model(description, sizes={"target": 5}, size=4, settings={"decoder.layers": 1})
    assert isinstance(model, LanguageModel)
    assert repr(description) == before


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (
            ("bahdanu", {}),
            UnknownNameError,
            "unknown preset 'bahdanu'; did you mean 'bahdanau'?",
        ),
        (("cho", {"sizes": {"target": 5}}), OptionError, "give sizes={'source': …, 'target': …}"),
        (("cho", {"sizes": {"source": 5}}), OptionError, "a model has a target"),
        (({"model": "langauge_model"}, {}), UnknownNameError, "did you mean 'language_model'?"),
        (({"decodr": "recurrent"}, {}), UnknownNameError, "did you mean 'decoder'?"),
        (
            ("cho", {"settings": {"decoder.sise": 3}}),
            UnknownNameError,
            "did you mean 'size'?",
        ),
        (("cho", {"settings": {"decoder": None}}), OptionError, "decoder"),
        (("cho", {"settings": {"encoder": 3}}), OptionError, "encoder"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, error, says):
    description, options = arguments
    with pytest.raises(error) as raised:
        build_model(description, **{"sizes": {"source": 5, "target": 5}, "size": 4, **options})
    assert says in str(raised.value)
