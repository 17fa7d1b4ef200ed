"""How vocabulary entries are spelled: a byte alphabet of 256 letters, and control tokens that no text can contain.

The `tokenizers` library writes each byte as one printable character. The angle bracket ⟨ (U+27E8) is none of them, so
an entry spelled with it never matches text, whatever the text is. That is why control tokens are plain entries here
and not the library's "special tokens", which do match text.
"""

from collections.abc import Sequence

from headway.errors import HeadwayError

PAD, START, END, MASK = "⟨pad⟩", "⟨s⟩", "⟨/s⟩", "⟨mask⟩"
SENTINELS = ("⟨gap:{}⟩", "<extra_id_{}>")  # how the n-th is spelled: by us, by T5
UNKNOWN = "⟨unk⟩"  # WordPiece only. It stands for text, so it is no control token
FIXED_CONTROL_TOKENS = [PAD, START, END, MASK]
SIZE_MULTIPLE = 64  # matrix kernels are fastest when the vocabulary size is a multiple of this


def byte_alphabet() -> dict[str, int]:
    """The byte of each letter: visible Latin-1 characters stand for themselves, other bytes for U+0100 and up."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + n): byte for n, byte in enumerate(others)}


def format_tag(tag: str) -> str:
    return f"⟨to:{tag}⟩"


def parse_tag(spelling: str) -> str | None:
    return spelling[4:-1] if spelling.startswith("⟨to:") else None


def format_sentinel(index: int) -> str:
    return SENTINELS[0].format(index)


def list_control_tokens(tags: Sequence[str], sentinels: int = 0) -> list[str]:
    """The control tokens in the order of their ids: pad, start, end, mask, then one per language tag, then the
    sentinels of span corruption."""
    for tag in tags:
        if not tag or not all(character.isalnum() or character in "-_" for character in tag):
            raise HeadwayError(
                f'"{tag}" cannot be a language tag. Use letters, digits, "-" and "_", as in "de" or "zh-Hans".'
            )
        if list(tags).count(tag) > 1:
            raise HeadwayError(f'the language tag "{tag}" is given twice. Give each once.')
    return FIXED_CONTROL_TOKENS + [format_tag(tag) for tag in tags] + [format_sentinel(n) for n in range(sentinels)]


def list_filler_tokens(size: int) -> list[str]:
    """Unused entries that pad a vocabulary of `size` to a multiple of 64."""
    return [f"⟨unused:{n}⟩" for n in range(round_up_size(size) - size)]


def round_up_size(size: int) -> int:
    return -(-size // SIZE_MULTIPLE) * SIZE_MULTIPLE


def is_control_token(spelling: str) -> bool:
    """Whether an entry stands for no text. A lone bracket does stand for text: WordPiece may have learned it."""
    return len(spelling) > 2 and spelling[0] == "⟨" and spelling != UNKNOWN


def encode_utf8(text: str, where: str = "") -> bytes:
    """The text as bytes, or an error at a lone surrogate, which comes from reading a file with the wrong settings."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise HeadwayError(
            f"{where}the character at index {error.start} is U+{ord(text[error.start]):04X}, a lone surrogate, "
            "which no UTF-8 text can hold. Read the text as UTF-8, or replace the character."
        ) from None
