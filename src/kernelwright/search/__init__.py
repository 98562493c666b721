"""What to try next: journal, state, policy, archive, budget, driver."""
