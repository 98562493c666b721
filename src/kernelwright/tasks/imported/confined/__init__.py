"""What runs beside a stranger's code, in the sandbox. Nothing in here is believed by what reads its output."""
