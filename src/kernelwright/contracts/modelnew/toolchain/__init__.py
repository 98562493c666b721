"""A ModelNew from source to programs: recorded in a sandbox, its libraries and kernels built by builders."""
