"""Runs of format 1, from before the names of 0.1.0: they predict, evaluate and resume as they did then.

``tests/data/format_1`` holds two runs of 12 updates, their predictions, and the weights and metrics that the version
of then reached when it resumed them to 20 updates.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import seqloom
from seqloom.cli import app
from seqloom.config import DataConfig, TrainConfig, make_config, read_config
from seqloom.merge import by_path
from seqloom.nn.attention import Attention
from seqloom.registry import KINDS, options, parts
from seqloom.renames import KEYS, VALUES, update_names
from seqloom.train.checkpoint import load_weights
from seqloom.train.folder import RunFolder

OLD = Path(__file__).parents[1] / "data" / "format_1"
RUNS = ("recurrent", "transformer")


@pytest.fixture(params=RUNS)
def run(request, tmp_path) -> Path:
    """A copy: commands may write into it."""
    return Path(shutil.copytree(OLD / request.param, tmp_path / request.param))


def test_predictions_of_an_old_run_are_unchanged(run, capsys):
    app(args=["predict", str(run), "--input", str(OLD / "expected" / "input.txt")], standalone_mode=False)
    expected = (OLD / "expected" / f"{run.name}.txt").read_text(encoding="utf-8")
    # Scores are printed with four decimals; another processor may round the last one differently.
    for line, wanted in zip(capsys.readouterr().out.splitlines(), expected.splitlines(), strict=True):
        assert line.split(" ||| ")[:2] == wanted.split(" ||| ")[:2]


def test_an_old_run_resumes_to_the_weights_it_would_have_reached(run):
    """Bit for bit on the machine that wrote them; elsewhere within rounding."""
    app(args=["train", "--resume", str(run), "--set", "train.updates=20"], standalone_mode=False)
    expected = load_file(OLD / "expected" / f"{run.name}.safetensors")
    reached = load_weights(run / "model.safetensors")
    assert len(reached) == len(expected)
    for name, tensor in expected.items():
        new = name.replace("source.", "source_embedder.", 1) if name.startswith("source.") else name
        torch.testing.assert_close(reached[new], tensor, rtol=1e-4, atol=1e-5)
    assert read_config(run / "config.yaml")["format"] == 2


def test_the_validation_metrics_of_an_old_run_continue(run):
    app(args=["train", "--resume", str(run), "--set", "train.updates=20"], standalone_mode=False)
    found, expected = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in (run / "metrics.jsonl", OLD / "expected" / f"{run.name}.metrics.jsonl")
    )
    losses, expected_losses = (
        [record["dev"]["loss"] for record in all_ if "dev" in record] for all_ in (found, expected)
    )
    assert losses == pytest.approx(expected_losses, rel=1e-4)


def test_an_old_configuration_means_what_it_meant(run):
    """Nothing of it is lost: every key has a present name, and the run's own reader finds the same values."""
    settings = read_config(run / "config.yaml")
    updated, renamed = update_names(settings)
    config = RunFolder(run).read_config()
    assert renamed
    assert make_config(updated) == config
    assert config.train.optimizer["lr"] == settings["train"]["optimiser"]["rate"]
    assert config.model["encoder"]["hidden_size"] == settings["model"]["encoder"]["size"]


def test_former_names_in_a_configuration_are_reported():
    with pytest.warns(FutureWarning, match=r"train\.optimiser → train\.optimizer; train\.optimizer\.rate → "):
        config = make_config({"train": {"optimiser": {"name": "adam", "rate": 0.5}}})
    assert config.train.optimizer == {"name": "adam", "lr": 0.5}


def test_former_metrics_are_understood_under_the_former_key_alone():
    with pytest.warns(FutureWarning, match="wer → sequence_error_rate"):
        assert make_config({"train": {"metric": "wer"}}).train.validation_metric == "sequence_error_rate"
    old = {"train": {"metric": {"name": "ser", "unit": "character", "lowercase": True}}}
    with pytest.warns(FutureWarning, match="ser → cer"):
        assert make_config(old).train.validation_metric == {"name": "cer", "lowercase": True}
    assert make_config({"train": {"validation_metric": "wer"}}).train.validation_metric == "wer"  # refused when built


def test_present_names_are_left_alone():
    config = seqloom.load(OLD / "recurrent").config.model_dump(mode="json")
    assert update_names(config) == (config, [])


def test_a_newer_format_is_refused(run):
    text = (run / "config.yaml").read_text(encoding="utf-8")
    (run / "config.yaml").write_text(f"{text}format: 99\n", encoding="utf-8")
    with pytest.raises(seqloom.SeqloomError, match="update seqloom"):
        RunFolder(run).read_config()


def test_every_present_name_exists():
    """A renamed key leads to a setting or to an option of some part; a renamed value, to a part or a choice."""
    settings = {*DataConfig.model_fields, *TrainConfig.model_fields, "type", "hidden_size"}
    known = settings | {name for kind in KINDS for part in parts(kind).values() for name in options(part)}
    known |= set(options(Attention))
    assert set(KEYS.values()) <= known
    names = {name for kind in KINDS for name in parts(kind)}
    choices = {"error", "pre", "post", "first_layer", "second_layer", False, True}
    assert {new for values in VALUES.values() for new in values.values()} <= names | choices


def test_current_names_of_every_part_are_left_alone():
    """A former name that some part still has as an option, or is registered under, is not a former name there."""
    paths = {
        "score": "model.decoder.attention.score",
        "cell": "model.encoder.cell",
        "tokenizer": "data.source_tokenizer",
    }
    paths |= {"optimizer": "train.optimizer", "search": "search", "bridge": "model.bridge", "output": "model.output"}
    paths |= {
        "encoder": "model.encoder",
        "decoder": "model.decoder",
        "normalizer": "model.decoder.attention.normalizer",
    }
    paths |= {"embedder": "model.source_embedder", "positional_encoding": "model.encoder.positional_encoding"}
    for kind, path in paths.items():
        for name, part in parts(kind).items():
            settings = by_path({path: {"name": name, **dict.fromkeys(options(part), 1)}})
            assert update_names(settings) == (settings, [])


def test_a_model_with_attention_by_position_can_be_loaded(tmp_path):
    """Its score has an option ``size``, which is the former name of an option of other scores."""
    score = {"name": "position", "size": 8}
    settings = {"train.updates": 1, "model.decoder.attention.score": score}
    model = seqloom.fit([("a b", "b a")] * 8, hidden_size=8, overrides=settings, quiet=True, out=tmp_path / "run")
    assert model.config.model["decoder"]["attention"]["score"] == score


def test_settings_under_a_former_and_the_current_name_are_joined():
    old = {"train": {"optimizer": {"name": "sgd", "lr": 1.0}, "optimiser": {"weight_decay": 0.5}}}
    with pytest.warns(FutureWarning):
        assert make_config(old).train.optimizer == {"name": "sgd", "lr": 1.0, "weight_decay": 0.5}


@pytest.mark.parametrize(
    "train", [{"validation_metric": "bleu", "metric": "exact"}, {"clip": 1, "clip_grad_norm": 2}]
)
def test_a_setting_given_twice_is_an_error(train):
    with pytest.raises(seqloom.SeqloomError, match="is set twice, once by its former name"):
        make_config({"train": train})
