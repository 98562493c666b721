"""What is asked of a certificate that may come from elsewhere, before it is replayed and before it counts."""
