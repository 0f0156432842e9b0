"""A DataFrame of columns of every kind, for tests of tables."""

import datetime

import polars as pl


def mixed_frame(draws, number, name, words):
    """Numbers with gaps, counts, words, days, truth values, and the target y, of ``number`` rows.

    ``name`` is that of the column of ``words``.
    """
    frame = pl.DataFrame(
        {
            "size": draws.normal(size=number).round(3),
            "count": draws.integers(0, 9, number),
            name: draws.choice(words, number),
            "day": [datetime.date(2020, 1, 1) + datetime.timedelta(i) for i in range(number)],
            "grown": draws.random(number) < 0.5,
            "y": (draws.random(number) * 100).round(2),
        }
    )
    return frame.with_columns(pl.when(pl.col("count") > 0).then("size"))
