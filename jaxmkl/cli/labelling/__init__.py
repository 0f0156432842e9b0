"""Labels for the rows of a table, one question after the other.

rows       a table whose rows are to be labelled
learner    a pipeline that asks at a rate, and says how sure it is
journal    the file that records each event, of serve, too
session    which row is asked for next; answers are learned by a session of tables, and undone
faces      a person at a terminal; a process that talks in JSON lines
"""
