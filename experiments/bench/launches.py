"""The kernels that a compiled program launches in each round of a stream, counted in its text.

On a GPU or TPU a round of a stream takes about as long as starting its kernels, some microseconds
each, whatever they compute. So their number tells the cost of a stream there, also on a machine
that only has the compiler. On a CPU the same operations are calls of small functions.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

Operations = Sequence[tuple[str, str]]  # opcodes, and the rest of their lines
# operations without work of the device
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}
CONTROL = {"while", "conditional", "call"}
COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) [^\n]*\{\n(.*?)^\}", re.M | re.S)
OPERATION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = (?:\(.*?\)|\S+) ([\w\-]+)\((.*)$", re.M)
# the loop over a block's rounds is right inside that over blocks
OF_ROUNDS = re.compile(r'op_name="[^"]*while/body/((closed_call|eval_jaxpr)/)?while"')


def computations(text: str) -> dict[str, Operations]:
    """Return the operations of each computation of a compiled program, by its name."""
    return {name: OPERATION.findall(body) for name, body in COMPUTATION.findall(text)}


def turns_and_body(rest: str) -> tuple[int, str]:
    """Return how many turns a loop has, 1 if that is not known, and the name of its body."""
    turns, body = (
        re.search(pattern, rest)
        for pattern in (r'"known_trip_count":\{"n":"(\d+)"', r"body=%?([\w.\-]+)")
    )
    assert body is not None
    return int(turns[1]) if turns else 1, body[1]


def called(rest: str) -> list[str]:
    """Return the names of the computations that a loop, a branch or a call runs."""
    several = re.findall(r"branch_computations=\{([^}]*)\}", rest)
    one = re.findall(r"(?:body|condition|\w+_computation|to_apply)=%?([\w.\-]+)", rest)
    return [*one, *(each.strip(" %") for of in several for each in of.split(","))]


def kernels(found: Mapping[str, Operations], name: str) -> int:
    """Return how many kernels a computation launches, those of loops inside it each turn."""
    total = 0
    for opcode, rest in found[name]:
        if opcode == "while":
            turns, body = turns_and_body(rest)
            total += turns * kernels(found, body)
        elif opcode == "conditional":
            total += 1 + max(kernels(found, each) for each in called(rest))
        elif opcode == "call":
            total += sum(kernels(found, each) for each in called(rest))
        elif opcode not in FREE and not opcode.endswith("-done"):
            total += 1
    return total


def inside(found: Mapping[str, Operations], name: str) -> Iterator[str]:
    """Yield the computations that one runs, itself first, without the insides of kernels."""
    yield name
    for opcode, rest in found[name]:
        if opcode in CONTROL:
            for each in called(rest):
                yield from inside(found, each)


def num_kernels(text: str) -> int:
    """Return how many kernels a compiled program has, those of loops and branches once.

    >>> import jax
    >>> program = jax.jit(lambda x: jax.lax.fori_loop(0, 9, lambda i, x: x @ x, x))
    >>> num_kernels(program.lower(jax.numpy.eye(3)).compile().as_text()) < 9
    True
    """
    found, entry = computations(text), re.search(r"^ENTRY %?([\w.\-]+)", text, re.M)
    assert entry is not None
    names = dict.fromkeys(inside(found, entry[1]))
    return sum(
        opcode not in FREE | CONTROL and not opcode.endswith("-done")
        for name in names
        for opcode, _ in found[name]
    )


def kernels_a_round(text: str, block_size: int) -> float:
    """Return how many kernels a round launches, given the text of a driver's compiled program.

    Raises:
        ValueError: if there is no loop over the rounds of a block.
    """
    found = computations(text)
    lines = [rest for of in found.values() for opcode, rest in of if opcode == "while"]
    of_loops = [
        turns * kernels(found, body) / block_size
        for turns, body in map(turns_and_body, filter(OF_ROUNDS.search, lines))
        if block_size % turns == 0
    ]
    if not of_loops:
        raise ValueError(f"the program must have a loop over the rounds of blocks of {block_size}")
    return max(of_loops)
