"""Runs in the controller: blocks of timed trials, what their times say, and what disturbed them."""
