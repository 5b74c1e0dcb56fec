"""``build_model``: sizes and dropout of all parts, overrides, and the check of the wiring."""

import pytest
import torch

from seqloom import build_model, preset_names
from seqloom.config import make_config
from seqloom.errors import ShapeError
from seqloom.merge import by_path
from seqloom.models import build
from seqloom.models.build import check_wiring
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import Embedding
from seqloom.nn.multihead import MultiHeadAttention
from seqloom.presets import load_preset
from seqloom.registry import get_class
from seqloom.train.defaults import model_description


def dropouts(preset: str, **options) -> dict[str, float]:
    """The dropout probability of every module that has one, by path."""
    model = build_model(preset, sizes={"source": 9, "target": 9}, hidden_size=8, **options)
    layers = {path: m.p for path, m in model.named_modules() if isinstance(m, Dropout)}
    return layers | {path: m.dropout for path, m in model.named_modules() if isinstance(m, MultiHeadAttention)}


@pytest.mark.parametrize("preset", preset_names())
def test_dropout_reaches_all_parts(preset):
    assert set(dropouts(preset, dropout=0.35).values()) == {0.35}
    assert set(dropouts(preset, dropout=0.0).values()) == {0.0}
    parts = {path.split(".")[0] for path in dropouts(preset)}
    assert parts == {"source_embedder", "encoder", "decoder", "output"} & {*load_preset(preset), "output"}


def test_dropout_of_a_part_overrides_that_of_the_model():
    by_path = dropouts(
        "luong", dropout=0.35, overrides={"decoder.dropout": 0.1, "output": {"name": "tokens", "dropout": 0}}
    )
    by_part = {path.split(".")[0]: p for path, p in by_path.items()}
    assert by_part == {"source_embedder": 0.35, "encoder": 0.35, "decoder": 0.1, "output": 0}


def test_unset_dropout_keeps_the_defaults_of_the_parts():
    assert set(dropouts("luong").values()) == {0.0}
    by_part = {path.split(".")[0]: p for path, p in dropouts("transformer").items()}
    assert by_part == {"source_embedder": 0.0, "encoder": 0.1, "decoder": 0.1, "output": 0.0}


@pytest.mark.parametrize("model_type", ["encoder_decoder", "language_model"])
def test_hidden_size_reaches_parts_missing_from_the_description(model_type):
    model = build_model({"type": model_type}, sizes={"source": 9, "target": 9}, hidden_size=6)
    assert model.output.input_size == model.decoder.hidden_size == 6
    if model_type == "encoder_decoder":
        assert model.source_embedder.output_size == model.encoder.output_size == 6


def test_overrides_of_parts_missing_from_the_description():
    overrides = {"output.tie_output_embeddings": True, "source_embedder.reverse": True}
    model = build_model({}, sizes={"source": 9, "target": 9}, hidden_size=6, overrides=overrides)
    assert model.output.tie_output_embeddings
    assert model.source_embedder.reverse


@pytest.mark.parametrize(
    "overrides",
    [
        {"decoder.attention": {"normalizer": "hard"}},
        {"decoder.attention.normalizer": "hard"},
        {"decoder": {"attention": {"normalizer": "hard"}}},
        {"decoder": "recurrent", "decoder.attention.normalizer": "hard"},
    ],
)
def test_overrides_are_merged_as_in_a_configuration(overrides):
    """A mapping used to replace all options of a preset's part: here the additive score."""
    model = build_model("bahdanau", sizes={"source": 9, "target": 9}, hidden_size=6, overrides=overrides)
    described = model_description(make_config({"model": {"preset": "bahdanau"}}, {"model": by_path(overrides)}))
    expected = build_model(described, sizes={"source": 9, "target": 9}, hidden_size=6)
    assert str(model) == str(expected)
    attention = model.decoder.attention
    assert isinstance(attention.score, get_class("score", "additive"))
    assert isinstance(attention.normalizer, get_class("normalizer", "hard"))


@pytest.mark.parametrize("preset", preset_names())
def test_check_wiring_allocates_no_weights(preset, monkeypatch):
    """It used to build the whole model, which took seconds and its memory before any data was read."""
    built = []
    monkeypatch.setattr(build, "build_model", lambda *args, **options: built.append(build_model(*args, **options)))
    before = torch.get_rng_state()
    check_wiring(load_preset(preset), fields={"source": 8, "target": 8}, hidden_size=2048)
    assert torch.equal(torch.get_rng_state(), before)
    (model,) = built
    assert next(model.decoder.parameters()).numel() >= 2048
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))


def test_check_wiring_refuses_parts_that_do_not_fit():
    described = load_preset("luong") | {"encoder": {"name": "recurrent", "layers": 1}}
    with pytest.raises(ShapeError, match="bridge 'copy' copies the encoder's final state"):
        check_wiring(described, fields={"source": 8, "target": 8}, hidden_size=64)


def test_parts_that_read_their_weights_while_they_are_made_pass_the_wiring_check(monkeypatch):
    """On ``meta`` there are no values to read, so such a part is checked when the model is built."""
    make = Embedding.__init__

    def made_and_read(self, *given):
        make(self, *given)
        assert self.weight.norm().item() > 0

    monkeypatch.setattr(Embedding, "__init__", made_and_read)
    check_wiring(load_preset("luong"), fields={"source": 8, "target": 8}, hidden_size=4)
    build_model("luong", sizes={"source": 8, "target": 8}, hidden_size=4)
