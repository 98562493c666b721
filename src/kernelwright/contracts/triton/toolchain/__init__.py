"""The controller's side of a Triton module: recorded in the sandbox, assembled by the builder, made into programs."""
