"""A trained tokenizer of one side: text to ids and back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers as library

from seqloom.batch import END, PAD, START, UNKNOWN
from seqloom.errors import InputError, SeqloomError

# A space inside: no cutter leaves one in a longer piece of text, so no text, not even "<pad>", becomes one of these.
UNKNOWN_PIECE = " <unk>"
SPECIAL = {" <pad>": PAD, " <s>": START, " </s>": END, UNKNOWN_PIECE: UNKNOWN}
SKIPPED = frozenset((PAD, START, END))


class Tokenizer:
    """Text to ids and back, for one side.

    trained: the library's tokenizer. Its vocabulary begins with ``SPECIAL``; it adds no START and no END.
    spec: name and options it was trained with.
    unknown: what an unknown token is in decoded text.
    """

    def __init__(self, trained: library.Tokenizer, *, spec: Mapping[str, Any], unknown: str) -> None:
        self.spec = dict(spec)
        self._unknown = unknown
        self._trained = trained
        self._decoder = trained.decoder
        pieces = {id_: piece for piece, id_ in trained.get_vocab().items()}
        if any(pieces.get(id_) != piece for piece, id_ in SPECIAL.items()) or len(pieces) != max(pieces) + 1:
            raise SeqloomError("this tokenizer's vocabulary does not begin with seqloom's special symbols")
        self._pieces = [pieces[id_] for id_ in range(len(pieces))]
        self._pieces[UNKNOWN] = unknown

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of every text, without START and END."""
        try:
            return [encoding.ids for encoding in self._trained.encode_batch_fast(list(texts))]
        except (TypeError, UnicodeEncodeError):
            raise InputError(f"{_culprit(texts)!r} is no text of whole characters") from None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; PAD, START and END are left out, unknown tokens show as �."""
        pieces = [self._pieces[id_] for id_ in map(int, ids) if id_ not in SKIPPED]
        return " ".join(pieces) if self._decoder is None else self._decoder.decode(pieces)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """What each token looks like to a person: ▁ begins a word, ``<0A>`` is a byte that can't be seen."""
        special = [piece.strip() for piece in SPECIAL]
        return [special[id_] if id_ < len(special) else self._shown(self._pieces[id_]) for id_ in map(int, ids)]

    def _shown(self, piece: str) -> str:
        if not isinstance(self._decoder, library.decoders.ByteLevel):
            return piece
        return piece if piece.isascii() else f"<{BYTES.index(piece):02X}>"

    def same_tokens(self, other: "Tokenizer") -> bool:
        """Whether both cut every text alike, into the same numbers, however they were made."""
        mine, others = self.to_json(), other.to_json()
        return all(mine[key] == others[key] for key in ("unknown", "trained"))

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {"spec": self.spec, "unknown": self._unknown, "trained": json.loads(self._trained.to_str())}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Tokenizer":
        """What ``to_json`` gave, as a tokenizer again."""
        return cls(
            library.Tokenizer.from_str(json.dumps(data["trained"])), spec=data["spec"], unknown=data["unknown"]
        )


def _culprit(texts: Sequence[Any]) -> Any:
    """The first of the texts that can't be encoded."""
    for text in texts:
        try:
            text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError):
            return text
    return texts


def _byte_alphabet() -> list[str]:
    """The visible character that stands for each byte in the library: itself, or one from 256 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in visible]
    return [chr(byte if byte in visible else 256 + others.index(byte)) for byte in range(256)]


BYTES = _byte_alphabet()
