"""Pipelines that predict without JAX: a file of arrays, and a module that needs NumPy alone.

    export_predictor(PATH, pipeline)      an npz file for :mod:`jaxmkl.export.predictor`
    export_stablehlo(PATH, pipeline)      the program in StableHLO, by ``jax.export``

The command is ``jaxmkl export PIPELINE OUT``. A part of one's own registers
:func:`jaxmkl.abilities.exported`.
"""

from jaxmkl.export.write import export_predictor, export_stablehlo

__all__ = ["export_predictor", "export_stablehlo"]
