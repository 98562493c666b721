"""The judge on an NVIDIA GPU: memory shared by descriptor, a launcher that replays plans made of data, its clocks."""
