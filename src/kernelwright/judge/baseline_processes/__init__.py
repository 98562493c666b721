"""Runs in the baselines' processes: trusted, with torch."""
