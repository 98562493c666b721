"""Launches a program on a device, without the judge: used by the judge's launcher and by a kernel that left."""
