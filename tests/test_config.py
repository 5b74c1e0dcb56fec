"""Configurations: layers, settings by path, and what is refused."""

import pytest

from seqloom.config import Config, make_config, read_config, settings, to_yaml
from seqloom.errors import OptionError
from seqloom.merge import merge


def test_later_layers_go_on_top():
    made = make_config({"train": {"epochs": 3, "clip": 2}}, {"train": {"epochs": 4}})
    assert (made.train.epochs, made.train.clip) == (4, 2.0)


WHOLE = {
    "model": "encoder_decoder",
    "encoder": {"name": "recurrent", "size": 8, "dropout": 0.1, "cell": {"name": "lstm"}},
    "bridge": {"name": "mine", "size": 3},
    "decoder": "recurrent",
}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"preset": "luong"}, {"preset": "luong"}),
        ({"preset": "luong", "encoder": {"layers": 2}}, {"preset": "luong", "encoder": {"layers": 2}}),
        (
            {"size": 16},
            {
                **WHOLE,
                "size": 16,
                "encoder": {"name": "recurrent", "dropout": 0.1, "cell": {"name": "lstm"}},
                "bridge": {"name": "mine"},
            },
        ),
        ({"dropout": 0.5, "encoder": {"dropout": 0.2}}, merge(WHOLE, {"dropout": 0.5, "encoder": {"dropout": 0.2}})),
        ({"encoder": {"layers": 2}}, merge(WHOLE, {"encoder": {"layers": 2}})),
        ({"size": None}, {**WHOLE, "size": None}),
    ],
)
def test_what_is_said_later_of_a_whole_model_wins(said, kept):
    """A complete configuration has sizes and dropout in every part, which silently won."""
    assert make_config({"model": WHOLE}, {"model": said}).model == kept


def test_a_size_for_all_leaves_what_was_set_for_a_part_of_a_preset():
    below = {"preset": "cho", "size": 8, "source": {"size": 4}, "output": {"label_smoothing": 0.1}}
    made = make_config({"model": below}, {"model": {"preset": "luong", "size": 16}})
    assert made.model == {**below, "preset": "luong", "size": 16}


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ({"epochs": 40}, (None, 40)),
        ({"updates": 7}, (7, None)),
        ({"updates": 7, "epochs": 40}, (7, 40)),
        ({"updates": None}, (None, 3)),
        ({"clip": 2}, (500, 3)),
    ],
)
def test_a_limit_that_is_said_later_stands_for_both(said, limits):
    """A run's configuration has both, and the lower one silently held."""
    train = make_config({"train": {"updates": 500, "epochs": 3}}, {"train": said}).train
    assert (train.updates, train.epochs) == limits


def test_settings_are_yaml_by_path():
    parsed = settings(["a.b=1", "a.c=[x, 2.5]", "d=null", "e=text"])
    assert parsed == {"a": {"b": 1, "c": ["x", 2.5]}, "d": None, "e": "text"}


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("train.epoch=3", "unknown setting of train: 'epoch'; did you mean 'epochs'?"),
        ("sed=1", "unknown setting: 'sed'; did you mean 'seed'?"),
        ("train.epochs=many", "train.epochs='many' does not do"),
        ("train.clip=-1", "train.clip=-1 does not do"),
        ("train.precision=float16", "'float32' or 'bfloat16'"),
        ("data.train=3", "data.train=3 does not do"),
        ("train", "write it as path=value"),
        ("train..x=1", "write it as path=value"),
        ("a={", "not a value in YAML"),
    ],
)
def test_what_makes_no_sense_is_refused(setting, says):
    with pytest.raises(OptionError) as raised:
        make_config(settings([setting]))
    assert says in str(raised.value)


def test_a_configuration_survives_its_file(tmp_path):
    made = make_config({"model": {"preset": "luong"}, "data": {"train": ["a.de", "a.en"]}, "train": {"epochs": 3}})
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(made.model_dump(mode="json")), encoding="utf-8")
    assert make_config(read_config(path)) == made
    assert Config() == make_config()


@pytest.mark.parametrize(
    ("text", "says"), [("- 1", "holds no settings"), ("a: [", "is not YAML"), ("\xff", "not YAML")]
)
def test_a_bad_file_is_named(tmp_path, text, says):
    path = tmp_path / "bad.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(OptionError) as raised:
        read_config(path)
    assert says in str(raised.value)
    assert "bad.yaml" in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(OptionError, match="does not exist; seqloom config prints"):
        read_config(tmp_path / "none.yaml")
