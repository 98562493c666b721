"""What a launcher names in place of the driver's word, where a step that torch carries out does not go well."""

LIBRARY_REFUSED = "LIBRARY_STEP_REFUSED"  # this launcher cannot carry it out, whoever wrote it
LIBRARY_WAITS = "LIBRARY_STEP_WAITS"  # it waits for the GPU while the queue of a timed call is being filled
LIBRARY_FAILED = "LIBRARY_STEP_FAILED"  # torch refuses the arguments
