"""Products whose operands are gathered as they are needed: convolutions of every kind, and stacks of products."""
