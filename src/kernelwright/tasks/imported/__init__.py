"""Tasks of strangers: problem files that are traced in a sandbox, so that only what they compute comes in, as data."""
