"""What is chosen to suit the data, and that nothing chosen by the person is changed."""

from unicodedata import normalize

import pytest

from seqloom.config import make_config
from seqloom.data.examples import Example
from seqloom.data.fields import Fields, Text, text_specs
from seqloom.data.texts import Kind
from seqloom.errors import OptionError, SeqloomError
from seqloom.registry import find
from seqloom.train.defaults import TABLE, choose, choose_tokenizers, choose_updates
from seqloom.train.display import Display
from seqloom.train.judge import fitting
from seqloom.train.start import train
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
        (["aː l s t", "aː m b eː l t"], "symbols"),
        (ACTIONS, "symbols"),
        (["NOUN", "VERB"] * 20, "symbols"),
        (SENTENCES, "bpe"),
    ],
)
def test_the_tokenizer_fits_the_text(texts, kind):
    assert Kind.of(texts).tokenizer == kind


def test_a_vocabulary_is_not_closed_if_the_validation_set_has_other_words():
    config = make_config({})
    pairs = [Example(f"word number {n}", action) for n, action in enumerate(ACTIONS)]
    choose_tokenizers(config, pairs, [Example("word", "I_WALK I_RUN")])
    assert config.data.target == "bpe"


def test_words_that_are_copied_are_spelled():
    """Both sides would have byte-pair encoding, and still have where the new words are not in the source."""
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
        assert config.data.target == expected


def test_letters_of_a_source_are_taken_apart_and_those_of_a_target_are_not():
    """There are thousands of Korean syllables, of which little data shows few; their letters it shows all."""
    config = make_config({})
    pairs = [Example("한국", "é"), Example("국어", "ü")]
    choose_tokenizers(config, pairs)
    fields = Fields(text_specs(config.data.source, config.data.target)).fit(lambda: pairs)
    source, target = (fields[side].tokenizer for side in ("source", "target"))
    assert source.tokens(source.encode(["국한"])[0]) == list(normalize("NFD", "국한"))
    assert target.tokens(target.encode(["é"])[0]) == ["é"]


def test_what_is_given_stays():
    given = {
        "model": {"preset": "luong", "size": 40, "dropout": 0.15},
        "data": {"source": "byte"},
        "train": {"batch_tokens": 500, "epochs": 3, "metric": "ser", "optimiser": {"rate": 0.5}, "keep": 4},
    }
    config = make_config(given)
    choose_tokenizers(config, [Example("ab", "a b c d"), Example("cd", "e f g")])
    choose(config, 1000)
    choose_updates(config, 10)
    assert (config.data.source, config.data.target) == ("byte", "symbols")
    assert config.model["encoder"]["size"] == 40
    assert config.model["decoder"]["dropout"] == 0.15
    assert config.train.optimiser["rate"] == 0.5
    assert (config.train.batch_tokens, config.train.batch_sentences) == (500, None)
    assert (config.train.updates, config.train.keep, config.train.metric) == (30, 4, "ser")


@pytest.mark.parametrize(
    ("given", "both"),
    [
        ({}, ("symbols", "symbols")),
        ({"source": "byte"}, ("byte", "byte")),
        ({"target": "byte"}, ("byte", "byte")),
        ({"source": "bpe", "target": "character"}, ("bpe", "character")),
    ],
)
def test_a_shared_tokenizer_fills_in_the_side_that_is_missing(given, both):
    config = make_config({"data": {"shared": True, **given}})
    choose_tokenizers(config, [Example("a b c", "a b c d"), Example("c d", "e f g")])
    assert (config.data.source, config.data.target) == both


def test_a_shared_tokenizer_is_not_set_beside_a_field_that_has_it():
    """The configuration of such a run could not be trained again: it set the target's tokenizer twice."""
    text = {"name": "text", "tokenizer": "symbols"}
    config = make_config({"data": {"shared": True, "source": "symbols", "fields": {"target": text}}})
    for _ in range(2):
        choose_tokenizers(config, [Example("a b c", "a b c d"), Example("c d", "e f g")])
    assert (config.data.source, config.data.target) == ("symbols", None)


def test_shared_tokenizers_that_differ_are_refused(tmp_path):
    with pytest.raises(OptionError, match=r"shared tokenizer can't be both .*byte.* and .*character"):
        trained(tmp_path / "run", {"data": {"shared": True, "source": "byte"}})


@pytest.mark.parametrize("pairs", [50, 1000, 10_000, 100_000, 10_000_000])
def test_everything_is_chosen(pairs):
    config = make_config({"data": {"source": "bpe", "target": "bpe"}})
    said = [*choose(config, pairs), *choose_updates(config, 100)]
    assert len(said) >= 7
    optional = {"batch_tokens", "batch_sentences", "objective", "sampling", "metric"}  # the field chooses the metric
    assert None not in config.train.model_dump(exclude=optional).values()


@pytest.mark.parametrize(
    ("preset", "optimiser", "warmup"),
    [
        ("luong", {"name": "adam", "rate": 2e-3}, 200),
        ("transformer", {"name": "adam", "rate": 1e-3, "betas": [0.9, 0.98]}, 1000),
    ],
)
def test_training_suits_the_decoder(preset, optimiser, warmup):
    config = make_config({"model": {"preset": preset}, "train": {"updates": 50_000}})
    choose(config, 10_000)
    choose_updates(config, 100)
    assert config.train.optimiser == optimiser
    assert config.train.schedule["warmup"] == warmup


def test_any_decoder_says_how_it_is_trained_best(monkeypatch):
    monkeypatch.setattr(find("decoder", "recurrent"), "adam", {"rate": 0.5})
    monkeypatch.setattr(find("decoder", "recurrent"), "warmup", 7)
    config = make_config({"train": {"updates": 50_000}})
    choose(config, 10_000)
    choose_updates(config, 100)
    assert config.train.optimiser["rate"] == 0.5
    assert config.train.schedule["warmup"] == 7


def test_more_data_gets_a_larger_model_and_larger_batches():
    assert [row.size for row in TABLE] == sorted(row.size for row in TABLE)
    batches = [row.batch_sentences or row.batch_tokens for row in TABLE]
    assert batches == sorted(batches)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"preset": "luong", "encodr": {}}, "did you mean 'encoder'"),
        ({"preset": "luong", "encoder": {"sise": 3}}, "did you mean 'size'"),
        ({"encoder": "recurent"}, "did you mean 'recurrent'"),
    ],
)
def test_wrong_models_are_named(model, says):
    with pytest.raises(SeqloomError) as raised:
        choose(make_config({"model": model}), 1000)
    assert says in str(raised.value)


def test_what_would_change_nothing_is_refused():
    whole = make_config({"model": {"preset": "luong", "size": 8}})
    choose(whole, 1000)
    for more, says in (
        ({"preset": "transformer"}, "model.preset=transformer stands beside a whole description"),
        ({"size": 16}, "model.size=16 would change nothing"),
        ({"dropout": 0.1}, "model.dropout=0.1 would change nothing"),
    ):
        with pytest.raises(OptionError) as raised:
            choose(make_config({"model": {**whole.model, **more}}), 1000)
        assert says in str(raised.value)
    layers = {"model": whole.model}, {"model": {"size": 16}}
    changed = make_config(*layers)
    choose(changed, 1000)
    assert {changed.model[part]["size"] for part in ("source", "encoder", "decoder", "output")} == {16}


def test_a_model_that_cannot_be_made_costs_no_compiling(tmp_path):
    wrong = [({"preset": "attention-lm"}, "has no source"), ({"encoder": {"sise": 3}}, "did you mean 'size'")]
    for model, says in wrong:
        with pytest.raises(SeqloomError, match=says):
            trained(tmp_path / "run", {"model": model})
        assert not (tmp_path / "run").exists()


def test_an_option_can_be_set_on_the_default_preset():
    config = make_config({"model": {"encoder": {"layers": 2}, "decoder": {"cell": "gru"}}})
    choose(config, 1000)
    assert config.model["encoder"]["layers"] == 2
    assert config.model["encoder"]["bidirectional"]
    assert config.model["decoder"]["cell"]["name"] == "gru"


@pytest.mark.parametrize(
    ("tokenizer", "targets", "metric"),
    [
        ("symbols", ["a l s t"], "wer"),
        ("character", ["aalst"], "exact"),
        ("byte", ["aalst"], "exact"),
        ("bpe", ["Ein Hund läuft weg.", "Ja."], "bleu"),
        ("character", ["Ein Hund läuft weg.", "Zwei Männer stehen am Tor."], "bleu"),
        ("bpe", ["gehe auf", "gehst auf", "schlafe"], "exact"),
        ("bpe", ACTIONS, "exact"),
        ("symbols", ACTIONS, "exact"),
        ("bpe", ["Hund", "Hunde"], "exact"),  # BLEU counts four words at a time: it would always be 0
        ("word", ["Hund", "Hunde"], "exact"),
        ("bpe", [], "exact"),
    ],
)
def test_the_metric_suits_the_target(tokenizer, targets, metric):
    field = Text(tokenizer={"name": tokenizer, "lowercase": True})
    best, *_ = field.metrics(targets)
    assert fitting(best, field) == {"name": metric, "lowercase": True}


def test_weights_are_chosen_by_a_metric_that_can_tell_single_words(tmp_path):
    folder = trained(tmp_path / "run", {"data": {"source": "byte", "target": "bpe"}, "train": {"updates": 2}})
    assert folder.read_config().train.metric == {"name": "exact"}


def test_wiring_errors_come_before_any_data_is_read(tmp_path):
    """A file that isn't there would be the first complaint of whatever reads data."""
    config = make_config(
        {"data": {"train": [str(tmp_path / "missing.tsv")]}, "model": {"decoder": {"context": "none"}}}
    )
    with pytest.raises(SeqloomError) as raised:
        train(config, tmp_path / "run", display=Display())
    assert "missing.tsv" not in str(raised.value)
    assert "decoder" in str(raised.value)
    assert not (tmp_path / "run").exists()
