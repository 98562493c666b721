"""All that is decided in a search, as pure functions of its events: no clock, no files, no threads, no processes."""
