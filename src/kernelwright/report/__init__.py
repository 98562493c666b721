"""What a person takes away from runs: pages that can be passed on, comparisons of runs, and the best of a machine.

`model` is the view that pages are made from; `fold`, `kernel` and `subjects` make it from journals and certificates;
`html` and `markdown` write it.
"""
