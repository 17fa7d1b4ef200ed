"""What a vocabulary is written in: 256 letters, one for each byte, and control tokens that no text can spell.

The `tokenizers` library writes each byte as one printable character. The angle bracket ⟨ (U+27E8) is none of them,
so a token that is spelled with it stands in the vocabulary without ever matching text, whatever the text says.
That is why control tokens are plain entries here and not the library's "special tokens", which do match text.
"""

from collections.abc import Sequence

from headway.errors import HeadwayError

PAD, START, END, MASK = "⟨pad⟩", "⟨s⟩", "⟨/s⟩", "⟨mask⟩"
UNKNOWN = "⟨unk⟩"  # WordPiece only. It stands for text, so it is not a control token
FIRST_CONTROLS = [PAD, START, END, MASK]
MULTIPLE = 64  # matrix kernels are fastest when the vocabulary is a multiple of this


def byte_letters() -> dict[str, int]:
    """The byte behind each letter: visible Latin-1 characters stand for themselves, the others move up from U+0100."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + n): byte for n, byte in enumerate(moved)}


def tag_spelling(tag: str) -> str:
    return f"⟨to:{tag}⟩"


def tag_of(spelling: str) -> str | None:
    return spelling[4:-1] if spelling.startswith("⟨to:") else None


def control_spellings(tags: Sequence[str]) -> list[str]:
    """The control tokens in the order of their ids: pad, start, end, mask, then one for each tag."""
    for tag in tags:
        if not tag or not all(character.isalnum() or character in "-_" for character in tag):
            raise HeadwayError(
                f'"{tag}" cannot be a language tag. Use letters, digits, "-" and "_", as in "de" or "zh-Hans".'
            )
        if list(tags).count(tag) > 1:
            raise HeadwayError(f'the language tag "{tag}" is given twice. Give each once.')
    return FIRST_CONTROLS + [tag_spelling(tag) for tag in tags]


def filler_spellings(size: int) -> list[str]:
    """Entries that stand for nothing and bring a vocabulary of `size` to a multiple of 64."""
    return [f"⟨unused:{n}⟩" for n in range(rounded_up(size) - size)]


def rounded_up(size: int) -> int:
    return -(-size // MULTIPLE) * MULTIPLE


def is_control(spelling: str) -> bool:
    """Whether a vocabulary entry is no text. A lone bracket is: WordPiece may have learned it."""
    return len(spelling) > 2 and spelling[0] == "⟨" and spelling != UNKNOWN


def utf8(text: str, where: str = "") -> bytes:
    """The text as bytes. A lone surrogate has none, and comes from reading a file with the wrong settings."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise HeadwayError(
            f"{where}the character at index {error.start} is U+{ord(text[error.start]):04X}, a lone surrogate, "
            "which no UTF-8 text can hold. Read the text as UTF-8, or replace the character."
        ) from None
