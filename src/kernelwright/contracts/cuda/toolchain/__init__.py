"""The controller's side of building a cuda candidate: from source to programs, by confined processes."""
