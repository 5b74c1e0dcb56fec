"""Tokenizers: round trips, special symbols, files; against Python's own Unicode and string functions."""

import json
import unicodedata
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.batch import END, PAD, START, UNKNOWN
from seqloom.data.examples import Example
from seqloom.data.fields import Fields, text_specs
from seqloom.errors import InputError, OptionError, SeqloomError
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


def test_all_kinds_are_there():
    assert {"word", "character", "symbols", "byte", "bpe", "unigram"} <= set(KINDS)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "symbols"])
def test_what_was_seen_round_trips(kind):
    """Exactly, runs of spaces and all; in the Unicode form that was asked for."""
    tokenizer = TRAINED[kind]
    for text, ids in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        assert tokenizer.decode([START, *ids, END, PAD]) == unicodedata.normalize("NFC", text)
        assert min(ids) > UNKNOWN


@pytest.mark.parametrize("kind", ["character", "bpe", "unigram"])
@settings(max_examples=100, deadline=None)
@given(text=st.text(ALPHABET, max_size=30))
def test_any_text_of_known_characters_round_trips(kind, text):
    tokenizer = TRAINED[kind]
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode(ids) == unicodedata.normalize("NFC", text)
    assert UNKNOWN not in ids


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_bytes_are_those_of_utf8_and_round_trip(text):
    tokenizer = trained("byte", normalise=None)
    (ids,) = tokenizer.encode([text])
    assert [id_ - 4 for id_ in ids] == list(text.encode())
    assert tokenizer.decode(ids) == text


@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(0, 255), max_size=12))
def test_any_bytes_can_be_decoded(ids):
    assert TRAINED["byte"].decode([id_ + 4 for id_ in ids]) == bytes(ids).decode(errors="replace")


@settings(max_examples=100, deadline=None)
@given(
    symbols=st.lists(st.sampled_from(["a", "ɛː", "t͡s", "ˈo", "<pad>"]), min_size=1),
    space=st.sampled_from([" ", "  "]),
)
def test_symbols_are_separated_by_spaces(symbols, space):
    tokenizer = trained("symbols", ["a ɛː t͡s ˈo <pad>"], normalise=None)
    (ids,) = tokenizer.encode([space.join(symbols)])
    assert tokenizer.tokens(ids) == symbols
    assert tokenizer.decode(ids) == " ".join(symbols)


def test_words_have_punctuation_apart_and_are_put_together_exactly():
    tokenizer = trained("word", ["Ein Hund.", "(Ein) Hund"])
    (ids,) = tokenizer.encode(["Ein Hund."])
    assert tokenizer.tokens(ids) == ["▁Ein", "▁Hund", "."]
    assert tokenizer.decode(ids) == "Ein Hund."
    (ids,) = tokenizer.encode(["Ein Vogel."])
    assert ids[1] == UNKNOWN
    assert tokenizer.tokens(ids) == ["▁Ein", "<unk>", "."]
    assert tokenizer.decode(ids) == "Ein �."


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_becomes_a_special_symbol(kind):
    """Not even the special symbols' own names, whether they were seen in training or not."""
    names = ["<pad>", "<s>", "</s>", "<unk>", " <pad>", " <s>", " </s>", " <unk>", "▁<pad>", "x <pad> x"]
    for tokenizer in (TRAINED[kind], trained(kind, ["x"]), trained(kind, names)):
        for name, ids in zip(names, tokenizer.encode(names), strict=True):
            assert not {PAD, START, END} & set(ids), name
    for name, ids in zip(names, trained(kind, names).encode(names), strict=True):
        assert UNKNOWN not in ids, name


@pytest.mark.parametrize("kind", ["character", "symbols", "bpe", "unigram"])
def test_an_unknown_symbol_is_unknown(kind):
    tokenizer = TRAINED[kind]
    (ids,) = tokenizer.encode(["Hund ж Hund"])
    assert ids.count(UNKNOWN) == 1
    assert tokenizer.decode(ids) == "Hund � Hund"
    assert tokenizer.decode(torch.tensor(ids)) == "Hund � Hund"
    assert "<unk>" in tokenizer.tokens(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_text_has_no_tokens(kind):
    assert TRAINED[kind].encode([""]) == [[]]
    assert TRAINED[kind].decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["nfc", "nfkc", "nfd", "nfkd", None])
def test_normalisation_is_that_of_unicode(kind, form):
    text = "ﬁn e\u0301 é Ⅸ"
    tokenizer = trained(kind, [text], normalise=form)
    assert tokenizer.decode(tokenizer.encode([text])[0]) == (
        text if form is None else unicodedata.normalize(form.upper(), text)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_lowercase_drops_case(kind):
    tokenizer = trained(kind, ["Straße ÄPFEL"], lowercase=True)
    upper, lower = tokenizer.encode(["Straße ÄPFEL", "straße äpfel"])
    assert upper == lower
    assert tokenizer.decode(upper) == "straße äpfel"


def test_the_most_frequent_are_known():
    texts = ["a a a a b b b c c d"]
    counts = Counter(texts[0].split())
    for size in (5, 6, 7, 8, 100):
        tokenizer = trained("symbols", texts, size=size)
        known = {piece for piece, ids in ((p, tokenizer.encode([p])[0]) for p in counts) if ids != [UNKNOWN]}
        assert known == {piece for piece, _ in counts.most_common(size - 4)}
        assert len(tokenizer) == 4 + len(known)
    for least in (1, 2, 3, 4):
        tokenizer = trained("symbols", texts, min_count=least)
        known = {piece for piece in counts if tokenizer.encode([piece]) != [[UNKNOWN]]}
        assert known == {piece for piece, count in counts.items() if count >= least}


@pytest.mark.parametrize(
    ("kind", "size"), [("bpe", 70), ("bpe", 20), ("unigram", 70), ("word", 10), ("character", 10)]
)
def test_the_vocabulary_keeps_to_its_size(kind, size):
    assert len(trained(kind, size=size)) <= size


def test_merges_are_those_of_byte_pair_encoding():
    """The published example (Sennrich et al., 2016), whose first merges are e s, es t, l o, lo w."""
    texts = [" ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)]
    characters = set("".join(texts).replace(" ", "▁"))
    tokenizer = trained("bpe", texts, size=4 + len(characters) + 3, min_count=2)
    (ids,) = tokenizer.encode(["widest lower"])
    assert "est" in tokenizer.tokens(ids)
    assert tokenizer.tokens(tokenizer.encode(["est"])[0]) == ["▁", "est"]


def test_a_size_without_room_is_refused():
    with pytest.raises(OptionError, match="leaves no room"):
        trained("bpe", size=4)


@pytest.mark.parametrize("kind", KINDS)
def test_training_again_gives_the_same_file(kind, tmp_path):
    words = [f"{a}{b}{c}" for a in "abcdefgh" for b in "ijklmnop" for c in ("qu", "r", "äß", "xyz")]
    examples = [Example(" ".join(words[i::7]), " ".join(words[i::5])) for i in range(20)]
    options = {"size": 150} if kind in ("bpe", "unigram") else {}
    files = []
    for _ in range(3):
        Fields(text_specs({"name": kind, **options}, kind)).fit(lambda: examples).save(tmp_path)
        files.append((tmp_path / "fields.json").read_bytes())
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [True, False])
def test_saved_and_loaded_is_the_same(kind, shared, tmp_path):
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


def test_a_shared_tokenizer_knows_both_sides():
    pair = [Example("a b", "c d")]
    one = Fields(text_specs("symbols", "symbols"), shared=True).fit(lambda: pair)
    assert all(UNKNOWN not in field.tokenizer.encode(["a b c d"])[0] for field in one.values())
    two = Fields(text_specs("symbols", "symbols")).fit(lambda: pair)
    assert two["source"].tokenizer.encode(["c"]) == two["target"].tokenizer.encode(["a"]) == [[UNKNOWN]]
    with pytest.raises(OptionError, match="shared"):
        Fields(text_specs("symbols", "word"), shared=True)


def test_a_damaged_or_foreign_file_is_named(tmp_path):
    path = tmp_path / "fields.json"
    Fields(text_specs("word", "word")).fit(lambda: [Example("a", "b")]).save(tmp_path)
    good = path.read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"fields\.json can't be read"):
        Fields.load(tmp_path / "other")
    data = json.loads(good)
    states = data["states"]
    for bad, said in (
        (good[: len(good) // 2], "damaged"),
        (json.dumps(states["source"]["trained"]), "no seqloom fields"),
        (json.dumps({**data, "version": 99}), "version 99"),
        (json.dumps({**data, "states": {**states, "source": {**states["source"], "trained": {}}}}), "damaged"),
        (json.dumps({"format": data["format"], "version": data["version"]}), "damaged"),
    ):
        path.write_text(bad, encoding="utf-8")
        with pytest.raises(InputError, match=said):
            Fields.load(tmp_path)


@pytest.mark.parametrize("shared", [True, False])
def test_the_tokenizers_of_older_versions_are_read(shared, tmp_path):
    examples = [Example(text, text[::-1]) for text in TEXTS]
    fields = Fields(text_specs("bpe", "bpe"), shared=shared).fit(lambda: examples)
    source, target = (fields[side].tokenizer.to_json() for side in ("source", "target"))
    old = {"format": "seqloom tokenizers", "version": 1, "source": source, "target": None if shared else target}
    (tmp_path / "tokenizer.json").write_text(json.dumps(old), encoding="utf-8")
    loaded = Fields.load(tmp_path)
    assert loaded.same(fields)
    assert (loaded.shared, loaded.limits) == (shared, None)
    assert [field.end for field in loaded.values()] == [False, True]


def test_what_is_no_text_is_named():
    for bad in ("\ud800", 3):
        with pytest.raises(InputError, match="no text"):
            TRAINED["bpe"].encode(["good", bad])


def test_bytes_are_shown_to_people():
    tokenizer = TRAINED["byte"]
    assert tokenizer.tokens([START, *tokenizer.encode(["a é\n"])[0], END]) == [
        "<s>", "a", "<20>", "<C3>", "<A9>", "<0A>", "</s>",
    ]  # fmt: skip


def test_an_unknown_kind_or_option_is_named():
    with pytest.raises(SeqloomError, match="did you mean 'unigram'"):
        build("tokenizer", "unigramm")
    with pytest.raises(SeqloomError, match="did you mean 'lowercase'"):
        build("tokenizer", {"name": "byte", "lower_case": True})


def test_the_same_tokens_however_they_were_made():
    texts = ["low lower lowest"] * 9
    one, other = trained("bpe", texts, size=30, min_count=2), trained("bpe", texts, size=30, min_count=3)
    assert one.spec != other.spec
    assert one.same_tokens(other)
    assert not one.same_tokens(trained("bpe", texts, size=12, min_count=2))
