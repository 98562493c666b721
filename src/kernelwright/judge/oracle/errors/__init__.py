"""What the errors of a candidate say over a whole judging: samples, yardstick, rules, reports. Runs in the oracle."""
