"""A trained tokenizer: text to token ids and back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers as library

from seqloom.batch import BOS, EOS, PAD, UNK
from seqloom.errors import InputError, SeqloomError

# The names contain a space: no pre-tokenizer leaves a space inside a longer piece, so that no text, not even "<pad>",
# is encoded as a special token.
UNK_PIECE = " <unk>"
SPECIAL_TOKENS = {" <pad>": PAD, " <s>": BOS, " </s>": EOS, UNK_PIECE: UNK}
NOT_DECODED = frozenset((PAD, BOS, EOS))


class Tokenizer:
    """Converts text to token ids and back.

    trained: tokenizer of the library. Its vocabulary starts with ``SPECIAL_TOKENS``; it adds neither BOS nor EOS.
    spec: name and options of its trainer.
    unk_text: text that UNK is decoded as.
    """

    def __init__(self, trained: library.Tokenizer, *, spec: Mapping[str, Any], unk_text: str) -> None:
        self.spec = dict(spec)
        self._unk_text = unk_text
        self._trained = trained
        self._decoder = trained.decoder
        pieces = {id_: piece for piece, id_ in trained.get_vocab().items()}
        if any(pieces.get(id_) != piece for piece, id_ in SPECIAL_TOKENS.items()) or len(pieces) != max(pieces) + 1:
            raise SeqloomError("the vocabulary of this tokenizer does not start with seqloom's special tokens")
        self._pieces = [pieces[id_] for id_ in range(len(pieces))]
        self._pieces[UNK] = unk_text

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, without BOS and EOS."""
        try:
            return [encoding.ids for encoding in self._trained.encode_batch_fast(list(texts))]
        except (TypeError, UnicodeEncodeError):
            raise InputError(f"{_first_invalid(texts)!r} is not valid Unicode text") from None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, without PAD, BOS and EOS; UNK is decoded as �."""
        pieces = [self._pieces[id_] for id_ in map(int, ids) if id_ not in NOT_DECODED]
        return " ".join(pieces) if self._decoder is None else self._decoder.decode(pieces)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each token in readable form: ▁ marks the start of a word, ``<0A>`` is a byte that is not visible ASCII."""
        special = [piece.strip() for piece in SPECIAL_TOKENS]
        return [special[id_] if id_ < len(special) else self._readable(self._pieces[id_]) for id_ in map(int, ids)]

    def _readable(self, piece: str) -> str:
        if not isinstance(self._decoder, library.decoders.ByteLevel):
            return piece
        return piece if piece.isascii() else f"<{BYTES.index(piece):02X}>"

    def same_tokens(self, other: "Tokenizer") -> bool:
        """Whether both tokenize every text into the same ids, however they were trained."""
        mine, others = self.to_json(), other.to_json()
        return all(mine[key] == others[key] for key in ("unknown", "trained"))

    def to_json(self) -> dict[str, Any]:
        """The tokenizer as JSON-serializable data."""
        return {"spec": self.spec, "unknown": self._unk_text, "trained": json.loads(self._trained.to_str())}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Tokenizer":
        """Load the tokenizer from the result of ``to_json``."""
        return cls(
            library.Tokenizer.from_str(json.dumps(data["trained"])), spec=data["spec"], unk_text=data["unknown"]
        )


def _first_invalid(texts: Sequence[Any]) -> Any:
    """The first of the texts that can't be encoded."""
    for text in texts:
        try:
            text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError):
            return text
    return texts


def _byte_alphabet() -> list[str]:
    """The printable character that represents each byte in the library: the byte itself, or a code point from 256."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte if byte in printable else 256 + others.index(byte)) for byte in range(256)]


BYTES = _byte_alphabet()
