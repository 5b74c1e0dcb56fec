"""Files of pairs on the command line."""

from collections.abc import Sequence

TAKES_FILES = ("--train", "--dev", "--data")
CONFIGURATION = (".yaml", ".yml")


def gathered(arguments: Sequence[str]) -> list[str]:
    """``--train a.de a.en`` as ``--train a.de --train a.en``: what a shell makes of ``--train a.{de,en}``.

    Words are taken until the next option; a configuration (``.yaml``) is never one of the files.
    """
    words: list[str] = []
    option: str | None = None
    for word in arguments:
        if word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            option = name if name in TAKES_FILES else None
            words.append(word)
        elif option is None or word.endswith(CONFIGURATION):
            words.append(word)
            option = None
        else:
            words += [word] if words[-1] == option else [option, word]
    return words
