"""Products of matrices: by tiles that stream through a block, by dot products where they are small, by tensor cores."""
