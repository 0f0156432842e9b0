"""A stream whose bytes come in pieces."""

import io


class Pieces(io.RawIOBase):
    """A stream that gives its bytes in pieces of these sizes, in random order."""

    def __init__(self, data, draws, sizes):
        self.data, self.draws, self.sizes = io.BytesIO(data), draws, sizes

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.data.readinto(memoryview(buffer)[: self.draws.choice(self.sizes)])
