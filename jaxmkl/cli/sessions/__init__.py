"""Sessions of the commands: rows that wait for labels, learned as these come, and their faces.

journal    each event is on the disk before it is acknowledged

ask        questions, one after the other:
questions  which row of a table is asked for next; answers are learned, and undone
terminal   a person at a terminal; a process that talks in JSON lines

serve      predictions for processes, and labels from them:
requests   lines of JSON are read as requests, and cut from a stream of bytes
learning   events are applied in order, in a thread of its own
server     requests of all clients, one group after the other; the journal and its snapshots
metrics    counts, errors and times, in Prometheus' text form
network    standard input, a Unix socket, HTTP
"""
