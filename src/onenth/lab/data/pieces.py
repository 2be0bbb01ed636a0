"""Pieces of words as tokens, by sentencepiece: any text comes back as it was.

Text is neither normalised nor stripped, and a character that has no piece is spelled in bytes. sentencepiece
writes a space as U+2581, so that this one in a text would come back as a space: it is written as two others
before (`_escaped`).

A model file is sentencepiece's own and can be read by it. It ends with a field that sentencepiece passes
over, the SHA-256 of all before: a damaged file is told from a whole one before sentencepiece sees it.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Literal

import sentencepiece

from onenth.lab.data.aside import write
from onenth.lab.data.special import BOS, EOS, PAD, SPECIAL, UNK, checked
from onenth.lab.errors import Problem

_SPACE, _ESCAPE = "\u2581", "\ue000"
_FIELD = b"\xc2\x3e\x20"  # of protobuf: number 1000, 32 bytes follow
_SETTINGS: dict[str, Any] = {
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "add_dummy_prefix": False,
    "max_sentence_length": 1 << 30,  # bytes; longer ones are passed over without a word
    "num_threads": 1,  # with more, the result is not the same every time
    "pad_id": PAD,
    "bos_id": BOS,
    "eos_id": EOS,
    "unk_id": UNK,
    "pad_piece": SPECIAL[0],
}
_BYTES = 256
_LEAST = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")

Kind = Literal["unigram", "bpe"]


class Pieces:
    """A sentencepiece model.

    Example:
        >>> with tempfile.TemporaryDirectory() as cache:
        ...     pieces = Pieces.train(["the key", "the keys"] * 9, size=300, cache=Path(cache))
        >>> pieces.decode(pieces.encode(" the  monkeys "))
        ' the  monkeys '
    """

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def train(cls, texts: Iterable[str], size: int, cache: Path, kind: Kind = "bpe") -> "Pieces":
        """A model of the texts, each without a newline, which may be a stream: they are read once.

        Args:
            size: the most pieces, of which 4 are special tokens and 256 are bytes. `len` says how many there
                are: fewer, where the texts have no more to offer.
            cache: a folder. A model of the same texts and settings is taken from there, or left there.
            kind: how pieces are chosen.
        """
        settings = _SETTINGS | {"model_type": kind, "vocab_size": size}
        if size <= len(SPECIAL) + _BYTES:
            raise Problem(f"size={size} pieces are fewer than the special tokens and the bytes: "
                          f"give at least {len(SPECIAL) + _BYTES + 1}")  # fmt: skip
        _folder(cache)
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", dir=cache) as spool:
            digest = _spooled(texts, settings, spool)
            path = cache / f"{digest}.model"
            try:
                return cls.load(path)
            except Problem:  # there is none, or it is damaged: made anew, it is the same
                trained = cls(_trained(spool, settings))
                trained.save(path)
                return trained

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """The ids of a text's pieces, without bos and eos."""
        return list(self._processor.encode(_escaped(text)))

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` for many, faster."""
        return list(self._processor.encode([_escaped(text) for text in texts]))

    def decode(self, ids: Iterable[int]) -> str:
        """The text, without pad, bos and eos. Bytes that are not UTF-8 become U+FFFD."""
        known = [index for index in checked(ids, len(self)) if index >= UNK]
        return _restored(self._processor.decode(known))

    def save(self, path: Path) -> None:
        """Writes the model, and the field that `load` knows it by."""
        write(path, self._model + _FIELD + hashlib.sha256(self._model).digest())

    @classmethod
    def load(cls, path: Path) -> "Pieces":
        """What `save` wrote; any other file is refused."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise Problem.at(path, None, f"it cannot be read ({error.strerror})", "check the name") from error
        model, field, digest = content[:-35], content[-35:-32], content[-32:]
        if field != _FIELD or digest != hashlib.sha256(model).digest():
            what = "this is damaged, or no file that Pieces.save wrote"
            raise Problem.at(path, None, what, "fetch it again, or train the pieces again")
        return cls(model)


def _escaped(text: str) -> str:
    return text.replace(_ESCAPE, _ESCAPE + "0").replace(_SPACE, _ESCAPE + "1")


def _restored(text: str) -> str:
    spaced = text.replace(_SPACE, " ")  # spelled in bytes, by a model of texts without spaces
    return spaced.replace(_ESCAPE + "1", _SPACE).replace(_ESCAPE + "0", _ESCAPE)


def _folder(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remedy = "name a folder that can be made or is there"
        raise Problem.at(cache, None, f"it cannot be made ({error.strerror})", remedy) from error


def _spooled(texts: Iterable[str], settings: Mapping[str, Any], spool: IO[str]) -> str:
    """Copies the texts to a file, a line each, and returns SHA-256 of them and the settings."""
    known = {"sentencepiece": sentencepiece.__version__, "escape": _ESCAPE, **settings}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode() + b"\n")
    letters = False
    for number, text in enumerate(texts, 1):
        for character, name in (("\n", "a newline"), ("\0", "a NUL")):
            if character in text:
                raise Problem(f"text {number} of a vocabulary has {name} in it: remove it, or split the text")
        line = _escaped(text) + "\n"
        letters = letters or not line.isspace()
        digest.update(line.encode())
        spool.write(line)
    if not letters:
        raise Problem("the texts are empty: give texts to train pieces on")
    return digest.hexdigest()


def _trained(spool: IO[str], settings: Mapping[str, Any]) -> bytes:
    spool.seek(0)
    model = BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line.removesuffix("\n") for line in spool),
            model_writer=model,
            hard_vocab_limit=False,
            minloglevel=2,
            **settings,
        )
    except RuntimeError as error:
        size, least = settings["vocab_size"], _LEAST.search(str(error))
        if least:
            raise Problem(f"size={size} pieces are fewer than the special tokens, the bytes and the "
                          f"characters of the texts: give at least {least[1]}") from None  # fmt: skip
        raise Problem(f"there is too little text to train size={size} pieces on: give more text, "
                      f"or another size (sentencepiece: {str(error).strip()})") from error  # fmt: skip
    return model.getvalue()
