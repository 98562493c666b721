"""From an extension to programs: nvcc in the builder's sandbox, its host code recorded, the records converted."""
