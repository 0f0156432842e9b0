"""Random bits of counters by plain integers, one at a time."""

M = 2**32


def hashed(seed, *words):
    """Wellons' triple32, over all words in turn."""
    h = int(seed) % M
    for word in words:
        h = (h + 0x9E3779B9) % M ^ int(word) % M
        for shift, factor in ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB)):
            h = (h ^ h >> shift) * factor % M
        h ^= h >> 14
    return h


def uniform(bits):
    return (bits >> 8) / 2**24
