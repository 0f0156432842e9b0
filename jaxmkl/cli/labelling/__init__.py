"""Labels for the rows of a table, one question after the other.

core       which row is asked for next, what is learned, undo
journal    the file that keeps each event as it comes
rows       a table whose rows are to be labelled
person     a person at a terminal
lines      a process, by JSON lines
"""
