"""Windows that slide over images: convolutions and pooling, forward and backward."""
