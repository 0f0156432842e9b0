"""Predictions for processes, and labels from them, in lines of JSON.

requests   lines are read as requests, and cut from a stream of bytes
events     the journal and the snapshots, from which the same command goes on
learning   events are applied in order, in a thread of its own
server     requests of all clients, one group after the other
metrics    counts, errors and times, in Prometheus' text form
faces      standard input, a Unix socket, HTTP
"""
