"""Ways in which a file is damaged: by a power failure, a bad disk, a wrong hand."""

import random

HARMS = ("emptied", "zeroed", "halved", "garbage", "wrong type")


def harmed(content: bytes, how: str) -> bytes:
    """The content after that; `bit N` flips one bit, another one for every N."""
    draw = random.Random(how)
    if how.startswith("bit"):
        place = draw.randrange(len(content))
        return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]
    return {
        "emptied": b"",
        "zeroed": b"\0" * len(content),
        "halved": content[: len(content) // 2],
        "garbage": draw.randbytes(len(content)),
        "wrong type": b'["another", {"thing": 1}]',
    }[how]
