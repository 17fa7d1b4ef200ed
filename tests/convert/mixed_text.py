"""Mixed text: many scripts, emoji, control characters, spaces of all kinds. The same seed gives the same lines."""

import random

RANGES = [
    (0x21, 0x7E), (0xA1, 0x17F), (0x1E00, 0x1EFF), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x556), (0x5D0, 0x5EA),
    (0x620, 0x64A), (0x64B, 0x652), (0x660, 0x669), (0x904, 0x939), (0x93E, 0x94D), (0x995, 0x9B9), (0xE01, 0xE4E),
    (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x1248), (0x13A0, 0x13EF), (0x2010, 0x2027), (0x2030, 0x205E),
    (0x2070, 0x209C), (0x20A0, 0x20BF), (0x2100, 0x214F), (0x2160, 0x2188), (0x2190, 0x21FF), (0x2460, 0x24FF),
    (0x2600, 0x27BF), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x3300, 0x33FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3),
    (0xFB00, 0xFB06), (0xFE30, 0xFE4F), (0xFF01, 0xFF9D), (0x1D400, 0x1D7FF), (0x1F1E6, 0x1F1FF), (0x1F300, 0x1F6FF),
    (0x20000, 0x2A6DF), (0x300, 0x36F), (0xE000, 0xE0FF),
]  # fmt: skip
SPACES = [" "] * 12 + ["  ", "   ", "\t", "\u00a0", "\u3000", "\u2009", "\u202f", "\u2028", "\u1680", "\n", "\r\n", ""]
CONTROLS = [chr(n) for n in (*range(1, 32), 0, 0x7F, *range(0x80, 0xA0), 0xAD, 0x34F, 0x200B, 0x200C, 0x200D, 0x200E)]
CONTROLS += [chr(n) for n in (0x202A, 0x202C, 0x2060, 0x2066, 0xFEFF, 0xFFFC, 0xFFFD, 0xE0001, 0x10FFFF, 0x378)]
EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "1️⃣", "❤️", "☃", "😀", "🤷🏿‍♀️"]
TEXT = (
    "the dog sees a red house and cats garden tokenisation naïve Straße ÉCOLE Ærø İstanbul don't it's 3.14 1,000 2024 "
    "x=y+1 http://a.b/c?d=e user@example.org #tag C++ e.g. U.S.A. __init__ ▁ ▁x ## ##s <0x41> Ġ Ċ привет мир 你好世界 "
    "こんにちは 안녕하세요 שלום مرحبا नमस्ते สวัสดี ΑΘΗΝΑ ﬁne ﬃ ① ½ ™ ℃ Ǆ ß ſ İ ı"
)
WORDS = TEXT.split()
SYLLABLES = [c + v for c in [*"bdfklmnprstwz", "ch", "gr", "qu", "st"] for v in [*"aeiou", "ou"]]


def make_lines(count: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [make_line(draw) for _ in range(count)]


def make_line(draw: random.Random) -> str:
    line = draw.choice(["", "", "", " ", "  ", "\t"])
    for _ in range(draw.randrange(12)):
        line += make_word(draw) + draw.choice(SPACES)
    return line


def make_word(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.5:
        word = draw.choice([draw.choice(WORDS), "".join(draw.choices(SYLLABLES, k=draw.randint(1, 4)))])
        return draw.choice([word, word, word.upper(), word.capitalize(), word + draw.choice(WORDS)])
    if kind < 0.85:
        low, high = draw.choice(RANGES)
        return "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 6)))
    if kind < 0.93:
        return draw.choice(EMOJI) + draw.choice(["", draw.choice(WORDS)])
    return draw.choice(WORDS)[:3] + draw.choice(CONTROLS) + draw.choice(WORDS)[3:]


def make_training_lines(count: int = 1000, seed: int = 2) -> list[str]:
    """Text to train a small tokenizer on: mostly words, so that there is something to merge."""
    draw = random.Random(seed)
    common = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(400)] + WORDS * 3
    return [" ".join(draw.choices(common, k=12)) for _ in range(count)] + make_lines(30, seed)
