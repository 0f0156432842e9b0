"""Labels for the rows of a table, one question after the other.

rows       a table whose rows are to be labelled
learner    a learner that asks within a budget
journal    the file that records each event
session    which row is asked for next, how answers are learned and undone
faces      a person at a terminal; a process that talks in JSON lines
"""
