"""What ``build_model`` gives to all parts at once."""

import pytest
import torch

from seqloom import build_model, preset_names
from seqloom.config import make_config
from seqloom.errors import SizeError
from seqloom.merge import by_path
from seqloom.models import build
from seqloom.models.build import check_wiring
from seqloom.nn.dropout import Dropout
from seqloom.nn.embedding import Embedding
from seqloom.nn.multihead import MultiHead
from seqloom.presets import load_preset
from seqloom.train.defaults import model_described


def dropouts(preset: str, **options) -> dict[str, float]:
    """The dropout of every place of a model that has one, by path."""
    model = build_model(preset, sizes={"source": 9, "target": 9}, size=8, **options)
    found = {path: m.p for path, m in model.named_modules() if isinstance(m, Dropout)}
    return found | {path: m.dropout for path, m in model.named_modules() if isinstance(m, MultiHead)}


@pytest.mark.parametrize("preset", preset_names())
def test_one_dropout_for_all_parts(preset):
    assert set(dropouts(preset, dropout=0.35).values()) == {0.35}
    assert set(dropouts(preset, dropout=0.0).values()) == {0.0}
    parts = {path.split(".")[0] for path in dropouts(preset)}
    assert parts == {"source", "encoder", "decoder", "output"} & {*load_preset(preset), "output"}


def test_what_is_said_of_a_part_comes_first():
    found = dropouts(
        "luong", dropout=0.35, settings={"decoder.dropout": 0.1, "output": {"name": "tokens", "dropout": 0}}
    )
    by_part = {path.split(".")[0]: p for path, p in found.items()}
    assert by_part == {"source": 0.35, "encoder": 0.35, "decoder": 0.1, "output": 0}


def test_where_none_is_said_each_part_keeps_its_own():
    assert set(dropouts("luong").values()) == {0.0}
    by_part = {path.split(".")[0]: p for path, p in dropouts("transformer").items()}
    assert by_part == {"source": 0.0, "encoder": 0.1, "decoder": 0.1, "output": 0.0}


@pytest.mark.parametrize("model", ["encoder_decoder", "language_model"])
def test_size_reaches_the_parts_that_a_description_leaves_out(model):
    made = build_model({"model": model}, sizes={"source": 9, "target": 9}, size=6)
    assert made.output.input_size == made.decoder.size == 6
    if model == "encoder_decoder":
        assert made.source.output_size == made.encoder.output_size == 6


def test_a_setting_of_a_part_that_the_description_leaves_out():
    settings = {"output.tied": True, "source.reverse": True}
    made = build_model({}, sizes={"source": 9, "target": 9}, size=6, settings=settings)
    assert made.output.tied
    assert made.source.reverse


@pytest.mark.parametrize(
    "settings",
    [
        {"decoder.attention": {"normaliser": "closest"}},
        {"decoder.attention.normaliser": "closest"},
        {"decoder": {"attention": {"normaliser": "closest"}}},
        {"decoder": "recurrent", "decoder.attention.normaliser": "closest"},
    ],
)
def test_settings_are_merged_as_in_a_configuration(settings):
    """A mapping once replaced all that a preset says of a part: here that attention is additive."""
    made = build_model("bahdanau", sizes={"source": 9, "target": 9}, size=6, settings=settings)
    described = model_described(make_config({"model": {"preset": "bahdanau"}}, {"model": by_path(settings)}))
    expected = build_model(described, sizes={"source": 9, "target": 9}, size=6)
    assert str(made) == str(expected)
    assert "Additive" in str(made)
    assert "Closest" in str(made)


@pytest.mark.parametrize("preset", preset_names())
def test_wiring_is_checked_without_making_numbers(preset, monkeypatch):
    """A model of the size that was asked for once took seconds, and its memory, before any data was read."""
    made = []
    monkeypatch.setattr(build, "build_model", lambda *given, **options: made.append(build_model(*given, **options)))
    before = torch.get_rng_state()
    check_wiring(load_preset(preset), fields={"source": 8, "target": 8}, size=2048)
    assert torch.equal(torch.get_rng_state(), before)
    (model,) = made
    assert next(model.decoder.parameters()).numel() >= 2048
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))


def test_wiring_that_does_not_fit_is_refused():
    described = load_preset("luong") | {"encoder": {"name": "recurrent", "layers": 1}}
    with pytest.raises(SizeError, match="bridge 'state' hands the encoder's last state over"):
        check_wiring(described, fields={"source": 8, "target": 8}, size=64)


def test_a_part_that_reads_its_own_numbers_is_no_reason_to_refuse_a_model(monkeypatch):
    """It can't be tried without numbers, and is made with them later."""
    make = Embedding.__init__

    def made_and_read(self, *given):
        make(self, *given)
        assert self.weight.norm().item() > 0

    monkeypatch.setattr(Embedding, "__init__", made_and_read)
    check_wiring(load_preset("luong"), fields={"source": 8, "target": 8}, size=4)
    build_model("luong", sizes={"source": 8, "target": 8}, size=4)
