// Empty, and linked with everything that a candidate is linked with: `ldd` of it lists what a runner has to see.
