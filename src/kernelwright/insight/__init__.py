"""Why it is slow, and whether that means anything: what a task costs at least, and what is weak about it."""
