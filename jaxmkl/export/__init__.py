"""Pipelines that predict without JAX: a file of arrays, and a module that needs NumPy alone.

    export_predictor(PATH, pipeline)      an npz file for :mod:`jaxmkl.export.predictor`
    program(pipeline)                     the program in StableHLO, by ``jax.export``
    export_stablehlo(PATH, pipeline)      the same in a file

The command is ``jaxmkl export PIPELINE OUT``. A part of one's own registers
:func:`jaxmkl.abilities.exported`.
"""

from jaxmkl.export.write import export_predictor, export_stablehlo, program

__all__ = ["export_predictor", "export_stablehlo", "program"]
