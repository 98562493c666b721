"""The oracle: a long-lived trusted process that draws inputs, computes references and compares outputs.

Nothing of a candidate is ever loaded here; all that reaches it of one is the bytes that it wrote into its outputs.
"""
