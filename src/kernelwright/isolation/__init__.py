"""What a process may reach: levels and roles, the warden that confines and times a process, channels between them."""
