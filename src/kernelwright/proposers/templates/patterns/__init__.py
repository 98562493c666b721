"""What the proposer recognises: one module for each pattern."""
