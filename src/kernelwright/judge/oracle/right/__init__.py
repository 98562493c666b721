"""What counts as right: what each result of a trial is held against, and how."""
