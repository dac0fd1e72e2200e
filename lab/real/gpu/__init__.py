"""This project's program on the real GPUs of this machine."""
