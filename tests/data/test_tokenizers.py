"""Tokenizers: round trips, special tokens and files, compared with Python's Unicode and string functions."""

import json
import unicodedata
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.batch import BOS, EOS, PAD, UNK
from seqloom.data.examples import Example
from seqloom.data.fields import Fields, text_specs
from seqloom.errors import ConfigError, InputError, SeqloomError
from seqloom.registry import build, parts

TEXTS = [
    "Ein Hund, der bellt.",
    "Zwei Hunde (einer bellt) – und eine Katze!",
    "der Hund und die Katze",
    "  Leerzeichen  und\tTabulator ",
    "ein <pad> und </s> <s> <unk> <0x61> stehen da",
    "«Äpfel» & Öl: 10 % von 20 €, 𝄞 e\u0301",
] * 3
KINDS = sorted(parts("tokenizer"))
ALPHABET = "".join(sorted(set(unicodedata.normalize("NFC", "".join(TEXTS)))))


def trained(kind, texts=TEXTS, **options):
    return build("tokenizer", {"name": kind, **options}).train(iter(texts))


TRAINED = {kind: trained(kind) for kind in KINDS}


def test_all_tokenizers_are_registered():
    assert {"word", "character", "whitespace", "byte", "bpe", "unigram"} <= set(KINDS)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "whitespace"])
def test_training_texts_round_trip(kind):
    """Exactly, including repeated spaces, in the normalization form."""
    tokenizer = TRAINED[kind]
    for text, ids in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        assert tokenizer.decode([BOS, *ids, EOS, PAD]) == unicodedata.normalize("NFC", text)
        assert min(ids) > UNK


@pytest.mark.parametrize("kind", ["character", "bpe", "unigram"])
@settings(max_examples=100, deadline=None)
@given(text=st.text(ALPHABET, max_size=30))
def test_texts_of_known_characters_round_trip(kind, text):
    tokenizer = TRAINED[kind]
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode(ids) == unicodedata.normalize("NFC", text)
    assert UNK not in ids


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_bytes_equal_utf8_and_round_trip(text):
    tokenizer = trained("byte", normalize=None)
    (ids,) = tokenizer.encode([text])
    assert [id_ - 4 for id_ in ids] == list(text.encode())
    assert tokenizer.decode(ids) == text


@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(0, 255), max_size=12))
def test_invalid_utf8_can_be_decoded(ids):
    assert TRAINED["byte"].decode([id_ + 4 for id_ in ids]) == bytes(ids).decode(errors="replace")


@settings(max_examples=100, deadline=None)
@given(
    symbols=st.lists(st.sampled_from(["a", "ɛː", "t͡s", "ˈo", "<pad>"]), min_size=1),
    space=st.sampled_from([" ", "  "]),
)
def test_whitespace_separates_symbols(symbols, space):
    tokenizer = trained("whitespace", ["a ɛː t͡s ˈo <pad>"], normalize=None)
    (ids,) = tokenizer.encode([space.join(symbols)])
    assert tokenizer.tokens(ids) == symbols
    assert tokenizer.decode(ids) == " ".join(symbols)


def test_words_and_punctuation_are_tokens_and_decode_exactly():
    tokenizer = trained("word", ["Ein Hund.", "(Ein) Hund"])
    (ids,) = tokenizer.encode(["Ein Hund."])
    assert tokenizer.tokens(ids) == ["▁Ein", "▁Hund", "."]
    assert tokenizer.decode(ids) == "Ein Hund."
    (ids,) = tokenizer.encode(["Ein Vogel."])
    assert ids[1] == UNK
    assert tokenizer.tokens(ids) == ["▁Ein", "<unk>", "."]
    assert tokenizer.decode(ids) == "Ein �."


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_never_encoded_as_special_tokens(kind):
    """Not even the names of the special tokens, whether they occur in the training data or not."""
    names = ["<pad>", "<s>", "</s>", "<unk>", " <pad>", " <s>", " </s>", " <unk>", "▁<pad>", "x <pad> x"]
    for tokenizer in (TRAINED[kind], trained(kind, ["x"]), trained(kind, names)):
        for name, ids in zip(names, tokenizer.encode(names), strict=True):
            assert not {PAD, BOS, EOS} & set(ids), name
    for name, ids in zip(names, trained(kind, names).encode(names), strict=True):
        assert UNK not in ids, name


@pytest.mark.parametrize("kind", ["character", "whitespace", "bpe", "unigram"])
def test_out_of_vocabulary_symbol_is_unk(kind):
    tokenizer = TRAINED[kind]
    (ids,) = tokenizer.encode(["Hund ж Hund"])
    assert ids.count(UNK) == 1
    assert tokenizer.decode(ids) == "Hund � Hund"
    assert tokenizer.decode(torch.tensor(ids)) == "Hund � Hund"
    assert "<unk>" in tokenizer.tokens(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_empty_text_has_no_tokens(kind):
    assert TRAINED[kind].encode([""]) == [[]]
    assert TRAINED[kind].decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["nfc", "nfkc", "nfd", "nfkd", None])
def test_normalization_equals_unicodedata(kind, form):
    text = "ﬁn e\u0301 é Ⅸ"
    tokenizer = trained(kind, [text], normalize=form)
    assert tokenizer.decode(tokenizer.encode([text])[0]) == (
        text if form is None else unicodedata.normalize(form.upper(), text)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_lowercase(kind):
    tokenizer = trained(kind, ["Straße ÄPFEL"], lowercase=True)
    upper, lower = tokenizer.encode(["Straße ÄPFEL", "straße äpfel"])
    assert upper == lower
    assert tokenizer.decode(upper) == "straße äpfel"


def test_vocabulary_holds_the_most_frequent_symbols():
    texts = ["a a a a b b b c c d"]
    counts = Counter(texts[0].split())
    for size in (5, 6, 7, 8, 100):
        tokenizer = trained("whitespace", texts, vocab_size=size)
        known = {piece for piece, ids in ((p, tokenizer.encode([p])[0]) for p in counts) if ids != [UNK]}
        assert known == {piece for piece, _ in counts.most_common(size - 4)}
        assert len(tokenizer) == 4 + len(known)
    for min_frequency in (1, 2, 3, 4):
        tokenizer = trained("whitespace", texts, min_frequency=min_frequency)
        known = {piece for piece in counts if tokenizer.encode([piece]) != [[UNK]]}
        assert known == {piece for piece, count in counts.items() if count >= min_frequency}


@pytest.mark.parametrize(
    ("kind", "vocab_size"), [("bpe", 70), ("bpe", 20), ("unigram", 70), ("word", 10), ("character", 10)]
)
def test_vocabulary_size_is_limited(kind, vocab_size):
    assert len(trained(kind, vocab_size=vocab_size)) <= vocab_size


def test_bpe_merges_of_the_published_example():
    """Sennrich et al. (2016): the first merges are e s, es t, l o, lo w."""
    texts = [" ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)]
    characters = set("".join(texts).replace(" ", "▁"))
    tokenizer = trained("bpe", texts, vocab_size=4 + len(characters) + 3, min_frequency=2)
    (ids,) = tokenizer.encode(["widest lower"])
    assert "est" in tokenizer.tokens(ids)
    assert tokenizer.tokens(tokenizer.encode(["est"])[0]) == ["▁", "est"]


def test_vocabulary_size_without_learned_pieces_is_rejected():
    with pytest.raises(ConfigError, match="vocab_size=4 is invalid: it must be greater than 4"):
        trained("bpe", vocab_size=4)


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_reproducible(kind, tmp_path):
    words = [f"{a}{b}{c}" for a in "abcdefgh" for b in "ijklmnop" for c in ("qu", "r", "äß", "xyz")]
    examples = [Example(" ".join(words[i::7]), " ".join(words[i::5])) for i in range(20)]
    options = {"vocab_size": 150} if kind in ("bpe", "unigram") else {}
    files = []
    for _ in range(3):
        Fields(text_specs({"name": kind, **options}, kind)).fit(lambda: examples).save(tmp_path)
        files.append((tmp_path / "fields.json").read_bytes())
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [True, False])
def test_save_and_load_round_trip(kind, shared, tmp_path):
    examples = [Example(text, text[::-1]) for text in TEXTS]
    before = Fields(text_specs(kind, kind), shared=shared).fit(lambda: iter(examples))
    before.save(tmp_path)
    after = Fields.load(tmp_path)
    assert after.shared is shared
    assert after.same(before)
    for side in ("source", "target"):
        one, other = before[side].tokenizer, after[side].tokenizer
        ids = one.encode(TEXTS)
        assert other.encode(TEXTS) == ids
        assert [other.decode(row) for row in ids] == [one.decode(row) for row in ids]
        assert [other.tokens(row) for row in ids] == [one.tokens(row) for row in ids]
        assert (len(other), other.spec) == (len(one), one.spec)
        assert build("tokenizer", other.spec).spec == one.spec
    assert [p.name for p in tmp_path.iterdir()] == ["fields.json"]


def test_shared_tokenizer_has_a_joint_vocabulary():
    pair = [Example("a b", "c d")]
    one = Fields(text_specs("whitespace", "whitespace"), shared=True).fit(lambda: pair)
    assert all(UNK not in field.tokenizer.encode(["a b c d"])[0] for field in one.values())
    two = Fields(text_specs("whitespace", "whitespace")).fit(lambda: pair)
    assert two["source"].tokenizer.encode(["c"]) == two["target"].tokenizer.encode(["a"]) == [[UNK]]
    with pytest.raises(ConfigError, match="share_vocabulary requires equal tokenizers"):
        Fields(text_specs("whitespace", "word"), shared=True)


def test_invalid_fields_file_is_named(tmp_path):
    path = tmp_path / "fields.json"
    Fields(text_specs("word", "word")).fit(lambda: [Example("a", "b")]).save(tmp_path)
    good = path.read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"fields\.json can't be read"):
        Fields.load(tmp_path / "other")
    data = json.loads(good)
    states = data["states"]
    for bad, message in (
        (good[: len(good) // 2], "damaged"),
        (json.dumps(states["source"]["trained"]), "is not a seqloom fields file"),
        (json.dumps({**data, "version": 99}), "version 99"),
        (json.dumps({**data, "states": {**states, "source": {**states["source"], "trained": {}}}}), "damaged"),
        (json.dumps({"format": data["format"], "version": data["version"]}), "damaged"),
    ):
        path.write_text(bad, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            Fields.load(tmp_path)


@pytest.mark.parametrize("shared", [True, False])
def test_tokenizer_files_of_version_1_can_be_loaded(shared, tmp_path):
    examples = [Example(text, text[::-1]) for text in TEXTS]
    fields = Fields(text_specs("bpe", "bpe"), shared=shared).fit(lambda: examples)
    source, target = (fields[side].tokenizer.to_json() for side in ("source", "target"))
    old = {"format": "seqloom tokenizers", "version": 1, "source": source, "target": None if shared else target}
    (tmp_path / "tokenizer.json").write_text(json.dumps(old), encoding="utf-8")
    loaded = Fields.load(tmp_path)
    assert loaded.same(fields)
    assert (loaded.shared, loaded.limits) == (shared, None)
    assert [field.end for field in loaded.values()] == [False, True]


def test_fields_files_of_version_1_can_be_loaded(tmp_path):
    """Names of tokenizers and options that have changed are updated."""
    spec = {"name": "whitespace", "vocab_size": 50, "min_frequency": 1, "normalize": "nfd"}
    fields = Fields(text_specs(spec, "bpe")).fit(lambda: [Example("a b", "c d")])
    fields.save(tmp_path)
    old = json.loads((tmp_path / "fields.json").read_text(encoding="utf-8"))
    former = {"name": "symbols", "size": 50, "min_count": 1, "normalise": "nfd"}  # codespell:ignore normalise
    old |= {"version": 1, "fields": {**old["fields"], "source": {"name": "text", "tokenizer": former}}}
    old["states"]["source"]["spec"] = {**former, "lowercase": False}
    (tmp_path / "fields.json").write_text(json.dumps(old), encoding="utf-8")
    loaded = Fields.load(tmp_path)
    assert loaded.same(fields)
    assert loaded.specs == fields.specs
    assert loaded["source"].tokenizer.spec == fields["source"].tokenizer.spec


def test_invalid_text_is_named():
    for bad in ("\ud800", 3):
        with pytest.raises(InputError, match="is not valid Unicode text"):
            TRAINED["bpe"].encode(["good", bad])


def test_readable_form_of_byte_tokens():
    tokenizer = TRAINED["byte"]
    assert tokenizer.tokens([BOS, *tokenizer.encode(["a é\n"])[0], EOS]) == [
        "<s>", "a", "<20>", "<C3>", "<A9>", "<0A>", "</s>",
    ]  # fmt: skip


def test_unknown_tokenizer_or_option_is_reported_with_a_suggestion():
    with pytest.raises(SeqloomError, match="did you mean 'unigram'"):
        build("tokenizer", "unigramm")
    with pytest.raises(SeqloomError, match="did you mean 'lowercase'"):
        build("tokenizer", {"name": "byte", "lower_case": True})


def test_same_tokens_ignores_options_without_effect():
    texts = ["low lower lowest"] * 9
    one, other = (
        trained("bpe", texts, vocab_size=30, min_frequency=2),
        trained("bpe", texts, vocab_size=30, min_frequency=3),
    )
    assert one.spec != other.spec
    assert one.same_tokens(other)
    assert not one.same_tokens(trained("bpe", texts, vocab_size=12, min_frequency=2))
