"""The controller's side of judging on a CPU."""
