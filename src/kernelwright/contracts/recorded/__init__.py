"""Record and replay: what contracts share whose host code is recorded once and replayed as a program.

record.py      what a recorder process sends, as closed and bounded types
pointers.py    two records of one call at different addresses: which words are pointers
calls.py       what a function of host code is called with
convert.py     from the two records to a program; outputs onto the judge's blocks
recorder.py    runs a recorder of any contract in the sandbox, and reads its answer

The host code of a candidate runs in that sandbox alone, on tensors without data. A record is hostile data: it can say
what the `cuda` contract's plan can say, and nothing more.
"""
