"""Labels for the rows of a table, one question after the other.

rows       a table whose rows are to be labelled
learner    a learner that asks within a budget
journal    the file that keeps each event as it comes
session    which row is asked for next, what is learned, undo
faces      a person at a terminal; a process, by JSON lines
"""
