"""The built-in tasks: one file each, written exactly as a user's task file. `resolve` finds them by name."""
