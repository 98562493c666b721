"""What kernels run on: probing, and the lock that keeps measurements apart."""
