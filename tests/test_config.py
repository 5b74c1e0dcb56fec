"""Configurations: overriding, settings by path, and validation."""

import pytest

from seqloom.config import Config, make_config, parse_settings, read_config, to_yaml
from seqloom.errors import ConfigError
from seqloom.merge import merge


def test_later_settings_override_earlier_ones():
    made = make_config({"train": {"epochs": 3, "clip_grad_norm": 2}}, {"train": {"epochs": 4}})
    assert (made.train.epochs, made.train.clip_grad_norm) == (4, 2.0)


COMPLETE = {
    "type": "encoder_decoder",
    "encoder": {"name": "recurrent", "hidden_size": 8, "dropout": 0.1, "cell": {"name": "lstm"}},
    "bridge": {"name": "mine", "hidden_size": 3},
    "decoder": "recurrent",
}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ({"preset": "luong"}, {"preset": "luong"}),
        ({"preset": "luong", "encoder": {"layers": 2}}, {"preset": "luong", "encoder": {"layers": 2}}),
        (
            {"hidden_size": 16},
            {
                **COMPLETE,
                "hidden_size": 16,
                "encoder": {"name": "recurrent", "dropout": 0.1, "cell": {"name": "lstm"}},
                "bridge": {"name": "mine"},
            },
        ),
        (
            {"dropout": 0.5, "encoder": {"dropout": 0.2}},
            merge(COMPLETE, {"dropout": 0.5, "encoder": {"dropout": 0.2}}),
        ),
        ({"encoder": {"layers": 2}}, merge(COMPLETE, {"encoder": {"layers": 2}})),
        ({"hidden_size": None}, {**COMPLETE, "hidden_size": None}),
    ],
)
def test_model_options_override_complete_model(override, expected):
    """Sizes and dropout of the parts of a complete configuration silently took precedence."""
    assert make_config({"model": COMPLETE}, {"model": override}).model == expected


def test_hidden_size_of_model_keeps_options_of_parts_of_preset():
    base = {
        "preset": "cho",
        "hidden_size": 8,
        "source_embedder": {"embedding_size": 4},
        "output": {"label_smoothing": 0.1},
    }
    config = make_config({"model": base}, {"model": {"preset": "luong", "hidden_size": 16}})
    assert config.model == {**base, "preset": "luong", "hidden_size": 16}


@pytest.mark.parametrize(
    ("override", "limits"),
    [
        ({"epochs": 40}, (None, 40)),
        ({"updates": 7}, (7, None)),
        ({"updates": 7, "epochs": 40}, (7, 40)),
        ({"updates": None}, (None, 3)),
        ({"clip_grad_norm": 2}, (500, 3)),
    ],
)
def test_new_limit_replaces_both_limits(override, limits):
    """The configuration of a run has both limits, and the lower one silently applied."""
    train = make_config({"train": {"updates": 500, "epochs": 3}}, {"train": override}).train
    assert (train.updates, train.epochs) == limits


def test_settings_are_parsed_as_yaml():
    parsed = parse_settings(["a.b=1", "a.c=[x, 2.5]", "d=null", "e=text"])
    assert parsed == {"a": {"b": 1, "c": ["x", 2.5]}, "d": None, "e": "text"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.epoch=3", "unknown setting of train: 'epoch'; did you mean 'epochs'?"),
        ("sed=1", "unknown setting: 'sed'; did you mean 'seed'?"),
        ("train.epochs=many", "train.epochs='many' is invalid: it must be an integer"),
        ("train.clip_grad_norm=-1", "train.clip_grad_norm=-1 is invalid: it must be at least 0"),
        ("train.optimizer=3", "train.optimizer=3 is invalid: it must be a string or a mapping"),
        ("data.header=maybe", "data.header='maybe' is invalid: it must be true or false"),
        ("train.precision=float16", "'float32' or 'bfloat16'"),
        ("data.train=3", "data.train=3 is invalid: it must be a list"),
        ("train", "write path=value"),
        ("train..x=1", "write path=value"),
        ("a={", "is not valid YAML"),
    ],
)
def test_invalid_settings_are_rejected(setting, message):
    with pytest.raises(ConfigError) as raised:
        make_config(parse_settings([setting]))
    assert message in str(raised.value)


def test_configuration_round_trips_through_yaml(tmp_path):
    config = make_config({"model": {"preset": "luong"}, "data": {"train": ["a.de", "a.en"]}, "train": {"epochs": 3}})
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(config.model_dump(mode="json")), encoding="utf-8")
    assert make_config(read_config(path)) == config
    assert Config() == make_config()


@pytest.mark.parametrize(
    ("text", "message"),
    [("- 1", "must contain a mapping"), ("a: [", "is not valid YAML"), ("\xff", "not valid YAML")],
)
def test_invalid_file_is_reported(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as raised:
        read_config(path)
    assert message in str(raised.value)
    assert "bad.yaml" in str(raised.value)


def test_missing_file_is_reported(tmp_path):
    with pytest.raises(ConfigError, match="does not exist: seqloom config prints"):
        read_config(tmp_path / "none.yaml")
