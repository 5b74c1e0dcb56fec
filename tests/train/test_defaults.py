"""Defaults that depend on the data: they fit the data, and never change options that are set."""

from unicodedata import normalize

import pytest

from seqloom.config import make_config
from seqloom.data.examples import Example
from seqloom.data.fields import Fields, Text, text_specs
from seqloom.data.texts import TextStatistics
from seqloom.errors import ConfigError, SeqloomError
from seqloom.registry import get_class
from seqloom.train.defaults import TABLE, choose_for_size, choose_tokenizers, choose_updates
from seqloom.train.display import Display
from seqloom.train.run import train
from seqloom.train.validator import metric_spec
from tests.train.small import trained

NAMES = ["aalst", "aambeeld", "aad", "aalbes", "aanbod", "aap", "aarde", "aas", "abdij", "abt"]
SENTENCES = [
    f"A {a} with a {b}{a} stood over the {c}{b} near {a}{c}." for a in NAMES for b in NAMES for c in "uvwxyz"
]
ACTIONS = [" ".join(["I_WALK", "I_TURN_LEFT", "I_JUMP"][n % 3 :] * (n % 5 + 1)) for n in range(60)]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (NAMES, "character"),
        ([f"{a}{b}" + " auf" * (b == "t") for a in NAMES for b in "entsr"], "character"),
        ([f"{n % 28 + 1}. {a} {1900 + 37 * n % 100}" for n, a in enumerate(NAMES * 4)], "character"),
        (["aː l s t", "aː m b eː l t"], "whitespace"),
        (ACTIONS, "whitespace"),
        (["NOUN", "VERB"] * 20, "whitespace"),
        (SENTENCES, "bpe"),
    ],
)
def test_tokenizer_fits_text(texts, kind):
    assert TextStatistics.of(texts).tokenizer == kind


def test_new_words_in_validation_set_make_vocabulary_open():
    config = make_config({})
    pairs = [Example(f"word number {n}", action) for n, action in enumerate(ACTIONS)]
    choose_tokenizers(config, pairs, [Example("word", "I_WALK I_RUN")])
    assert config.data.target_tokenizer == "bpe"


def test_copied_words_select_character_tokenizer():
    """If the new words of the target are not in the source, both sides keep byte-pair encoding."""
    for copied, expected in ((True, "character"), (False, "bpe")):
        names = [f"{a}{b}{c}" for a in NAMES for b in NAMES for c in "uvwxyz"]
        others = names if copied else [name[::-1] for name in names]
        pairs = [
            Example(
                f"call the method {name} of the object and give it to {name}", f"result = self . {other} ( {other} )"
            )
            for name, other in zip(names, others, strict=True)
        ]
        config = make_config({})
        choose_tokenizers(config, pairs)
        assert config.data.target_tokenizer == expected


def test_source_characters_are_decomposed_but_target_characters_are_not():
    """Little data contains few of the thousands of Korean syllables, but all of their letters."""
    config = make_config({})
    pairs = [Example("한국", "é"), Example("국어", "ü")]
    choose_tokenizers(config, pairs)
    fields = Fields(text_specs(config.data.source_tokenizer, config.data.target_tokenizer)).fit(lambda: pairs)
    source, target = (fields[side].tokenizer for side in ("source", "target"))
    assert source.tokens(source.encode(["국한"])[0]) == list(normalize("NFD", "국한"))
    assert target.tokens(target.encode(["é"])[0]) == ["é"]


def test_set_options_are_not_changed():
    given = {
        "model": {"preset": "luong", "hidden_size": 40, "dropout": 0.15},
        "data": {"source_tokenizer": "byte"},
        "train": {
            "batch_tokens": 500,
            "epochs": 3,
            "validation_metric": "per",
            "optimizer": {"lr": 0.5},
            "keep_best_checkpoints": 4,
        },
    }
    config = make_config(given)
    choose_tokenizers(config, [Example("ab", "a b c d"), Example("cd", "e f g")])
    choose_for_size(config, 1000)
    choose_updates(config, 10)
    assert (config.data.source_tokenizer, config.data.target_tokenizer) == ("byte", "whitespace")
    assert config.model["encoder"]["hidden_size"] == 40
    assert config.model["decoder"]["dropout"] == 0.15
    assert config.train.optimizer["lr"] == 0.5
    assert (config.train.batch_tokens, config.train.batch_sentences) == (500, None)
    assert (config.train.updates, config.train.keep_best_checkpoints, config.train.validation_metric) == (
        30,
        4,
        "per",
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("whitespace", "whitespace")),
        ({"source_tokenizer": "byte"}, ("byte", "byte")),
        ({"target_tokenizer": "byte"}, ("byte", "byte")),
        ({"source_tokenizer": "bpe", "target_tokenizer": "character"}, ("bpe", "character")),
    ],
)
def test_joint_vocabulary_uses_tokenizer_of_other_side(given, expected):
    config = make_config({"data": {"share_vocabulary": True, **given}})
    choose_tokenizers(config, [Example("a b c", "a b c d"), Example("c d", "e f g")])
    assert (config.data.source_tokenizer, config.data.target_tokenizer) == expected


def test_joint_tokenizer_is_not_set_for_side_with_field():
    """The resolved configuration set the target tokenizer twice, so it could not be trained again."""
    text = {"name": "text", "tokenizer": "whitespace"}
    config = make_config(
        {"data": {"share_vocabulary": True, "source_tokenizer": "whitespace", "fields": {"target": text}}}
    )
    for _ in range(2):
        choose_tokenizers(config, [Example("a b c", "a b c d"), Example("c d", "e f g")])
    assert (config.data.source_tokenizer, config.data.target_tokenizer) == ("whitespace", None)


def test_joint_vocabulary_with_different_tokenizers_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match=r"share_vocabulary requires equal tokenizers.*byte.* and .*character"):
        trained(tmp_path / "run", {"data": {"share_vocabulary": True, "source_tokenizer": "byte"}})


@pytest.mark.parametrize("pairs", [50, 1000, 10_000, 100_000, 10_000_000])
def test_all_options_are_chosen(pairs):
    config = make_config({"data": {"source_tokenizer": "bpe", "target_tokenizer": "bpe"}})
    messages = [*choose_for_size(config, pairs), *choose_updates(config, 100)]
    assert len(messages) >= 7
    optional = {
        "batch_tokens",
        "batch_sentences",
        "objective",
        "scheduled_sampling",
        "validation_metric",
    }  # the field chooses the metric
    assert None not in config.train.model_dump(exclude=optional).values()


def test_model_and_batch_size_grow_with_data():
    assert [row.size for row in TABLE] == sorted(row.size for row in TABLE)
    batches = [row.batch_sentences or row.batch_tokens for row in TABLE]
    assert batches == sorted(batches)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"preset": "luong", "encodr": {}}, "did you mean 'encoder'"),
        ({"preset": "luong", "encoder": {"hiden_size": 3}}, "did you mean 'hidden_size'"),
        ({"encoder": "recurent"}, "did you mean 'recurrent'"),
    ],
)
def test_misspelled_model_options_are_rejected(model, message):
    with pytest.raises(SeqloomError) as raised:
        choose_for_size(make_config({"model": model}), 1000)
    assert message in str(raised.value)


def test_options_without_effect_are_rejected():
    whole = make_config({"model": {"preset": "luong", "hidden_size": 8}})
    choose_for_size(whole, 1000)
    for more, message in (
        ({"preset": "transformer"}, "model.preset=transformer and model.type can't both be set"),
        ({"hidden_size": 16}, "model.hidden_size=16 has no effect"),
        ({"dropout": 0.1}, "model.dropout=0.1 has no effect"),
    ):
        with pytest.raises(ConfigError) as raised:
            choose_for_size(make_config({"model": {**whole.model, **more}}), 1000)
        assert message in str(raised.value)
    layers = {"model": whole.model}, {"model": {"hidden_size": 16}}
    changed = make_config(*layers)
    choose_for_size(changed, 1000)
    assert {changed.model[part]["hidden_size"] for part in ("encoder", "decoder")} == {16}
    assert {changed.model[part]["embedding_size"] for part in ("source_embedder", "output")} == {16}


def test_invalid_model_is_rejected_before_data_is_prepared(tmp_path):
    invalid = [
        ({"preset": "attention-lm"}, "has no source"),
        ({"encoder": {"hiden_size": 3}}, "did you mean 'hidden_size'"),
    ]
    for model, message in invalid:
        with pytest.raises(SeqloomError, match=message):
            trained(tmp_path / "run", {"model": model})
        assert not (tmp_path / "run").exists()


def test_option_can_be_set_on_default_preset():
    config = make_config({"model": {"encoder": {"layers": 2}, "decoder": {"cell": "gru"}}})
    choose_for_size(config, 1000)
    assert config.model["encoder"]["layers"] == 2
    assert config.model["encoder"]["bidirectional"]
    assert config.model["decoder"]["cell"]["name"] == "gru"


@pytest.mark.parametrize(
    ("tokenizer", "targets", "metric"),
    [
        ("whitespace", ["a l s t"], "sequence_error_rate"),
        ("character", ["aalst"], "exact_match"),
        ("byte", ["aalst"], "exact_match"),
        ("bpe", ["Ein Hund läuft weg.", "Ja."], "bleu"),
        ("character", ["Ein Hund läuft weg.", "Zwei Männer stehen am Tor."], "bleu"),
        ("bpe", ["gehe auf", "gehst auf", "schlafe"], "exact_match"),
        ("bpe", ACTIONS, "exact_match"),
        ("whitespace", ACTIONS, "exact_match"),
        ("bpe", ["Hund", "Hunde"], "exact_match"),  # BLEU needs 4-grams: it would always be 0
        ("word", ["Hund", "Hunde"], "exact_match"),
        ("bpe", [], "exact_match"),
    ],
)
def test_metric_fits_target(tokenizer, targets, metric):
    field = Text(tokenizer={"name": tokenizer, "lowercase": True})
    best, *_ = field.metrics(targets)
    assert metric_spec(best, field) == {"name": metric, "lowercase": True}


def test_validation_metric_of_single_words_is_exact_match(tmp_path):
    folder = trained(
        tmp_path / "run", {"data": {"source_tokenizer": "byte", "target_tokenizer": "bpe"}, "train": {"updates": 2}}
    )
    assert folder.read_config().train.validation_metric == {"name": "exact_match"}


def test_wiring_errors_are_raised_before_data_is_read(tmp_path):
    """Reading the data would first report the missing file."""
    config = make_config(
        {"data": {"train": [str(tmp_path / "missing.tsv")]}, "model": {"decoder": {"context": "none"}}}
    )
    with pytest.raises(SeqloomError) as raised:
        train(config, tmp_path / "run", display=Display())
    assert "missing.tsv" not in str(raised.value)
    assert "decoder" in str(raised.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("preset", "optimizer", "warmup"),
    [
        ("luong", {"name": "adam", "lr": 2e-3}, 200),
        ("transformer", {"name": "adam", "lr": 1e-3, "betas": [0.9, 0.98]}, 1000),
    ],
)
def test_optimizer_and_warmup_fit_the_decoder(preset, optimizer, warmup):
    config = make_config({"model": {"preset": preset}, "train": {"updates": 50_000}})
    choose_for_size(config, 10_000)
    choose_updates(config, 100)
    assert config.train.optimizer == optimizer
    assert config.train.schedule["warmup"] == warmup


def test_any_decoder_can_set_its_learning_rate_and_warmup(monkeypatch):
    monkeypatch.setattr(get_class("decoder", "recurrent"), "adam", {"lr": 0.5})
    monkeypatch.setattr(get_class("decoder", "recurrent"), "warmup", 7)
    config = make_config({"train": {"updates": 50_000}})
    choose_for_size(config, 10_000)
    choose_updates(config, 100)
    assert config.train.optimizer["lr"] == 0.5
    assert config.train.schedule["warmup"] == 7
